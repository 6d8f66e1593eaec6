"""The mathematics: numbers in, numbers out. No Spark, no Kafka, no Elasticsearch, no clock.

`Detector` is the way in for programs that have a stream of values and nothing else.
"""

from models.core.parameters import DetectorParameters
from models.detection.online import Detection, Detector

__all__ = ["Detection", "Detector", "DetectorParameters"]
