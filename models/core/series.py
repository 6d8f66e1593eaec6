"""Names of series: `kind/host/service/rest`, each part with `%` and `/` percent-encoded.

    gauge/HOST/SERVICE/METRIC{label=value,...}     a level: the window's mean is compared
    counter/HOST/SERVICE/METRIC{...}               a cumulative sum: becomes a rate per second from `last`
    logs/HOST/SERVICE/LEVEL                        lines of one level in a window
    template/HOST/SERVICE/LEVEL/ID                 lines of one template in a window
    host/HOST                                      the host itself, in episodes about a whole host
    service/HOST/SERVICE                           a service on a host, in episodes about a whole service
    fleet///WHAT                                   what there is of the whole fleet, in episodes about its limits

The service may be empty. A metric's name keeps its `/` encoded as well, so that splitting at `/` is always right.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FLEET = "fleet"
LABEL = re.compile(r'([^{},="]{1,128})=([^,{}]{0,128})')
LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")  # of log lines; `extract` gives others one of these
OF_METRIC, OF_LINES = ("host", "service", "metric"), ("host", "service", "level")
PARTS = {
    "gauge": OF_METRIC,
    "counter": OF_METRIC,
    "logs": OF_LINES,
    "template": (*OF_LINES, "template"),
    "host": ("host",),
    "service": ("host", "service"),
    FLEET: ("metric",),
}  # that a series of each kind can have
SERIES_KINDS = tuple(PARTS)


class Series(NamedTuple):
    """The parts of a series' name; parts that a kind does not have are empty."""

    kind: str
    host: str
    service: str = ""
    metric: str = ""
    level: str = ""
    template_id: str = ""


def quote(part: str) -> str:
    """Percent-encode `%` and `/` in a part of a name."""
    return part.replace("%", "%25").replace("/", "%2F")


def unquote(part: str) -> str:
    """The inverse of `quote`."""
    return part.replace("%2F", "/").replace("%25", "%")


def parse(name: str) -> Series:
    """The parts of a series' name, decoded. Raises ValueError for a name that is not of the form above."""
    kind, *rest = name.split("/")
    parts = [unquote(p) for p in rest]
    match kind, parts:
        case (("gauge" | "counter" | "fleet"), [host, service, metric]):
            return Series(kind, host, service, metric=metric)
        case "logs", [host, service, level]:
            return Series(kind, host, service, level=level)
        case "template", [host, service, level, template_id]:
            return Series(kind, host, service, level=level, template_id=template_id)
        case "host", [host]:
            return Series(kind, host)
        case "service", [host, service]:
            return Series(kind, host, service)
    msg = (
        f"not the name of a series: {name!r}; wanted kind/host/service/rest with kind one of {', '.join(SERIES_KINDS)}; "
        "without a service its place is empty, as in gauge/web-1//load"
    )
    raise ValueError(msg)


def labels_of(name: str) -> list[tuple[str, str]]:
    """The labels of a metric by its series' name; none of other series, nor of what is no name."""
    try:
        _, brace, labels = parse(name).metric.partition("{")
    except ValueError:
        return []
    return LABEL.findall(labels) if brace else []


def build(series: Series) -> str:
    """The name of a series: the inverse of `parse`."""
    tail = {
        "gauge": (series.service, series.metric),
        "counter": (series.service, series.metric),
        FLEET: (series.service, series.metric),
        "logs": (series.service, series.level),
        "template": (series.service, series.level, series.template_id),
        "host": (),
        "service": (series.service,),
    }[series.kind]
    return "/".join([series.kind, *(quote(p) for p in (series.host, *tail))])
