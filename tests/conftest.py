"""What holds for all tests."""

from hypothesis import settings

# Times belong in `make bench`: a busy machine must not fail a property.
settings.register_profile("kappa", deadline=None)
settings.load_profile("kappa")
