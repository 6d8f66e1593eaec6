"""Calls between services, as labels of metrics say them.

    client -> server                                    OpenTelemetry's service graph connector, Tempo, Beyla
    source_canonical_service, source_app, source_workload -> destination_...
                                                        Istio; Cilium's Hubble

A metric may name one call in several ways, by app and by workload: each is a call, as it is not known by which name a service is
watched. What a proxy could not tell (`unknown`) and a service that calls itself are none. Labels in a name are not quoted: a value
with `,` in it is cut there.
"""

from __future__ import annotations

ENDS = (
    ("client", "server"),
    *((f"source_{what}", f"destination_{what}") for what in ("canonical_service", "app", "workload")),
)
NOBODY = ("", "unknown")
MARKS = tuple(f"{caller}=" for caller, _ in ENDS)

Call = tuple[str, str]  # caller, callee


def calls_of(metric: str) -> list[Call]:
    """The calls that a metric's name with its labels is about: `(caller, callee)`, those by the first of `ENDS` first."""
    if not any(mark in metric for mark in MARKS):  # as in nearly all of them
        return []
    text = metric.partition("{")[2].removesuffix("}")
    labels = {key: value for key, _, value in (part.partition("=") for part in text.split(","))}
    found = [(labels.get(caller, ""), labels.get(callee, "")) for caller, callee in ENDS]
    return list(dict.fromkeys((a, b) for a, b in found if a not in NOBODY and b not in NOBODY and a != b))
