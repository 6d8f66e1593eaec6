"""The numbers that decide which record belongs where. With the log they determine every result."""

from __future__ import annotations

from dataclasses import dataclass

MILLIS = 1_000


@dataclass(frozen=True)
class WindowingConfig:
    """Window length, admission and sharding; the same for live runs and replays.

    Parameters
    ----------
    window_seconds
        Length of an event-time window; windows are aligned to the epoch. Raising it makes fewer rows and later,
        coarser results.
    lateness_seconds
        A record that is appended longer than this after its event time goes to `late`. Raising it admits more records
        and delays every result by as much.
    skew_seconds
        A record whose event time is further than this ahead of its append time goes to `dead-letters`. Delays
        nothing.
    disorder_seconds
        How far append times within one partition may go back. Leave it at 0 where the broker sets the timestamps;
        elsewhere it delays every result by as much.
    shards
        Number of shards that hosts, and with them the state of `detect`, are divided into. Raising it allows more
        parallel tasks and smaller values of state, and costs a step of the models and a watermark message for each shard and
        window: 10,000 gauges take 0.085 s of a core for a window in 16 shards, 0.25 s in 64. `kappa plan` says when
        more are needed. Fixed for the life of a version.
    """

    window_seconds: int = 10
    lateness_seconds: int = 15
    skew_seconds: int = 60
    disorder_seconds: int = 0
    shards: int = 16

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

    def most_ahead_ms(self, *, history: bool) -> int:
        """How far the end of a closed window may be after the append time of a record that says so, ms.

        A window is closed by an append time that is the lateness after its end, and the skew allows for brokers' clocks that
        differ. In a log of `history` producers set the append times: brokers take what is an hour ahead of them, no more.
        """
        if history:
            return (self.skew_seconds + 3_600) * MILLIS
        return (self.skew_seconds - self.lateness_seconds) * MILLIS

    @property
    def watermark_delay_seconds(self) -> int:
        """How far the watermark stays behind the append time: what an admitted record may lag, at the most."""
        return self.lateness_seconds + self.disorder_seconds


@dataclass(frozen=True)
class TopicOfShards:
    """What records of a topic that is written shard by shard must agree with to be believed.

    Parameters
    ----------
    name
        The topic.
    partitions, shards
        A shard lives in the partition with its number modulo that of partitions.
    window_ms
        Length of a window: they end at its multiples.
    ahead_ms
        How far a window may end after the append time of what is written of it.
    """

    name: str
    partitions: int
    shards: int
    window_ms: int
    ahead_ms: int


def last_window_end(windowing: WindowingConfig, at_ms: int) -> int:
    """The last window end that is not after a time."""
    length = windowing.window_seconds * MILLIS
    return at_ms // length * length


def next_window_end(windowing: WindowingConfig, at_ms: int) -> int:
    """The first window end that is not before a time."""
    return last_window_end(windowing, at_ms + windowing.window_seconds * MILLIS - 1)
