"""What to simulate: sizes, times, shares, and which episodes to put in."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.errors import SettingsError

GENERATOR_VERSION = 1
DEFAULT_START = 1_767_571_200_000  # Monday 2026-01-05T00:00:00Z
FAULTS = (
    "cpu_contention",
    "memory_leak",
    "disk_filling",
    "network_delay",
    "packet_loss",
    "error_burst",
    "new_message",
    "log_silence",
    "host_silent",
    "stuck_metric",
    "noisy_neighbour",
    "slow_drift",
)
CHANGES = ("machines_added", "deployment", "traffic_moved", "nightly_job")
DATA_TROUBLES = ("wrong_clock",)
SLOW = ("memory_leak", "disk_filling", "slow_drift")
SIMULATED_KINDS = FAULTS + CHANGES + DATA_TROUBLES
SCENARIOS: dict[str, tuple[str, ...]] = {
    "standard": SIMULATED_KINDS,
    "faults": FAULTS,
    "changes": CHANGES,
    "clean": (),
}


@dataclass(frozen=True)
class Planned:
    """An episode asked for by name: `start` and `duration` in seconds from the start of the simulation.

    Both are rounded to whole intervals. `host` empty means that the seed chooses one.
    """

    kind: str
    start: float
    duration: float
    host: str = ""


@dataclass(frozen=True)
class SimulatorSettings:
    """Frozen parameters of a simulation; equal parameters give equal bytes.

    `hosts` counts physical and virtual machines together (at least 2), about one physical to four virtual.
    `start` is epoch milliseconds. `interval_seconds` is the time between two scrapes of a host, and the grid on which
    episodes begin and end. `logs_per_second` is the mean number of log lines of a virtual machine.
    `delay_seconds` is the mean of the exponential delay between event and arrival, `slow_share` the share of events
    that take up to 8 s instead, `late_share` the share that takes 20 to 300 s. `fault_strength` multiplies every
    episode's size. The first `clean_hours` (half of the time unless given) hold no episode. `kinds` narrows or replaces
    the scenario's list; `schedule` replaces it by exact times. With fewer `services` more machines have the same role.
    Raises SettingsError for a value out of range.
    """

    hosts: int = 20
    hours: float = 4.0
    seed: int = 1
    start: int = DEFAULT_START
    interval_seconds: int = 10
    scenario: str = "standard"
    logs_per_second: float = 1.0
    delay_seconds: float = 0.5
    slow_share: float = 0.01
    late_share: float = 0.001
    fault_strength: float = 1.0
    clean_hours: float | None = None
    kinds: tuple[str, ...] | None = None
    schedule: tuple[Planned, ...] | None = None
    services: int = 8

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        _within("hosts", self.hosts, 2, 100_000)
        _within("hours", self.hours, 0.01, 24 * 366)
        _within("seed", self.seed, 0, 2**63 - 1)
        _within("start", self.start, 0, 2**43)
        _within("interval_seconds", self.interval_seconds, 1, 300)
        _within("logs_per_second", self.logs_per_second, 0, 1000)
        _within("delay_seconds", self.delay_seconds, 0, 2)
        _within("slow_share", self.slow_share, 0, 1)
        _within("late_share", self.late_share, 0, 1)
        _within("fault_strength", self.fault_strength, 0, 100)
        _within("services", self.services, 1, 8)
        if self.clean_hours is not None:
            _within("clean_hours", self.clean_hours, 0, self.hours)
        if self.scenario not in SCENARIOS:
            msg = f"simulator: scenario is {self.scenario!r}; wanted one of {', '.join(SCENARIOS)}"
            raise SettingsError(msg)
        named = [*(self.kinds or ()), *(planned.kind for planned in self.schedule or ())]
        for kind in named:
            if kind not in SIMULATED_KINDS:
                msg = f"simulator: kind of episode is {kind!r}; wanted one of {', '.join(SIMULATED_KINDS)}"
                raise SettingsError(msg)
        for planned in self.schedule or ():
            _within(f"schedule: start of {planned.kind}", planned.start, 0, self.steps * self.interval_seconds)
            _within(f"schedule: duration of {planned.kind}", planned.duration, 1, 24 * 3600)

    @property
    def steps(self) -> int:
        """Number of scrapes of each host."""
        return max(1, round(self.hours * 3600 / self.interval_seconds))

    @property
    def clean_seconds(self) -> float:
        """Seconds without episodes at the start."""
        return (self.hours / 2 if self.clean_hours is None else self.clean_hours) * 3600

    @property
    def wanted_kinds(self) -> tuple[str, ...]:
        """The kinds of episode that the seed places."""
        return SCENARIOS[self.scenario] if self.kinds is None else self.kinds


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        msg = f"simulator: {name} is {value}; wanted {least} to {most}"
        raise SettingsError(msg)
