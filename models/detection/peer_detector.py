"""Hosts that are other than their peers: scores by the law of peers, and the episodes of cause `peers`.

So a host is found whose own past cannot show it: one that diverges for hours, or is bad from its birth.

A series has one open episode at most: its peers open none where its own values have one, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.core.sparse_table import Table
from models.detection import peer_law, reasons
from models.detection.compiled_metrics import LARGEST
from models.detection.control import Control
from models.detection.episodes import Episode
from models.detection.gauge_detector import GaugeScores, rule_nats
from models.detection.labels import DOWN, UP, pattern_name
from models.detection.peer_law import PeerScores
from models.detection.shard_state import ShardState, ShardWindow
from models.records.records import EpisodeEvent

PEERS = "peers"  # cause and part of these episodes
CONFIRMED = 3  # comparisons in a row above the alert threshold that open an episode
CLEARED = 3  # and below `clear_nats` that close one
ALONE_MS = 3_600_000  # after so long without a comparison an episode is closed: the role has too few hosts


@dataclass(frozen=True)
class _Compared:
    """The rows of a window that have peers: their rows in `gauges`, and what was found of them, `(n,)` each.

    `surprise` is less what rules and labels demand; `peers` is `(4, n)`, and `names` are those of the series; `seconds` is the time since
    they were compared last.
    """

    now: int
    seconds: Floats
    names: list[str]
    rows: Ints
    value: Floats
    peers: Floats
    surprise: Floats
    found: PeerScores


class PeerDetector:
    """Scores the gauges of a window that have peers, and opens, continues and ends episodes about them."""

    def __init__(self, state: ShardState, p: DetectorParameters, control: Control) -> None:
        self._state, self._p, self._control = state, p, control

    def step(self, window: ShardWindow, scores: GaugeScores) -> list[EpisodeEvent]:
        """Score the rows that have peers, learn them, and report what is improbable; `scores` are those of the window's metrics."""
        known = {name: e for name, e in self._state.episodes.open.items() if e.cause == PEERS and not e.over}
        peers, x = window.rows.peers[: window.metrics].T, window.rows.mean[: window.metrics]
        compared = peers[0] >= peer_law.LEAST_PEERS
        if not compared.any():
            return self._alone(known, window.end)
        at = np.flatnonzero(compared & (np.abs(x) < LARGEST))
        places = self._state.peers.find_or_add(window.gauges[at])
        s = self._state.peers.read(places)
        rows = self._compare(s, window, at, x[at].astype(np.float64), peers[:, at])
        confirmed = self._learn(s, rows, scores.not_learnt[at], known)
        self._state.peers.write(places, s)
        events = [
            self._begin(rows, s, i)
            for i in np.flatnonzero(confirmed).tolist()
            if rows.names[i] not in self._state.episodes
        ]
        if known:
            events += [e for i, name in enumerate(rows.names) if name in known for e in self._continue(rows, i)]
        return events + self._alone(known, window.end)

    def _compare(self, s: Table, window: ShardWindow, at: Ints, x: Floats, peers: Floats) -> _Compared:
        rows, found = window.gauges[at], peer_law.score(s, x, peers)
        away, size = x - peers[2], np.abs(x - peers[2])
        labels = self._control.labels
        down, up = (labels.demanded_nats("gauges", pattern_name(PEERS, way), rows, size) for way in (DOWN, UP))
        surprise = found.surprise - np.where(away < 0, down, up)
        applied = self._control.applied_to("gauges")
        if applied is not None:
            demanded = rule_nats(applied, self._p, away, peers[2], rows)
            surprise = np.where(np.isfinite(demanded), surprise - demanded, 0.0)
        names = window.rows.series[at].tolist()
        seconds = np.where(s["seen"] > 0, (window.end - s["seen"]) / 1000, peer_law.MINUTE)
        return _Compared(window.end, seconds, names, rows, x, peers, np.maximum(surprise, 0.0), found)

    def _learn(self, s: Table, rows: _Compared, not_learnt: Bools, known: dict[str, Episode]) -> Bools:
        """Learn the rows, in place; answers which have been above the alert threshold often enough, `(n,)`."""
        # When a fleet is seen for the first time, hosts that always were different are no news.
        trusted = rows.now - self._state.first < 60_000 * self._p.grace_minutes
        above = (rows.surprise >= self._p.alert_nats) & (not trusted)
        began = rows.now - 1000.0 * self._p.window_seconds
        s["since"] = np.where(above, np.where(s["run"] > 0, s["since"], began), 0.0)
        s["run"] = np.where(above, s["run"] + 1, 0.0)
        s["seen"] = np.full(len(above), float(rows.now))
        confirmed: Bools = s["run"] >= CONFIRMED
        held = confirmed | np.array([name in known for name in rows.names]) if known else confirmed
        before = {name: numbers.copy() for name, numbers in s.items()} if not_learnt.any() else s
        peer_law.learn(s, rows.found, rows.peers, np.minimum(rows.seconds, peer_law.DAY), above, held, trusted=trusted)
        for name, numbers in before.items():
            s[name] = np.where(not_learnt, numbers, s[name])
        return confirmed

    def _begin(self, rows: _Compared, s: Table, i: int) -> EpisodeEvent:
        score = float(rows.surprise[i])
        _, lower, median, upper = rows.peers[:, i].tolist()
        episode = Episode(
            rows.names[i], PEERS, "anomaly", int(s["since"][i]), score, score, float(rows.value[i]),
            median, lower, upper, "", _words(rows, i), part=PEERS,
        )  # fmt: skip
        return self._state.episodes.begin(episode, rows.now)

    def _continue(self, rows: _Compared, i: int) -> list[EpisodeEvent]:
        """Update an episode, close it once the offset is usual again, or adopt it once it has lasted."""
        episode, score = self._state.episodes.open[rows.names[i]], float(rows.surprise[i])
        if episode.add_surprise(score, self._p.allowance_nats, float(rows.seconds[i]) / self._p.window_seconds):
            _, episode.lower, episode.typical, episode.upper = rows.peers[:, i].tolist()
            episode.value, episode.reason = float(rows.value[i]), _words(rows, i)
        episode.count_normal(rows.now, normal=score < self._p.clear_nats)
        if episode.normal_windows >= CLEARED:
            self._state.peers.update(int(rows.rows[i]), peer_law.forget_waiting)
            return [self._state.episodes.close(episode.series, rows.now)]
        lasted = rows.now - episode.start >= 1000 * self._p.adoption_seconds(self._p.patience_minutes)
        if (episode.expected or lasted) and not self._control.is_kept_from_learning("gauges", int(rows.rows[i])):
            return [self._adopt(episode, rows, i)]
        return [episode.event("update", rows.now)] if episode.update_due(rows.now) else []

    def _adopt(self, episode: Episode, rows: _Compared, i: int) -> EpisodeEvent:
        """Take the offsets of the episode for the usual ones; the episode becomes a change and closes with the next window."""
        episode.kind, episode.adopted, episode.over = "change", True, rows.now + 1
        episode.value, episode.reason = float(rows.value[i]), _words(rows, i)
        episode.before, episode.after = float(rows.peers[2, i]), episode.value
        self._state.peers.update(int(rows.rows[i]), peer_law.adopt)
        return episode.event("update", rows.now)

    def _alone(self, known: dict[str, Episode], now: int) -> list[EpisodeEvent]:
        """Close the episodes of series that have had no peers for `ALONE_MS`."""
        gone = []
        for name in sorted(known.keys() & self._state.episodes.open.keys()):
            row = self._state.gauges.index[name]
            (place,) = self._state.peers.find_or_add(np.array([row]))
            if now - self._state.peers.columns["seen"][place] >= ALONE_MS:
                self._state.peers.update(row, peer_law.forget_waiting)
                gone.append(self._state.episodes.close(name, now))
        return gone


def _words(rows: _Compared, i: int) -> str:
    """What is strange of a row, for a person."""
    n, lower, median, upper = rows.peers[:, i].tolist()
    return reasons.peers_off(parse(rows.names[i]), float(rows.value[i]), int(n), median, lower=lower, upper=upper)
