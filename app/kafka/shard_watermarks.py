"""Up to which window the shards of `detect` have written."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.records.records import WatermarkMessage

# The watermark messages of the last minutes show where the shards stand.
WATERMARKS_BACK_MS = 600_000
# No window ends after the append time of what is written of it, but for clocks that differ: of producers by an hour, in a log of history.
AHEAD_MS = 7_200_000


@dataclass
class ShardWatermarks:
    """Up to which window each shard has been scored."""

    latest: dict[int, int] = field(default_factory=dict)
    shards: int = 0

    def update(self, value: bytes | None, appended: int) -> None:
        """Take in a record of `novelties`, appended then (epoch ms); what is no watermark message that `detect` writes is left out."""
        message = WatermarkMessage.from_json(value)
        if message is None or message.shards is None or message.watermark > appended + AHEAD_MS:
            return
        if message.shards != self.shards:
            self.latest, self.shards = {}, message.shards
        if 0 <= message.shard < message.shards:
            self.latest[message.shard] = max(message.watermark, self.latest.get(message.shard, 0))

    @property
    def until(self) -> int | None:
        """The end of the last window that all shards have scored, epoch ms; None before each has sent a watermark."""
        if not self.shards or len(self.latest) < self.shards:
            return None
        return min(self.latest.values())

    def behind(self, now: float) -> float | None:
        """Seconds since the end of the last window that all shards have scored; None before each has sent a watermark."""
        return None if self.until is None else now - self.until / 1000
