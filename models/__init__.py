"""The mathematics: numbers in, numbers out. No Spark, no Kafka, no Elasticsearch, no clock.

`Detector` is the way in for programs that have a stream of values and nothing else. It is loaded when it is asked for: a process that
needs one module of `models.core` needs no numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.core.parameters import DetectorParameters
    from models.detection.online import Detection, Detector

__all__ = ["Detection", "Detector", "DetectorParameters"]

_MODULES = {
    "Detection": "models.detection.online",
    "Detector": "models.detection.online",
    "DetectorParameters": "models.core.parameters",
}


def __getattr__(name: str) -> Any:
    """A name of `__all__`, from the module that defines it."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_MODULES[name]), name)
