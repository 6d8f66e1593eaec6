"""Marks of a log that had more records than it has, as after a power cut of the broker."""

from __future__ import annotations

import dataclasses

from app.kafka.topic_marks import LogMarks


def marked_beyond(now: LogMarks, topic: str, records: int) -> LogMarks:
    """The marks of before so many records of partition 0 of a topic were lost."""
    end, epoch = now[topic].ends[0]
    return {**now, topic: dataclasses.replace(now[topic], ends={**now[topic].ends, 0: (end + records, epoch)})}
