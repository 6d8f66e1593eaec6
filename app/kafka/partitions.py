"""Partitions of topics, and offsets in them."""

from __future__ import annotations

from collections.abc import Mapping

Partition = tuple[str, int]  # topic, number
Offsets = dict[Partition, int]


def by_topic(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark's options have them: by topic, then by partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found
