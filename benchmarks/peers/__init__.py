"""Other stream processors and online detectors, beside this project's own, in one run."""
