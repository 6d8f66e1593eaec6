"""Documents as `index` writes them, for tests of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

from app.search.mappings import ensure_templates
from models.core.series import quote

CPU = "gauge/vm-1/web/cpu"

# When something began and what was last heard of it, in minutes before.
Ago = tuple[float, float]


class Documents:
    """Documents as `index` writes them, at times before `now`."""

    def __init__(self, client: Elasticsearch, version: str, now: datetime, reason: str | None = None) -> None:
        self.client, self.version, self.now, self.reason = client, version, now, reason
        self._actions: list[dict[str, Any]] = []

    def at(self, minutes: float) -> datetime:
        """So many minutes ago."""
        return self.now - timedelta(minutes=minutes)

    def add(self, kind: str, minutes: float, document: dict[str, Any], identity: str | None = None) -> None:
        """A document of this kind that stands under this time."""
        time = self.at(minutes)
        name = f"kappa-{kind}-{self.version}-{time:%Y.%m.%d}"
        own = {} if identity is None else {"_id": identity}
        self._actions.append({"_index": name, **own, "_source": {"@timestamp": time.isoformat(), **document}})

    def score(self, minutes: float, series: str = CPU, **own: Any) -> None:
        """What a series scored in a window."""
        expected = {"value": 5.0, "typical": 4.0, "lower": 3.0, "upper": 6.0}
        novelty = {"version": self.version, "series": series, "score": 0.5, "kind": "normal", **expected, **own}
        self.add("scores", minutes, {"host": {"name": "vm-1"}, "novelty": novelty})

    def alert(self, status: str, kind: str, ago: Ago, score: float, **own: Any) -> dict[str, Any]:
        """What novelties and incidents have in common."""
        start, heard = (self.at(minutes).isoformat() for minutes in ago)
        end = {"end": heard} if status == "close" else {}
        reason = self.reason or f"{kind} of score {score:g}"
        shared = {"version": self.version, "kind": kind, "status": status, "score": score}
        return {
            "event": {"kind": "alert", "start": start, "reason": reason, **end},
            "novelty": {**shared, "window_end": heard, **own},
        }

    def novelty(
        self, host: str, kind: str, status: str, ago: Ago, score: float, identity: str | None = None, **own: Any
    ) -> None:
        """An episode, of a metric unless given otherwise."""
        about = {"series": f"gauge/{host}/web/cpu", "metric": "cpu"} | own
        text = self.alert(status, kind, ago, score, **about)
        self.add("novelties", ago[0], {"host": {"name": host}, "service": {"name": "web"}, **text}, identity)

    def incident(
        self,
        hosts: list[str],
        kind: str,
        status: str,
        ago: Ago,
        score: float,
        identity: str | None = None,
        episodes: Sequence[str] = (),
        omitted: int = 0,
    ) -> None:
        """An incident to which each host contributes a series; `episodes` are the ids of its members."""
        each = {"share": 1 / len(hosts), "score": score, "kind": kind}
        shares = [{"series": f"gauge/{quote(host)}/web/cpu", "reason": f"{host} high", **each} for host in hosts]
        members = {"novelties": len(hosts), "episodes": list(episodes), "episodes_omitted": omitted}
        text = self.alert(status, kind, ago, score, contributions=shares, **members)
        self.add("incidents", ago[0], {"host": {"name": hosts}, **text}, identity)

    def refused(self, dataset: str, reason: str | None, minutes: float, sample: str) -> None:
        """A record that was refused."""
        event = {"kind": "pipeline_error", "dataset": f"kappa.{dataset}"} | ({"reason": reason} if reason else {})
        source_position = {"topic": "telemetry", "partition": 1, "offset": 17, "stage": "extract"}
        self.add("pipeline", minutes, {"event": event, "message": sample, "pipeline": source_position})

    def label(
        self, incident: str, label: str, minutes: float, host: str, ago: tuple[float, float | None], comment: str = ""
    ) -> None:
        """A label of an incident, which began and ended so long ago."""
        start, end = (None if m is None else self.at(m).isoformat() for m in ago)
        about = {"label": label, "incident": incident, "version": self.version, "author": "Ada"}
        event = {"kind": "event", "dataset": "kappa.labels", "start": start, "end": end}
        text = {"event": event, "host": {"name": [host]}, "message": comment, "label": about}
        time = self.at(minutes)
        self._actions.append(
            {"_index": f"kappa-labels-{time:%Y.%m}", "_source": {"@timestamp": time.isoformat(), **text}}
        )

    def delivery(
        self,
        incident: str,
        status: str,
        minutes: float,
        outcome: str = "delivered",
        answer: str = "200",
        version: str | None = None,
    ) -> None:
        """What became of a notification so long ago."""
        about = {"channel": "ops", "incident": incident, "version": version or self.version, "status": status}
        about |= {"severity": "major", "outcome": outcome, "why": "route 1", "answer": answer}
        event, time = {"kind": "event", "dataset": "kappa.deliveries"}, self.at(minutes)
        text = {
            "@timestamp": time.isoformat(),
            "event": event,
            "message": "a title",
            "delivery": {**about, "attempts": 1},
        }
        self._actions.append({"_index": f"kappa-deliveries-{time:%Y.%m}", "_source": text})

    def early(self, series: str, status: str, minutes: float, **own: Any) -> None:
        """An early alarm of a record so long ago, and what became of it."""
        event, time = {"kind": "event", "dataset": "kappa.early"}, self.at(minutes)
        about = {"version": self.version, "series": series, "status": status, "value": 0.97, "upper": 0.9} | own
        text = {"@timestamp": time.isoformat(), "event": event, "alarm": about}
        self._actions.append({"_index": f"kappa-early-{time:%Y.%m}", "_source": text})

    def write(self) -> None:
        """All of them, searchable at once; the mapping refuses a field that `index` would not write."""
        ensure_templates(self.client, self.version, live=False)
        bulk(self.client, self._actions, refresh=True)
        self._actions.clear()
