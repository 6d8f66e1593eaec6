"""What topics were at a time, as it is kept in files: their ids, and where each partition ended in which leader epoch.

`app.kafka.log_marks` holds them against the topics of now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_EPOCH = -1


@dataclass(frozen=True)
class TopicMark:
    """A topic: its id, and the end of each partition with the leader epoch in which it ended there (NO_EPOCH: unknown)."""

    topic_id: str
    ends: Mapping[int, tuple[int, int]]

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"id": self.topic_id, "ends": {str(p): list(end) for p, end in sorted(self.ends.items())}}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> TopicMark:
        """The inverse of `record`. Raises KeyError, TypeError or ValueError for what is none."""
        return cls(str(record["id"]), {int(p): (int(end), int(epoch)) for p, (end, epoch) in record["ends"].items()})


LogMarks = Mapping[str, TopicMark]


def record_of(marks: LogMarks) -> dict[str, Any]:
    """Marks as JSON types."""
    return {topic: mark.record() for topic, mark in sorted(marks.items())}


def marks_of(record: Mapping[str, Any]) -> LogMarks:
    """The inverse of `record_of`. Raises KeyError, TypeError or ValueError for what is none."""
    return {str(topic): TopicMark.of(mark) for topic, mark in record.items()}
