"""Versions of results: which one serves, who runs its jobs, and where these begin."""
