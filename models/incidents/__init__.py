"""Joins episodes that belong together into incidents."""
