"""Bounded runs over the log, savepoints, comparison and promotion of versions."""
