"""Which panels and searches there are, and where they stand on the dashboard.

A panel that is added here is in the saved objects, in the committed file and under test.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.kibana.panels import Count, Is, Largest, OverTime, Panel, Search, Terms

# Names of the kinds of documents, as people read them; the data view of a kind is the alias of the version that serves.
DATA_VIEWS = {
    "incidents": "kappa incidents",
    "novelties": "kappa novelties",
    "scores": "kappa scores",
    "pipeline": "kappa late and dead letters",
}
# Units that a column's heading should say.
LABELS = {
    "novelty.score": "score (nats)",
    "novelty.evidence": "evidence (nats)",
    "novelty.window_end": "last word at",
    "event.reason": "why",
    "pipeline.length": "length (bytes)",
}

HOST = Terms("host.name", "host", 20)
SCORE = Largest("novelty.score", "largest score (nats)")
BEGAN = OverTime("began")
DEAD = Is("event.dataset", ("kappa.dead-letters",))

LANES = Panel(
    "kappa-swim-lanes",
    "Novelty by host",
    "Hosts with the strangest novelties, and when those began: the largest score in nats (13.8 is one in a million).",
    "novelties",
    "heat map",
    (HOST, BEGAN),
    (SCORE,),
)
SCORE_OVER_TIME = Panel(
    "kappa-score-over-time",
    "Score over time",
    "The largest score of the novelties that began then, by kind.",
    "novelties",
    "line",
    (Terms("novelty.kind", "kind", 6), BEGAN),
    (SCORE,),
)
TOP_HOSTS = Panel(
    "kappa-top-hosts",
    "Top hosts",
    "Hosts by their largest score, and how many novelties each had.",
    "novelties",
    "table",
    (HOST,),
    (SCORE, Count("novelties")),
)
DEAD_LETTERS = Panel(
    "kappa-dead-letters-by-reason",
    "Dead letters by reason",
    "Records that could not be read, or came from a clock in the future.",
    "pipeline",
    "bars",
    (Terms("event.reason", "why", 10), OverTime("appended")),
    (Count("records"),),
    (DEAD,),
)

OPEN_INCIDENTS = Search(
    "kappa-open-incidents",
    "Open incidents",
    "Incidents that are not closed, the highest score first, of the last 30 days.",
    "incidents",
    ("novelty.score", "novelty.kind", "host.name", "event.reason", "novelty.window_end"),
    ("novelty.score", "@timestamp"),
    (Is("novelty.status", ("close",), negated=True),),
    since="now-30d",
)
LATEST_NOVELTIES = Search(
    "kappa-latest-novelties",
    "Latest novelties",
    "Episodes of single series, the latest first.",
    "novelties",
    ("novelty.kind", "novelty.status", "novelty.score", "host.name", "service.name", "event.reason"),
    ("@timestamp", "novelty.score"),
)
CHANGES = Search(
    "kappa-changes-of-state",
    "Changes of state",
    "New hosts, services and metrics, and levels that became the new normal.",
    "novelties",
    ("host.name", "service.name", "novelty.metric", "event.reason", "novelty.score"),
    ("@timestamp",),
    (Is("novelty.kind", ("change",)),),
)
LETTERS = Search(
    "kappa-dead-letters",
    "Dead letters",
    "Records that were refused, with the beginning of each.",
    "pipeline",
    ("event.reason", "message", "pipeline.topic", "pipeline.partition", "pipeline.offset", "pipeline.stage"),
    ("@timestamp",),
    (DEAD,),
)

PANELS = (LANES, SCORE_OVER_TIME, TOP_HOSTS, DEAD_LETTERS)
SEARCHES = (OPEN_INCIDENTS, LATEST_NOVELTIES, CHANGES, LETTERS)


@dataclass(frozen=True)
class Place:
    """Where something stands on the dashboard, which is 48 columns wide; a row is 20 pixels high."""

    shown: Panel | Search
    x: int
    y: int
    w: int
    h: int


DASHBOARD_TITLE = "kappa: what is new"
DASHBOARD_DESCRIPTION = "Novelty by host, open incidents, the latest novelties, and records that were refused."
DASHBOARD = (
    Place(LANES, 0, 0, 48, 18),
    Place(OPEN_INCIDENTS, 0, 18, 48, 14),
    Place(SCORE_OVER_TIME, 0, 32, 32, 14),
    Place(TOP_HOSTS, 32, 32, 16, 14),
    Place(LATEST_NOVELTIES, 0, 46, 48, 16),
    Place(CHANGES, 0, 62, 24, 14),
    Place(DEAD_LETTERS, 24, 62, 24, 14),
)
