"""Detectors of other libraries in the place of the univariate model: see `model`."""
