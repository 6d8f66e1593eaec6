"""The contract suite, on the detector as it is shipped; `test_challengers` holds other detectors to it."""

from support.detector_contract import *  # noqa: F403
