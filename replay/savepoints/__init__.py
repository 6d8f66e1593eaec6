"""Savepoints: taken from running jobs or from a replay, checked, listed and dropped."""
