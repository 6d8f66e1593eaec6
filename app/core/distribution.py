"""The name under which this program is installed, which knows its version."""

DISTRIBUTION = "kappa-novelty"
