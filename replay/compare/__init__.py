"""Versions of results held against each other, and against what is known to be true."""
