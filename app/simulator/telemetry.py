"""Metric events of one group of machines as canonical JSON: one scrape of a host is one moment."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from app.simulator.disorder import LATENESS_MS, delays
from app.simulator.fleet import profile
from app.simulator.logs import Lines
from app.simulator.metrics import PHYSICAL_METRICS, SERVICE_METRICS, VM_METRICS, Metric
from app.simulator.rhythm import generator
from models.core.series import Series, build

if TYPE_CHECKING:
    from app.simulator.faults import Effects
    from app.simulator.fleet import Group
    from app.simulator.metrics import Numbers
    from app.simulator.rhythm import TimeBlock
    from app.simulator.settings import SimulatorSettings
    from models.core.arrays import Floats, Ints


JITTER_MS = 40


def series_name(host: str, service: str, metric: Metric) -> str:
    """The series that the pipeline makes of this metric."""
    labels = f"{{{metric.label[0]}={metric.label[1]}}}" if metric.label else ""
    return build(Series("counter" if metric.counter else "gauge", host, service, metric=metric.name + labels))


def scrape_phase(settings: SimulatorSettings, group: Group) -> Floats:
    """When within the interval each host of the group is scraped, `(V + 1,)`, milliseconds."""
    virtual = [profile(settings.seed, vm.index).scrape for vm in group.vms]
    physical = float(generator(settings.seed, "physical scrape", group.index).random())
    room = 1000 * settings.interval_seconds - JITTER_MS
    phases: Floats = np.floor(np.array([*virtual, physical]) * room)
    return phases


def render(settings: SimulatorSettings, group: Group, span: TimeBlock, numbers: Numbers, effects: Effects) -> Lines:
    """All metric events of a block of time."""
    rng = generator(settings.seed, "telemetry", group.index, span.number)
    begin = settings.start + 1000 * (span.middle - settings.interval_seconds / 2)
    jitter = rng.integers(0, JITTER_MS, (len(group.hosts), len(span.middle)))
    scraped = (begin + scrape_phase(settings, group)[:, None] + jitter).astype(np.int64)
    parts = []
    for row, rows_of in enumerate(_rows(group, numbers)):
        alive = np.flatnonzero(effects.alive[row])
        delay = _scrape_delays(rng, settings, (len(rows_of), len(span.middle)))
        arrival = (scraped[row] + delay)[:, alive]
        event = (scraped[row] + effects.clock[row])[alive]
        times = np.datetime_as_string(event.astype("datetime64[ms]")).tolist()
        text: list[str] = []
        for service, metric, values in rows_of:
            text += _lines(group.hosts[row], service, metric, times, values[alive])
        size = arrival.size
        parts.append(Lines(np.tile(event, len(rows_of)), arrival.ravel(), np.full(size, row), text))
    return Lines(
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.arrival for part in parts]),
        np.concatenate([part.row for part in parts]),
        [line for part in parts for line in part.text],
    )


def _rows(group: Group, numbers: Numbers) -> list[list[tuple[str, Metric, Floats]]]:
    """Service, metric and values, `(T,)`, of everything that each host reports; the physical host is last."""
    out: list[list[tuple[str, Metric, Floats]]] = [
        [("", metric, numbers.vm[metric.name][row]) for metric in VM_METRICS] for row in range(len(group.vms))
    ]
    for i, (row, _, service) in enumerate(group.instances):
        out[row] += [(service, metric, numbers.service[metric.name][i]) for metric in SERVICE_METRICS]
    return [*out, [("", metric, numbers.physical[metric.name]) for metric in PHYSICAL_METRICS]]


def _scrape_delays(rng: np.random.Generator, settings: SimulatorSettings, shape: tuple[int, int]) -> Ints:
    """A scrape travels together, `(M, T)`, but for the events of it that are late."""
    own = delays(rng, settings, shape)
    together = delays(rng, replace(settings, late_share=0.0), (1, shape[1]))
    return np.where(own > LATENESS_MS, own, together)


def _lines(host: str, service: str, metric: Metric, times: list[str], values: Floats) -> list[str]:
    """Canonical JSON of one series."""
    named = f'"service.name":{json.dumps(service)},' if service else ""
    head = f'Z","host.name":{json.dumps(host)},{named}"metric.name":"{metric.name}","metric.value":'
    tail = f',"labels":{json.dumps(dict([metric.label]), separators=(",", ":"))}' if metric.label else ""
    tail += ',"metric.type":"counter"}' if metric.counter else "}"
    whole = metric.decimals < 0
    shown = values.astype(np.int64).tolist() if whole else (np.round(values, metric.decimals) + 0.0).tolist()
    return [f'{{"@timestamp":"{time}{head}{value}{tail}' for time, value in zip(times, shown, strict=True)]
