"""The numbers that decide which record belongs where. With the log they determine every result."""

from __future__ import annotations

from dataclasses import dataclass

MICROS = 1_000_000
MILLIS = 1_000


@dataclass(frozen=True)
class WindowingConfig:
    """Window, admission and sharding; the same for live runs and replays.

    `window_seconds`     length of an event-time window, aligned to the epoch.
    `lateness_seconds`   a record that was appended longer after its event time goes to `late`. Raising it admits more and
                         delays every result by as much.
    `skew_seconds`       a record whose event time is further ahead of its append time goes to `dead-letters`.
    `disorder_seconds`   by how much append times within one partition may go back: 0 with LogAppendTime.
    `shards`             how many shards the state of a deployment is cut into; fixed for its life.
    """

    window_seconds: int = 10
    lateness_seconds: int = 15
    skew_seconds: int = 60
    disorder_seconds: int = 0
    shards: int = 64

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        for name, least, most in (
            ("window_seconds", 1, 86_400),
            ("lateness_seconds", 0, 30 * 86_400),
            ("skew_seconds", 0, 86_400),
            ("disorder_seconds", 0, 86_400),
            ("shards", 1, 4_096),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                msg = f"{name} is {value}; wanted {least} to {most}"
                raise ValueError(msg)

    @property
    def watermark_delay_seconds(self) -> int:
        """How far the watermark stays behind the append time: what an admitted record may lag, at the most."""
        return self.lateness_seconds + self.disorder_seconds
