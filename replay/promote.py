"""Promotes a version: the candidate catches up, a watermark of the handover is agreed on, aliases and live jobs change over.

    1. the candidate's jobs run here, from where they ended, unless another process runs them
    2. the watermark: everything up to it is indexed, of the version that serves and of the candidate
    3. the interval is written (`app.versions.serving`): from here on the candidate serves, and live jobs change over
    4. the aliases are set; if this process ends before, the next promotion or the live jobs' `index` sets them

Up to 3 nothing has changed for anybody, so a promotion that was interrupted is simply started again, and goes on from the
candidate's checkpoints. A rollback is the same with a version that has served before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from app.core.file_lock import held_lock
from app.core.report import Report, silent
from app.core.settings import Settings, dotted_names
from app.core.timestamps import iso_or
from app.kafka import data_loss
from app.kafka.connection import open_consumer
from app.kafka.cut_log import complete_after
from app.kafka.input_offsets import input_partitions
from app.runtime import jobs
from app.runtime import run as live
from app.runtime.health import Health
from app.runtime.jobs import JobSelection
from app.runtime.spark import session
from app.search import aliases
from app.search.connection import elasticsearch_connection
from app.versions import locks, replay_manifest, serving, start_position, violations
from app.versions.pinned_configuration import (
    check_configuration,
    pinned_or_replayed,
    started_versions,
    with_pinned_models,
)
from app.versions.replay_manifest import ReplayManifest
from app.versions.serving import Serving
from pipelines.errors import InputError, OfAnotherRelease
from pipelines.windowing import MILLIS
from replay import other_homes
from replay.indexed import IndexedWatermark

log = structlog.get_logger()

CLOSE_SECONDS = 60  # of event time: from this near, the watermark that the serving version has reached is agreed on
POLL_SECONDS = 1.0
TAKEN_OVER_SECONDS = 60.0
INDEXED_SECONDS = 20.0
SAME = ("windowing", "topics")  # of the configuration: what both versions must have in common


@dataclass(frozen=True)
class PromotionPlan:
    """What is to be done: version `new` is to serve in the place of `old`.

    `served` are the intervals so far, `by` who has it done. `covers_from` is the watermark after which the candidate has results; None: from the
    beginning.
    """

    old: Settings
    new: Settings
    served: Serving
    covers_from: int | None
    first: bool  # nothing has served yet: version `live` never ran
    by: str | None = None

    @property
    def earliest(self) -> int | None:
        """The earliest watermark after which the new interval may begin; None where there is no bound."""
        known = [
            watermark for watermark in (self.covers_from, self.served.intervals[-1].after) if watermark is not None
        ]
        return max(known, default=None)


@dataclass(frozen=True)
class PromotionProgress:
    """How far the candidate is: the watermarks (epoch ms) up to which both are indexed, and the one that is agreed on."""

    old: int | None
    new: int | None
    agreed: int | None

    @property
    def lag_seconds(self) -> float | None:
        """How far the candidate is behind, event time."""
        return None if self.old is None or self.new is None else max(0, self.old - self.new) / MILLIS


OnProgress = Callable[[PromotionProgress], None]


# --- what may be promoted


def plan(settings: Settings, version: str, report: Report = silent) -> PromotionPlan:
    """Check that a version can take over. Changes nothing.

    Parameters
    ----------
    settings
        Those of the deployment.
    version
        The version that is to serve.
    report
        Gets a line where the candidate began with other parameters than the settings have.

    Returns
    -------
    PromotionPlan
        For `take_over`.

    Raises
    ------
    InputError
        The version is not known, has an unfinished replay, or has another windowing, other topics or shards; or the version that serves is
        run with another home.
    DeterminismViolation
        The log no longer reaches back to where the version ended, or a violation has ended it.
    """
    served = serving.read(settings.home)
    old = serving_settings(settings, served.version)
    new = with_pinned_models(settings, version, report)
    replayed = replay_manifest.read(new)
    if version != old.version:
        check_known(new, replayed)
    first = nothing_has_served(old, served)
    if first:
        check_serves_nowhere(old, new)
    if version == old.version:
        return PromotionPlan(old, new, served, None, first=False)
    check_same(old, new)
    if start_position.jobs_with_checkpoint(new):
        start_position.check_release(new)
    check_reach(new, replayed)
    violations.check(new)
    return PromotionPlan(old, new, served, covered_since(new, replayed), first=first)


def serving_settings(settings: Settings, version: str) -> Settings:
    """Settings of the version that serves, as `with_pinned_models` has them.

    Of one of another release, whose parameters this one does not have, they are those of the deployment: it is only followed, and nothing that
    is done with it here depends on its models.
    """
    try:
        return with_pinned_models(settings, version)
    except OfAnotherRelease:
        return settings.model_copy(update={"version": version})


def plan_back(settings: Settings, to: str | None, report: Report = silent) -> PromotionPlan:
    """As `plan`, for a version that has served before: without `to` the one before.

    Raises InputError where there is none, or its checkpoints are gone.
    """
    served = serving.read(settings.home)
    if to is None and not served.aliased:
        return plan(settings, served.version, report)  # a promotion or rollback was interrupted: to its end first
    version = to if to is not None else served.previous
    if version is None:
        msg = f"version {served.version} serves from the beginning: there is none to go back to; see `kappa replay promote`"
        raise InputError(msg)
    if version == served.version and served.aliased:
        msg = f"version {version} serves now; wanted one that served before: {earlier_versions(served)}"
        raise InputError(msg)
    if version not in served.versions:
        msg = f"version {version} has never served; wanted {earlier_versions(served)}, or `kappa replay promote {version}`"
        raise InputError(msg)
    if not start_position.jobs_with_checkpoint(settings.model_copy(update={"version": version})):
        msg = f"the checkpoints of version {version} are gone; replay under another name, and promote that"
        raise InputError(msg)
    return plan(settings, version, report)


def earlier_versions(served: Serving) -> str:
    """The versions that served before, as text."""
    return ", ".join(name for name in served.versions if name != served.version) or "none has"


def check_known(new: Settings, replayed: ReplayManifest | None) -> None:
    """Raise InputError for a version that was neither replayed to the end nor ever run."""
    if replayed is not None:
        replayed.check_complete()
    elif not start_position.jobs_with_checkpoint(new) or pinned_or_replayed(new) is None:
        known = sorted({*replay_manifest.replayed_versions(new.home), *started_versions(new)})
        msg = f"no version {new.version!r}: it was neither replayed nor run in {new.home}; there are {', '.join(known) or 'none'}"
        raise InputError(msg)


def check_same(old: Settings, new: Settings) -> None:
    """Raise InputError where a version cannot continue the other one, or not under these settings: their windowing or topics differ."""
    check_configuration(new)
    own, other = pinned_or_replayed(new), pinned_or_replayed(old)
    if own is None or other is None:
        return
    mine, theirs = (dict(dotted_names({name: kept.get(name) for name in SAME})) for kept in (own, other))
    differing = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
    if differing:
        key = differing[0]
        msg = (
            f"version {new.version} has {key} = {mine.get(key)}, {old.version} has {theirs.get(key)}: windows would not be "
            f"those of before; wanted a version that differs in detection and correlation only"
        )
        raise InputError(msg)


def check_reach(new: Settings, replayed: ReplayManifest | None) -> None:
    """Raise InputError or DeterminismViolation where the log no longer reaches back to where a version ended."""
    if start_position.jobs_with_checkpoint(new):
        data_loss.check_before_start(new, data_loss.checkpoints(new, jobs.NAMES))
    elif start_position.start_position(new) is None and replayed is not None:
        last = start_position.check_savepoint(new, replay_manifest.folder_of(new) / replayed.last_state)
        start_position.first_offsets_after(new, last.watermark)


def covered_since(new: Settings, replayed: ReplayManifest | None) -> int | None:
    """The watermark after which a version has results of all records, epoch ms; None where it has them from the beginning."""
    begun = start_position.start_position(new)
    if replayed is None:
        if begun is None or begun.watermark != start_position.NO_WINDOW:
            return None if begun is None else begun.watermark
        return complete_after(
            new, {part: begun.offsets.get(part[0], {}).get(part[1], 0) for part in input_partitions(new)}
        )
    if begun is not None and begun.watermark > replayed.whole.until:
        return begun.watermark  # its jobs started later than its replay ended: between the two there is nothing
    if replayed.whole.after is not None:
        return replayed.whole.after
    return replayed.complete_after or complete_after(new, replayed.whole.begins)


def nothing_has_served(old: Settings, served: Serving) -> bool:
    """Whether the version that should serve has never run in this home."""
    return served == Serving() and not start_position.is_known_here(old)


def check_serves_nowhere(old: Settings, new: Settings) -> None:
    """Raise InputError where a version that this home knows nothing of serves all the same: with the home of its jobs.

    One that is shown to readers already, and whose jobs have run here, may serve: the home that it had was lost.
    """
    with closing(elasticsearch_connection(old).connect()) as elastic:
        shown = [version for version, serves in other_homes.shown_versions(elastic).items() if serves]
    if new.version in shown and start_position.jobs_with_checkpoint(new):
        return
    others = sorted({*shown} - {new.version})
    filled = other_homes.filled_topics(old)
    if not others and not filled:
        return
    version = others[0] if others else old.version
    why = "readers are shown it" if others else f"{', '.join(filled)} hold its records"
    msg = (
        f"version {version} serves, as {why}, and this home, {old.home}, knows nothing of it: promote with {other_homes.OF_JOBS}; if that home "
        f"is lost, run version {version} in this one (`kappa recover`, or `kappa run all --take-over`), then `kappa replay promote {version}`"
    )
    raise InputError(msg)


def dry_run_record(what: PromotionPlan) -> dict[str, Any]:
    """The output of a dry run: what would be done, as JSON types."""
    reached, other = (indexed_watermark(one) for one in (what.new, what.old))
    return {
        "version": what.new.version,
        "previous": what.old.version,
        "dry_run": True,
        "already": what.new.version == what.old.version,
        "covers_from": what.covers_from,
        "covers_from_time": iso_or(what.covers_from, "the beginning"),
        "reached": reached,
        "reached_time": iso_or(reached, "no watermark yet"),
        "previous_reached": other,
        "previous_reached_time": iso_or(other, "no watermark yet"),
        "previous_running": bool(locks.busy(what.old, jobs.NAMES)),
    }


def indexed_watermark(settings: Settings) -> int | None:
    """The watermark up to which a version is indexed; while its jobs run, `index` is always a batch behind: waits for it."""
    with open_consumer(settings) as consumer:
        indexed, deadline = IndexedWatermark(settings, consumer), time.monotonic() + INDEXED_SECONDS
        while indexed.poll() is None and locks.busy(settings, ["index"]) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return indexed.done


# --- promotion


def take_over(
    what: PromotionPlan,
    stopping: threading.Event,
    on_progress: OnProgress = lambda progress: None,
    report: Report = silent,
) -> dict[str, Any]:
    """Let the plan's version serve.

    Parameters
    ----------
    what
        As `plan` or `plan_back` returns it.
    stopping
        Set to interrupt.
    on_progress
        Called about once a second until the candidate has caught up.
    report
        Gets a line for each step that takes long.

    Returns
    -------
    dict
        The versions, the watermark and the seconds that it took, as JSON types.

    Raises
    ------
    InputError
        It was interrupted before the change, or another promotion runs or has happened meanwhile.
    KappaError
        Whatever ends one of the candidate's jobs.
    """
    home = what.old.home
    refusal = "another promotion or rollback runs in this home; wait for it"
    with held_lock(serving.folder(home) / "promote.lock", 0, refusal):
        served = serving.read(home)
        if served.version == what.new.version:
            return finish_promotion(what.new, served, report)
        if served.intervals != what.served.intervals:
            msg = "the serving version has changed meanwhile, by another promotion; look with `kappa replay list`, and try again"
            raise InputError(msg)
        began = time.monotonic()
        followed = bool(locks.busy(what.old, jobs.NAMES))
        if what.first:
            after = None
            with locks.only_here(what.new, [locks.REPLAY]):  # so that nobody drops it meanwhile
                begin_serving(what, after)
        else:
            after = catch_up(what, stopping, on_progress, report)
        seconds = round(time.monotonic() - began, 1)
    runs = wait_until_run(what.new, stopping, TAKEN_OVER_SECONDS if followed else 0.0)
    return outcome_record(what.new, what.served.version, after, seconds, runs)


def finish_promotion(new: Settings, served: Serving, report: Report) -> dict[str, Any]:
    """Finish a promotion that happened already: set the aliases, which an interruption may have left unset."""
    report(f"version {new.version} serves already" + ("" if served.aliased else "; the aliases follow now"))
    set_aliases(new)
    after = served.intervals[-1].after
    return outcome_record(new, served.previous, after, 0.0, bool(locks.busy(new, jobs.NAMES))) | {"already": True}


def outcome_record(
    new: Settings, previous: str | None, after: int | None, seconds: float, running: bool
) -> dict[str, Any]:
    """The outcome, as JSON types."""
    return {
        "version": new.version,
        "previous": previous,
        "after": after,
        "after_time": None if after is None else iso_or(after, ""),
        "caught_up_seconds": seconds,
        "running": running,
        "already": False,
    }


def catch_up(what: PromotionPlan, stopping: threading.Event, on_progress: OnProgress, report: Report) -> int:
    """Run the candidate until it has caught up, then let it serve; returns the watermark after which it serves."""
    with ExitStack() as stack:
        finish_index(what.old, stopping, report)
        if stopping.is_set():
            raise stopped_error(what)
        check = stack.enter_context(running_candidate(what.new, report))
        consumer = stack.enter_context(open_consumer(what.old))
        watch = HandoverWatch(what, IndexedWatermark(what.old, consumer), IndexedWatermark(what.new, consumer))
        while not stopping.wait(POLL_SECONDS):
            check()
            progress = watch.poll()
            on_progress(progress)
            if progress.agreed is not None and progress.new is not None and progress.new >= progress.agreed:
                begin_serving(what, progress.agreed)
                return progress.agreed
    raise stopped_error(what)


def stopped_error(what: PromotionPlan) -> InputError:
    """The error for a promotion that a signal has stopped."""
    return InputError(
        f"stopped before version {what.new.version} had caught up: nothing has changed; run it again, it goes on"
    )


@dataclass
class HandoverWatch:
    """Finds the watermark at which one version hands over to the other."""

    what: PromotionPlan
    old: IndexedWatermark
    new: IndexedWatermark
    agreed: int | None = None

    def poll(self) -> PromotionProgress:
        """See how far both versions are, and agree on a watermark once they are close. Raises InputError where none can be reached any more."""
        old, new = self.old.poll(), self.new.poll()
        if self.agreed is None and self.is_allowed(old) and old is not None and new is not None:
            self.agreed = old if old - new <= CLOSE_SECONDS * MILLIS else None
        if not self.is_allowed(old) and not locks.busy(self.what.old, jobs.NAMES):
            self.raise_unreachable(old)
        return PromotionProgress(old, new, self.agreed)

    def is_allowed(self, watermark: int | None) -> bool:
        """Whether the interval may begin after a watermark."""
        return watermark is not None and (self.what.earliest is None or watermark >= self.what.earliest)

    def raise_unreachable(self, old: int | None) -> None:
        """Raise InputError: the version that serves has stopped before the first window of the candidate."""
        one, other = self.what.old.version, self.what.new.version
        if self.old.unindexed():
            msg = f"the jobs of version {one} were stopped meanwhile, before all was indexed; nothing has changed: run it again"
            raise InputError(msg)
        msg = (
            f"version {one} stopped at {iso_or(old, 'no watermark')}, version {other} may serve after "
            f"{iso_or(self.what.earliest, 'the beginning')}: windows between would be missing; start `kappa run all --version "
            f"{one}`, or replay from earlier"
        )
        raise InputError(msg)


def finish_index(old: Settings, stopping: threading.Event, report: Report) -> None:
    """Index the remaining results of a version whose `index` no process runs; a part of them if `stopping` is set meanwhile.

    Raises InputError where another process runs the version's other jobs.
    """
    with locks.taken(old, ["index"]) as busy:
        if busy:
            return
        others = locks.busy(old, [name for name in jobs.NAMES if name != "index"])
        if others:
            msg = (
                f"version {old.version}: {', '.join(others)} run, index does not, so Elasticsearch falls behind; start "
                f"`kappa run index`, then try again"
            )
            raise InputError(msg)
        with open_consumer(old) as consumer:
            left = IndexedWatermark(old, consumer).unindexed()
        if left:
            report(f"nobody indexes version {old.version}: indexing the {left:,} records that it has written")
            live.index_to_end(session(old, "kappa-promote", report), old, stopping)


@contextmanager
def running_candidate(new: Settings, report: Report) -> Iterator[Callable[[], None]]:
    """Run the candidate's jobs during the block; yields a function that raises if they no longer run.

    Where another process runs all of them, that is enough. Raises InputError where it runs some of them only.
    """
    with locks.taken(new, jobs.NAMES) as busy:
        if not busy:
            report(f"running the jobs of version {new.version} until it has caught up")
            start_position.start_after_replay(new, report)
            session(new, "kappa-promote", report)
            health = Health(new.health.stale_seconds)
            with live.started_jobs(new, JobSelection(jobs.NAMES), health, report=report) as runner:
                yield runner.check_all
            return
    check_run_elsewhere(new)
    report(f"the jobs of version {new.version} run in another process")
    yield lambda: check_run_elsewhere(new)


def check_run_elsewhere(new: Settings) -> None:
    """Raise InputError where not all jobs of a version run."""
    missing = sorted(set(jobs.NAMES) - set(locks.busy(new, jobs.NAMES)))
    if missing:
        msg = (
            f"nobody runs {', '.join(missing)} of version {new.version}, and not all of its jobs can be run here: start them "
            f"with `kappa run --version {new.version}`, or stop its other jobs"
        )
        raise InputError(msg)


def begin_serving(what: PromotionPlan, after: int | None) -> None:
    """Write the interval in which the version serves, which begins after watermark `after`, then set the aliases."""
    home = what.new.home
    with serving.locked(home):
        at = datetime.now(UTC).isoformat(timespec="seconds")
        serving.write(home, what.served.then(what.new.version, after, what.by, at))
    log.info("another version serves", version=what.new.version, before=what.old.version, after=after, by=what.by)
    set_aliases(what.new)


def set_aliases(new: Settings) -> None:
    """Set the live aliases for the intervals of all versions."""
    client = elasticsearch_connection(new).connect()
    try:
        aliases.follow_serving(client, new)
    finally:
        client.close()


def wait_until_run(new: Settings, stopping: threading.Event, wait_seconds: float) -> bool:
    """Wait until some process runs a version: the one that ran the version before needs a moment. Returns False if none does in time."""
    deadline = time.monotonic() + wait_seconds
    while not locks.busy(new, jobs.NAMES):
        if time.monotonic() >= deadline or stopping.wait(POLL_SECONDS):
            return False
    return True
