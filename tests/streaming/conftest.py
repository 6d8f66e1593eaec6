"""Streaming tests run on the session of tests/conftest.py, on records made by hand."""
