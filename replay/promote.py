"""Lets another version serve: the candidate catches up, a tick is agreed on, aliases and live jobs go over.

    1. the candidate's jobs run here, from where they ended, unless another process runs them
    2. the tick: everything up to it is indexed of the version that serves, and of the candidate as well
    3. the term is written (`app.versions.serving`): from here on the promotion has happened, and live jobs go over
    4. the aliases follow; whoever finds that they do not yet, does it: this again, or the live jobs' `index`

Up to 3 nothing has changed for anybody, so a promotion that was broken off is simply begun again, and goes on from the
candidate's checkpoints. A rollback is the same with a version that has served before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from app.core.file_lock import file_lock
from app.core.report import Report, silent
from app.core.settings import Settings
from app.core.timestamps import iso_or
from app.kafka import data_loss
from app.kafka.connection import open_consumer
from app.runtime import jobs
from app.runtime import run as live
from app.runtime.health import Health
from app.runtime.spark import session
from app.search import aliases
from app.search.connection import elasticsearch_connection
from app.versions import locks, serving, start_position
from app.versions.serving import Serving
from pipelines.errors import InputError
from pipelines.state import savepoint_format
from pipelines.windowing import MILLIS
from replay import run as replays
from replay.indexed import Indexed, extract_checkpoints

CLOSE_SECONDS = 60  # of event time: as near as this, the candidate goes for the tick where the other one is now
POLL_SECONDS = 1.0
TAKEN_OVER_SECONDS = 60.0
LOOK_SECONDS = 20.0
SAME = ("windowing", "topics", "extract")  # of the configuration: what both versions must have in common


@dataclass(frozen=True)
class Plan:
    """What is to be done. `covers_from` is the tick after which the candidate has results; None: from the beginning."""

    old: Settings
    new: Settings
    terms: Serving
    covers_from: int | None
    first: bool  # nothing has served yet: version `live` never ran

    @property
    def least(self) -> int | None:
        """The tick before which no term may begin; None where any will do."""
        known = [watermark for watermark in (self.covers_from, self.terms.terms[-1].after) if watermark is not None]
        return max(known, default=None)


@dataclass(frozen=True)
class Step:
    """How far the candidate is: the last ticks (epoch ms) that are indexed of both, and the one that is agreed on."""

    old: int | None
    new: int | None
    agreed: int | None

    @property
    def lag_seconds(self) -> float | None:
        """How far the candidate is behind, event time."""
        return None if self.old is None or self.new is None else max(0, self.old - self.new) / MILLIS


Watching = Callable[[Step], None]


def nothing(*_: object) -> None:
    """Says nothing."""


# --- what may be promoted


def plan(settings: Settings, version: str, report: Report = silent) -> Plan:
    """Look whether a version can take over. Changes nothing.

    Raises InputError for one that is not known, has an unfinished replay, or has another law, other topics or shards;
    DeterminismViolation where the log no longer reaches back to where it ended.
    """
    terms = serving.read(settings.home)
    old = serving.as_pinned(settings, terms.version)
    new = serving.as_pinned(settings, version, report)
    if version == old.version:
        return Plan(old, new, terms, None, first=False)
    check_known(new)
    check_same(old, new)
    check_reach(new)
    return Plan(old, new, terms, covers_from(new), first=is_first(old, terms))


def plan_back(settings: Settings, to: str | None, report: Report = silent) -> Plan:
    """As `plan`, for a version that has served before: without `to` the one before.

    Raises InputError where there is none, or its checkpoints are gone.
    """
    terms = serving.read(settings.home)
    if to is None and not terms.aliased:
        return plan(settings, terms.version, report)  # a promotion or rollback was broken off: to its end first
    version = to if to is not None else terms.previous
    if version is None:
        msg = f"version {terms.version} serves from the beginning: there is none to go back to; see `kappa replay promote`"
        raise InputError(msg)
    if version == terms.version and terms.aliased:
        msg = f"version {version} serves now; wanted one that served before: {others(terms)}"
        raise InputError(msg)
    if version not in terms.versions:
        msg = f"version {version} has never served; wanted {others(terms)}, or `kappa replay promote {version}`"
        raise InputError(msg)
    if not start_position.kept_jobs(settings.model_copy(update={"version": version})):
        msg = f"the checkpoints of version {version} are gone; replay under another name, and promote that"
        raise InputError(msg)
    return plan(settings, version, report)


def others(terms: Serving) -> str:
    """The versions that served before, for people."""
    return ", ".join(name for name in terms.versions if name != terms.version) or "none has"


def check_known(new: Settings) -> None:
    """Raise InputError for a version that was neither replayed to the end nor ever run."""
    if replays.read_manifest(replays.folder_of(new)) is not None:
        replays.end_of(new)
    elif not start_position.kept_jobs(new) or serving.pinned(new, new.version) is None:
        known = sorted({p.parent.name for p in (new.home / "replays").glob("*/manifest.json")} | {*serving.begun(new)})
        msg = f"no version {new.version!r}: it was neither replayed nor run; there are {', '.join(known) or 'none'}"
        raise InputError(msg)


def check_same(old: Settings, new: Settings) -> None:
    """Raise InputError where a version cannot go on in the place of the other one, or under these settings."""
    own = serving.pinned(new, new.version)
    if own is not None:
        live.pin_configuration(new, int(own.get("extract", {}).get("instances", 1)))
    other = serving.pinned(old, old.version)
    if own is None or other is None:
        return
    mine, theirs = (dict(live.flat({name: kept.get(name) for name in SAME})) for kept in (own, other))
    differing = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
    if differing:
        key = differing[0]
        msg = (
            f"version {new.version} has {key} = {mine.get(key)}, {old.version} has {theirs.get(key)}: windows would not be "
            f"those of before; wanted a version that differs in detection and correlation only"
        )
        raise InputError(msg)


def check_reach(new: Settings) -> None:
    """Raise InputError or DeterminismViolation where the log no longer reaches back to where a version ended."""
    if start_position.kept_jobs(new):
        data_loss.check_before_start(new, data_loss.checkpoints(new, jobs.NAMES))
    elif start_position.beginning(new) is None:
        folder = replays.end_of(new)
        replays.check_savepoint(new, folder)
        start_position.first_of(new, int(savepoint_format.read_manifest(folder)["tick"]))


def covers_from(new: Settings) -> int | None:
    """The tick after which a version has results, epoch ms; None where it has them from the beginning."""
    begun, kept = start_position.beginning(new), replays.read_manifest(replays.folder_of(new))
    if kept is None:
        return None if begun is None else begun.watermark
    if begun is not None and begun.watermark > int(kept["whole"]["until"]):
        return begun.watermark  # begun anew later: between the two there is nothing
    after = kept["whole"]["after"]
    return None if after is None else int(after)


def is_first(old: Settings, terms: Serving) -> bool:
    """Whether the version that should serve has never run."""
    return terms == Serving() and not start_position.kept_jobs(old) and serving.pinned(old, old.version) is None


def shown(what: Plan) -> dict[str, Any]:
    """What would be done, as JSON types."""
    reached, other = (reached_by(one) for one in (what.new, what.old))
    return {
        "version": what.new.version,
        "previous": what.old.version,
        "dry_run": True,
        "already": what.new.version == what.old.version,
        "covers_from": what.covers_from,
        "covers_from_time": iso_or(what.covers_from, "the beginning"),
        "reached": reached,
        "reached_time": iso_or(reached, "no tick yet"),
        "previous_reached": other,
        "previous_reached_time": iso_or(other, "no tick yet"),
        "previous_running": bool(locks.busy(what.old, names_of(what.old))),
    }


def reached_by(settings: Settings) -> int | None:
    """The last tick of a version that is indexed; while its jobs run, `index` is always a batch behind: waits for it."""
    with open_consumer(settings) as consumer:
        look, deadline = Indexed(settings, consumer), time.monotonic() + LOOK_SECONDS
        while look.look() is None and locks.busy(settings, ["index"]) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return look.done


# --- promotion


def take_over(
    what: Plan,
    stopping: threading.Event,
    watching: Watching = nothing,
    report: Report = silent,
) -> dict[str, Any]:
    """Let the plan's version serve. Answers what came of it, as JSON types.

    Raises InputError if told to stop before it has happened, and what ends one of the jobs.
    """
    home = what.old.home
    with file_lock(serving.folder(home) / "promote.lock", 0) as held:
        if not held:
            msg = "another promotion or rollback runs in this home; wait for it"
            raise InputError(msg)
        terms = serving.read(home)
        if terms.version == what.new.version:
            return again(what.new, terms, report)
        if terms.terms != what.terms.terms:
            msg = "the terms have changed meanwhile, by another promotion; look with `kappa replay list`, and try again"
            raise InputError(msg)
        began = time.monotonic()
        followed = bool(locks.busy(what.old, names_of(what.old)))
        if what.first:
            after = None
            switch(what, after)
        else:
            after = caught_up(what, stopping, watching, report)
        seconds = round(time.monotonic() - began, 1)
    runs = is_run(what.new, stopping, TAKEN_OVER_SECONDS if followed else 0.0)
    return made(what.new, what.terms.version, after, seconds, runs)


def again(new: Settings, terms: Serving, report: Report) -> dict[str, Any]:
    """The promotion has happened already: see to it that the aliases have followed."""
    report(f"version {new.version} serves already" + ("" if terms.aliased else "; the aliases follow now"))
    follow(new)
    after = terms.terms[-1].after
    return made(new, terms.previous, after, 0.0, bool(locks.busy(new, names_of(new)))) | {"already": True}


def made(new: Settings, previous: str | None, after: int | None, seconds: float, running: bool) -> dict[str, Any]:
    """What came of it, as JSON types."""
    return {
        "version": new.version,
        "previous": previous,
        "after": after,
        "after_time": None if after is None else iso_or(after, ""),
        "caught_up_seconds": seconds,
        "running": running,
        "already": False,
    }


def names_of(settings: Settings) -> list[str]:
    """The names that a version's jobs run under."""
    return [*(path.name for path in extract_checkpoints(settings)), *jobs.NAMES[1:]]


def caught_up(what: Plan, stopping: threading.Event, watching: Watching, report: Report) -> int:
    """Let the candidate catch up, then write the term and let the aliases follow. Answers the tick."""
    with ExitStack() as stack:
        finish_index(what.old, report)
        check = stack.enter_context(candidate(what.new, report))
        consumer = stack.enter_context(open_consumer(what.old))
        follower = Meeting(what, Indexed(what.old, consumer), Indexed(what.new, consumer))
        while not stopping.wait(POLL_SECONDS):
            check()
            step = follower.look()
            watching(step)
            if step.agreed is not None and step.new is not None and step.new >= step.agreed:
                switch(what, step.agreed)
                return step.agreed
    msg = f"stopped before version {what.new.version} had caught up: nothing has changed; run it again, it goes on"
    raise InputError(msg)


@dataclass
class Meeting:
    """Finds the tick at which one version hands over to the other."""

    what: Plan
    old: Indexed
    new: Indexed
    agreed: int | None = None

    def look(self) -> Step:
        """See how far both are. Raises InputError where they cannot meet any more."""
        old, new = self.old.look(), self.new.look()
        if self.agreed is None and self.may_be(old) and old is not None and new is not None:
            self.agreed = old if old - new <= CLOSE_SECONDS * MILLIS else None
        if not self.may_be(old) and not locks.busy(self.what.old, names_of(self.what.old)):
            self.refuse(old)
        return Step(old, new, self.agreed)

    def may_be(self, watermark: int | None) -> bool:
        """Whether the term may begin after a tick."""
        return watermark is not None and (self.what.least is None or watermark >= self.what.least)

    def refuse(self, old: int | None) -> None:
        """Raise InputError: the version that serves will never reach the windows that the candidate has."""
        one, other = self.what.old.version, self.what.new.version
        if self.old.left():
            msg = f"the jobs of version {one} were stopped meanwhile, before all was indexed; nothing has changed: run it again"
            raise InputError(msg)
        msg = (
            f"version {one} stopped at {iso_or(old, 'no watermark')}, version {other} may serve after "
            f"{iso_or(self.what.least, 'the beginning')}: windows between would be missing; start `kappa run all --version "
            f"{one}`, or replay from earlier"
        )
        raise InputError(msg)


def finish_index(old: Settings, report: Report) -> None:
    """Index what a version has written whose `index` nobody runs. Raises InputError where its other jobs are run."""
    with locks.taken(old, ["index"]) as busy:
        if busy:
            return
        others = locks.busy(old, [name for name in names_of(old) if name != "index"])
        if others:
            msg = (
                f"version {old.version}: {', '.join(others)} run, index does not, so Elasticsearch falls behind; start "
                f"`kappa run index`, then try again"
            )
            raise InputError(msg)
        with open_consumer(old) as consumer:
            left = Indexed(old, consumer).left()
        if left:
            report(f"nobody indexes version {old.version}: indexing the {left:,} records that it has written")
            live.index_to_end(session(old, "kappa-promote", report), old)


@contextmanager
def candidate(new: Settings, report: Report) -> Iterator[Callable[[], None]]:
    """The candidate's jobs run while the block does; yields what raises if they do not any more.

    Where another process runs all of them, it is left alone. Raises InputError where it runs some of them.
    """
    names = names_of(new)
    with locks.taken(new, names) as busy:
        if not busy and len(names) == len(jobs.NAMES):
            report(f"running the jobs of version {new.version} until it has caught up")
            start_position.go_on_after_replay(new, report)
            session(new, "kappa-promote", report)
            health = Health(new.health.stale_seconds)
            with live.started_jobs(new, jobs.NAMES, health, report=report) as runner:
                yield runner.check_all
            return
    check_run_elsewhere(new)
    report(f"the jobs of version {new.version} run in another process")
    yield lambda: check_run_elsewhere(new)


def check_run_elsewhere(new: Settings) -> None:
    """Raise InputError where not all jobs of a version run."""
    names = names_of(new)
    missing = sorted(set(names) - set(locks.busy(new, names)))
    if missing:
        msg = (
            f"nobody runs {', '.join(missing)} of version {new.version}, and not all of its jobs can be run here: start them "
            f"with `kappa run --version {new.version}`, or stop its other jobs"
        )
        raise InputError(msg)


def switch(what: Plan, after: int | None) -> None:
    """Write the term, then let the aliases follow."""
    home = what.new.home
    with serving.locked(home):
        serving.write(home, what.terms.then(what.new.version, after))
    follow(what.new)


def follow(new: Settings) -> None:
    """Let the aliases follow the terms."""
    client = elasticsearch_connection(new).connect()
    try:
        aliases.follow(client, new)
    finally:
        client.close()


def is_run(new: Settings, stopping: threading.Event, wait_seconds: float) -> bool:
    """Whether some process runs a version. One that ran the version of before takes a moment to take it over."""
    deadline = time.monotonic() + wait_seconds
    while not locks.busy(new, names_of(new)):
        if time.monotonic() >= deadline or stopping.wait(POLL_SECONDS):
            return False
    return True
