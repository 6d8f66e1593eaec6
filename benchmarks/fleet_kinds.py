"""Simulated fleets of many kinds (`benchmarks.fleets`) through the models: incidents and faults found, beside a rule without a model.

    python -m benchmarks.fleet_kinds [--only NAME ...] [--naive] [--json]

Prints incidents in the first five days and after them, faults found and the minutes until then. One seed each. All series of a fleet go
through one detector, none compared with its peers, and then through the correlator. A fault is found by an incident that is published on its
host while it lasts, in its first two hours at most, or within ten minutes after. The rule is 3 sigma of a rolling day in two values of a
metric, or of the lines of a level, in a row; its alerts within two minutes, or the time from one value to the next, are one incident.
`--naive` judges the rule alone, which takes seconds; with the detector all fleets take twenty minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.fleet import START, InjectedFault, SimulatedFleet
from benchmarks.fleets import FLEETS
from benchmarks.microservices import BEHIND_MINUTES, MINUTE, joined_alerts
from benchmarks.naive import DAY_SECONDS, repeated
from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters

HOUR_MS, FIRST_DAYS, MOST_HOURS = 3_600_000, 5, 2.0
COLUMNS = "{:11}{:>5}  {:>9}{:>10}{:>7}  {:9}{:22}"
Incident = dict[str, Any]  # `published`, epoch ms, and `hosts`


@dataclass(frozen=True)
class FleetJudgement:
    """How many incidents there are in the first five days and after; of each fault, minutes until its incident is published, or None."""

    first: int
    after: int
    minutes: list[float | None]

    @property
    def found(self) -> str:
        """How many faults of all are found."""
        return f"{sum(one is not None for one in self.minutes)} of {len(self.minutes)}"


def judged(faults: Sequence[InjectedFault], incidents: Sequence[Incident]) -> FleetJudgement:
    """The judgement of incidents."""
    first = sum(one["published"] <= START + 24 * HOUR_MS * FIRST_DAYS for one in incidents)
    found: list[float | None] = []
    for fault in faults:
        begin = START + HOUR_MS * fault.begin
        last = START + HOUR_MS * min(fault.end, fault.begin + MOST_HOURS) + BEHIND_MINUTES * MINUTE
        published = [one["published"] for one in incidents if fault.host in one["hosts"]]
        found.append(min(((at - begin) / MINUTE for at in published if begin < at <= last), default=None))
    return FleetJudgement(first, len(incidents) - first, found)


def ends_of(fleet: SimulatedFleet) -> Ints:
    """When each window ends, epoch ms, `(n_windows,)`."""
    return START + 1000 * fleet.seconds * np.arange(1, fleet.windows + 1)


def windows_of(fleet: SimulatedFleet) -> Iterator[tuple[int, Windows]]:
    """The end of each window and its rows: a value of each series that has one, and log lines where there are any."""
    names = np.array(sorted(fleet.values), dtype=object)
    values = np.array([fleet.values[name] for name in names])
    templates = np.array([fleet.templates.get(name) for name in names], dtype=object)
    of_lines: Bools = np.array([name.startswith(("logs/", "template/")) for name in names])
    there = ~np.isnan(values) & ~(of_lines[:, None] & (values == 0))
    for end, own, rows in zip(ends_of(fleet).tolist(), values.T, there.T, strict=True):
        x, counted, text = own[rows], of_lines[rows], templates[rows]
        mean, m2 = np.where(counted, np.nan, x), np.where(counted, np.nan, 0.0)
        number = np.where(counted, x, 1).astype(np.int64)
        yield end, Windows(names[rows], number, mean, m2, mean, mean, mean, text, text)


def incidents_of(fleet: SimulatedFleet) -> list[Incident]:
    """Incidents with the time at which they were published and the hosts that they had last."""
    detector = ShardDetector(DetectorParameters(window_seconds=fleet.seconds))
    correlator, found = Correlator(CorrelationParameters()), dict[str, Incident]()
    for end, windows in windows_of(fleet):
        for event in correlator.step(end, detector.step(end, windows)[1], detector.watched):
            published = found.get(event.id, {"published": event.window_end})
            found[event.id] = published | {"hosts": event.hosts}
    return list(found.values())


def naive_incidents(fleet: SimulatedFleet) -> list[Incident]:
    """What the rule without a model finds."""
    ends, alerts = ends_of(fleet), list[tuple[int, str]]()
    for name, values in fleet.values.items():
        series, there = parse(name), ~np.isnan(values)
        if series.kind == "template":
            continue
        x, times = values[there], ends[there]
        if series.kind == "counter":
            x, times = rates(x, times)
        alerts += [(int(at), series.host) for at in times[repeated(x, DAY_SECONDS // fleet.every)]]
    return joined_alerts(alerts, max(2 * MINUTE, 1000 * fleet.every))


def rates(totals: Floats, times: Ints) -> tuple[Floats, Ints]:
    """Increase of a counter by the second, and when it was known; none where it has started again, `(n,)` each."""
    rate = 1000 * np.diff(totals) / np.diff(times)
    return rate[rate >= 0], times[1:][rate >= 0]


def row_of(name: str, fleet: SimulatedFleet, by: dict[str, FleetJudgement]) -> str:
    """A line of the table for each of those who were judged."""
    lines = []
    for who, own in by.items():
        minutes = ", ".join("-" if one is None else f"{one:.0f}" for one in own.minutes)
        lines.append(COLUMNS.format(name, fleet.days, who, own.first, own.after, own.found, minutes).rstrip())
    return "\n".join(lines)


def main() -> None:
    """Print a line for each fleet and each of those who are judged."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_kinds", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=FLEETS, default=list(FLEETS), metavar="NAME", help=", ".join(FLEETS)
    )
    parser.add_argument("--naive", action="store_true", help="the rule without a model alone")
    parser.add_argument("--json", action="store_true", help="a JSON object for each fleet")
    wanted = parser.parse_args()
    if not wanted.json:
        print(COLUMNS.format("fleet", "days", "who", "5 days", "after", "faults", "minutes").rstrip())
    for name in wanted.only:
        fleet = FLEETS[name]()
        by = {} if wanted.naive else {"kappa": judged(fleet.faults, incidents_of(fleet))}
        by["3 sigma"] = judged(fleet.faults, naive_incidents(fleet))
        if wanted.json:
            about = {"fleet": name, "days": fleet.days, "faults": [one.name for one in fleet.faults]}
            print(json.dumps(about | {who: asdict(own) for who, own in by.items()}), flush=True)
        else:
            print(row_of(name, fleet, by), flush=True)


if __name__ == "__main__":
    main()
