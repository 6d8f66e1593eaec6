"""Distributions, tests and calibration: numbers in, numbers out."""
