"""Log lines of one group of machines: how many, which template, with which parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.simulator.disorder import delays
from app.simulator.fleet import profile
from app.simulator.parameters import COLUMN
from app.simulator.rhythm import generator
from app.simulator.vocabulary import LEVEL_SHARE, LEVELS, SYSTEM_UNITS, TEMPLATES, choices

if TYPE_CHECKING:
    from app.simulator.faults import Effects
    from app.simulator.fleet import Group
    from app.simulator.rhythm import TimeBlock
    from app.simulator.settings import SimulatorSettings
    from models.core.arrays import Floats, Ints


OVERDISPERSION = 8.0  # shape of the gamma that multiplies a rate: variance = mean + mean^2 / 8
SYSTEM_SHARE = 0.2
UNIT_SHARE = {"sshd": 0.4, "cron": 0.2, "kernel": 0.15, "systemd": 0.25}
PATTERNS = tuple(template.pattern for template in TEMPLATES)
PARAMETER_KINDS = tuple(template.parameters for template in TEMPLATES)


@dataclass(frozen=True)
class Source:
    """Lines of one service and level of a host: templates, their cumulative weights, and lines a second, `(T,)`."""

    row: int
    service: str
    templates: tuple[int, ...]
    cumulative: tuple[float, ...]
    rate: Floats


@dataclass(frozen=True)
class Lines:
    """Events of a block: when they happened and arrived (epoch ms), on which row of the group, and their JSON."""

    event: Ints
    arrival: Ints
    row: Ints
    text: list[str]


def sources(settings: SimulatorSettings, group: Group, load: Floats, effects: Effects, middle: Floats) -> list[Source]:
    """Everything in the group that writes lines."""
    out = []
    rates = [profile(settings.seed, vm.index).log_rate * settings.logs_per_second for vm in group.vms]
    for i, (row, _, service) in enumerate(group.instances):
        here = (1 - SYSTEM_SHARE) * rates[row] / len(group.vms[row].services)
        for k, level in enumerate(LEVELS):
            rate = here * LEVEL_SHARE[k] * load[i] * effects.logs[i, k] * effects.alive[row]
            for released in (False, True):
                part = rate * (effects.release[i] == released)
                if part.any():
                    out.append(Source(row, service, *choices(service, level, released), part))
    for row in range(len(group.hosts)):
        out.extend(_system(settings, row, effects, middle))
    for extra in effects.extra_logs:
        rate = extra.rate * effects.alive[extra.row]
        out.append(Source(extra.row, extra.service, (extra.template,), (1.0,), rate))
    return out


def _system(settings: SimulatorSettings, row: int, effects: Effects, middle: Floats) -> list[Source]:
    """What the operating system writes; cron does it at the full minute only."""
    base = SYSTEM_SHARE * settings.logs_per_second * effects.system_logs[row] * effects.alive[row]
    minute = max(60.0, settings.interval_seconds)
    pulse = (middle % minute < settings.interval_seconds) * minute / settings.interval_seconds
    return [
        Source(row, unit, *_unit_choices(unit), base * UNIT_SHARE[unit] * (pulse if unit == "cron" else 1.0))
        for unit in SYSTEM_UNITS
    ]


def _unit_choices(unit: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    found = [(i, t.weight) for i, t in enumerate(TEMPLATES) if t.service == unit]
    shares = np.cumsum([weight for _, weight in found]) / sum(weight for _, weight in found)
    return tuple(i for i, _ in found), tuple(shares.tolist())


def render(settings: SimulatorSettings, group: Group, span: TimeBlock, load: Floats, effects: Effects) -> Lines:
    """All log lines of a block of time, as canonical JSON."""
    rng = generator(settings.seed, "logs", group.index, span.number)
    writers = sources(settings, group, load, effects, span.middle)
    rate = np.array([source.rate for source in writers])
    burst = rng.gamma(OVERDISPERSION, 1 / OVERDISPERSION, rate.shape)
    counts = rng.poisson(rate * burst * settings.interval_seconds)
    cell = np.repeat(np.arange(counts.size), counts.ravel())
    which, step = np.divmod(cell, counts.shape[1])
    begin = settings.start + 1000 * (span.middle - settings.interval_seconds / 2)
    happened = (begin[step] + rng.random(len(cell)) * 1000 * settings.interval_seconds).astype(np.int64)
    template = _choose(writers, which, rng.random(len(cell)))
    row = np.array([source.row for source in writers])[which]
    arrival = happened + delays(rng, settings, happened.shape)
    event = happened + effects.clock[row, step]
    messages = _messages(template, rng.integers(0, 2**63, (4, len(cell))))
    return Lines(event, arrival, row, _lines(group, writers, which, template, event, messages=messages))


def _choose(writers: list[Source], which: Ints, chance: Floats) -> Ints:
    """A template for each line by its source's weights: one search over all sources laid end to end."""
    edges = np.concatenate([k + np.array(source.cumulative) for k, source in enumerate(writers)])
    templates = np.concatenate([np.array(source.templates) for source in writers])
    last = np.cumsum([len(source.templates) for source in writers]) - 1
    found = np.minimum(np.searchsorted(edges, which + chance, side="right"), last[which])
    out: Ints = templates[found]
    return out


def _messages(template: Ints, random: Ints) -> list[str]:
    """Messages in JSON form, template by template."""
    out = [""] * len(template)
    order = np.argsort(template, kind="stable")
    cuts = np.flatnonzero(np.diff(template[order])) + 1
    for run in np.split(order, cuts):
        if len(run) == 0:
            continue
        index = int(template[run[0]])
        columns = [COLUMN[kind](random[i % 4, run].tolist()) for i, kind in enumerate(PARAMETER_KINDS[index])]
        pattern = PATTERNS[index]
        rendered = [pattern % values for values in zip(*columns, strict=True)] if columns else [pattern % ()] * len(run)
        for position, message in zip(run.tolist(), rendered, strict=True):
            out[position] = message
    return out


def _lines(
    group: Group, writers: list[Source], which: Ints, template: Ints, event: Ints, *, messages: list[str]
) -> list[str]:
    hosts = [json.dumps(host) for host in group.hosts]
    heads = [f'Z","host.name":{hosts[s.row]},"service.name":"{s.service}","log.level":"' for s in writers]
    levels = [f'{t.level.lower()}","message":"' for t in TEMPLATES]
    times = np.datetime_as_string(event.astype("datetime64[ms]")).tolist()
    return [
        f'{{"@timestamp":"{time}{heads[k]}{levels[t]}{message}"}}'
        for time, k, t, message in zip(times, which.tolist(), template.tolist(), messages, strict=True)
    ]
