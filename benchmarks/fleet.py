"""A simulated fleet: a value of each series for each window, and faults at known times; what its hosts measure. `benchmarks.fleets` makes some.

Times are hours since `START`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from models.core.arrays import Bools, Floats, Ints
from models.core.series import parse
from models.templates.extraction import template_id, template_of

START = 1_767_571_200_000  # epoch ms: Monday, 2026-01-05, 00:00 UTC
TWENTY_MINUTES = 1 / 3


class InjectedFault(NamedTuple):
    """What went wrong, on which host, and from when to when, hours."""

    name: str
    host: str
    begin: float
    end: float


class SimulatedFleet:
    """Values of series, and the faults in them.

    Attributes
    ----------
    days, seconds, every
        Length of the fleet, seconds of a window, and seconds between two values of a series.
    hours, hour_of_day
        When each window begins, `(n_windows,)`.
    values
        By series, `(n_windows,)`: mean of a gauge, total of a counter, number of log lines; NaN where there is none.
    templates
        The text of each `template/` series.
    """

    def __init__(self, days: int, seconds: int = 60, every: int | None = None) -> None:
        self.days, self.seconds, self.every = days, seconds, every or seconds
        self.windows = days * 86_400 // seconds
        self.hours: Floats = np.arange(self.windows) * seconds / 3600.0
        self.hour_of_day: Floats = self.hours % 24
        self.values: dict[str, Floats] = {}
        self.templates: dict[str, str] = {}
        self.faults: list[InjectedFault] = []
        self.rng = np.random.default_rng(1)

    def noise(self, deviation: float = 1.0, memory: float = 0.0) -> Floats:
        """Normal noise, a first-order autoregressive process whose coefficient is `memory`, `(n_windows,)`."""
        drawn = deviation * self.rng.standard_normal(self.windows)
        return np.asarray(lfilter([np.sqrt(1 - memory * memory)], [1, -memory], drawn), dtype=np.float64)

    def around(self, middle: float | Floats, deviation: float, memory: float = 0.0) -> Floats:
        """Values around `middle` with multiplicative noise, whose logarithm has the given deviation, `(n_windows,)`."""
        return np.asarray(middle * np.exp(deviation * self.noise(1.0, memory)))

    def wave(self, hour: float) -> Floats:
        """A sine of the day, which rises through 0 at `hour`, `(n_windows,)`."""
        return np.asarray(np.sin(2 * np.pi * (self.hour_of_day - hour) / 24))

    def between(self, begin: float, end: float) -> Bools:
        """Which windows begin between two times, `(n_windows,)`."""
        return np.asarray((self.hours >= begin) & (self.hours < end))

    def lines(self, host: str, service: str, level: str, text: str, number: Ints) -> None:
        """Add lines like one, or like its template, so many in each window, to those of their level."""
        text = template_of(text)
        logs, own = f"logs/{host}/{service}/{level}", f"template/{host}/{service}/{level}/{template_id(text)}"
        self.values[logs] = self.values.get(logs, np.zeros(self.windows)) + number
        self.values[own], self.templates[own] = number.astype(np.float64), text

    def fault(self, name: str, host: str, begin: float, end: float) -> Bools:
        """Note a fault; which windows it is in, `(n_windows,)`."""
        self.faults.append(InjectedFault(name, host, begin, end))
        return self.between(begin, end)

    def multiply(self, series: str, begin: float, hours: float = TWENTY_MINUTES, factor: float = 4.0) -> None:
        """A fault: the values of a series times `factor`."""
        host, metric = parse(series).host, parse(series).metric
        self.values[series][self.fault(f"{metric} x{factor:g}", host, begin, begin + hours)] *= factor

    def end(self, host: str, begin: float, hours: float = 1.0) -> None:
        """A fault: nothing comes from a host for so long."""
        during = self.fault("silent", host, begin, begin + hours)
        for name, values in self.values.items():
            if parse(name).host == host:
                values[during] = np.nan


def machine(fleet: SimulatedFleet, host: str, on: Bools | None = None) -> None:
    """Add the metrics of a machine, where it is on, `(n_windows,)`."""
    day, there = 1 + 0.3 * fleet.wave(8), np.ones(fleet.windows, dtype=bool) if on is None else on
    values = {
        f"gauge/{host}//cpu": fleet.around(10 * day, 0.1, 0.7),
        f"gauge/{host}//mem": 2e9 * np.exp(0.02 * np.cumsum(fleet.noise(0.02)) + 0.005 * fleet.noise()),
        f"gauge/{host}//load": fleet.around(day, 0.15, 0.6),
        f"counter/{host}//net": np.cumsum(fleet.around(1e6 * day, 0.2, 0.5)),
    }
    fleet.values |= {name: np.where(there, own, np.nan) for name, own in values.items()}


def server(fleet: SimulatedFleet, host: str, service: str, load: Floats | None = None) -> None:
    """Add the metrics of a host of a service under a load relative to the usual one, `(n_windows,)`."""
    load = 1 + 0.4 * fleet.wave(8) if load is None else load
    for metric, level in (("cpu", 10.0), ("rps", 200.0)):
        fleet.values[f"gauge/{host}/{service}/{metric}"] = fleet.around(level * load, 0.1, 0.7)
    fleet.values[f"gauge/{host}//mem"] = fleet.around(2e9, 0.005)
