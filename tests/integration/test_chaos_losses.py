"""Losses of what agents have written, and a clock that steps back: refused until a command is given, and then as far as the log reaches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.live_jobs import records

from app.core.settings import PROJECT, Settings
from app.runtime.run import index_to_end
from benchmarks.chaos import clock
from benchmarks.chaos.comparison import results
from benchmarks.chaos.experiment import ChaosPlan, run
from benchmarks.chaos.outcome import ChaosOutcome, RefusalRecord
from benchmarks.chaos.refusals import AFTER_STEP, SAVEPOINT
from benchmarks.chaos.schedule import PlannedFault
from replay.run import plan, replay
from replay.slices import RequestedRange

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]

JARS = PROJECT / ".kappa" / "jars"
SIZES = ChaosPlan(27, 1800, hosts=2, drain_seconds=900)

Look = Callable[[Settings, Settings], None]


def lost(spark: SparkSession, kind: str, home: Path, look: Look, sizes: ChaosPlan = SIZES) -> ChaosOutcome:
    """A run with one loss. `look` sees the settings of the version that lost records, and of one that has read what is left."""

    def fault_free_run(settings: Settings) -> None:
        replay(spark, plan(settings, RequestedRange()))
        index_to_end(spark, settings)
        look(settings.model_copy(update={"version": "live"}), settings)

    outcome = run(sizes, [PlannedFault(1, kind, 2, 0.5, 1.0)], home, JARS, fault_free_run)
    assert not outcome.failure, f"{outcome.failure}\n{(home / 'run.log').read_text()[-3000:]}"
    return outcome


def refusal_of(outcome: ChaosOutcome) -> RefusalRecord:
    (refusal,) = outcome.refusals
    return refusal


def scores(settings: Settings) -> set[tuple[int, bytes]]:
    """Each score with the end of its window."""
    found = ((json.loads(text), text) for text in results(settings, "scores"))
    return {(score["window_end"], text) for score, text in found if score["record"] == "score"}


def reasons(settings: Settings) -> list[str]:
    letters = (dict(headers) for _, _, headers in records(settings, "dead-letters"))
    return [letter["kappa.reason"].decode() for letter in letters]


def test_after_a_power_cut_the_version_begins_again_at_the_common_prefix(spark: SparkSession, tmp_path: Path) -> None:
    seen: dict[str, set[tuple[int, bytes]]] = {}

    def look(live: Settings, left: Settings) -> None:
        seen.update(live=scores(live), left=scores(left))
        assert [one for one in reasons(live) if one.startswith("gap: ") and "lost its end" in one]

    refusal = refusal_of(lost(spark, "input log cut", tmp_path, look))
    assert "has lost its end" in refusal.sentence and refusal.command == "kappa recover"
    # one by itself may be newer, and lie before the cut as well
    assert refusal.answer["start"]["name"].startswith((SAVEPOINT, "auto-live-"))
    assert seen["left"] and seen["left"] <= seen["live"], "all that a run over what is left gives is there"
    common = refusal.answer["start"]["watermark"]
    only_live = {window for window, _ in seen["live"] - seen["left"]}
    assert all(window > common for window in only_live), "and nothing else up to the savepoint"


@pytest.mark.parametrize("kind", ["input topic made again", "input records deleted unread"])
def test_what_agents_wrote_and_nobody_read_is_lost_and_the_version_goes_on_from_its_state(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    windows: list[int] = []

    def look(live: Settings, left: Settings) -> None:
        windows.extend(sorted(window for window, _ in scores(live)))
        assert [one for one in reasons(live) if one.startswith("gap: ")]
        assert max(windows) == max(window for window, _ in scores(left))
        assert min(windows) < min(window for window, _ in scores(left)), "it has the windows of what is gone, too"

    refusal = refusal_of(lost(spark, kind, tmp_path, look))
    assert "kappa recover" in refusal.sentence
    assert refusal.answer["lost"] and refusal.answer["done"]


def test_a_clock_that_steps_back_is_refused_until_a_replay_takes_over(spark: SparkSession, tmp_path: Path) -> None:
    if not clock.may_step():
        pytest.skip(clock.MISSING)
    sizes = ChaosPlan(28, 2400, hosts=2, drain_seconds=900, clock=True)
    outcome = lost(spark, "clock back", tmp_path, lambda live, left: None, sizes)
    refusal = refusal_of(outcome)
    assert "dropped by the watermark" in refusal.sentence
    assert refusal.answer["version"] == AFTER_STEP
    # The version that serves now has what a run without the refusal over the same log has.
    assert outcome.passed, json.dumps(outcome.record(), indent=1)[:20_000]
    assert outcome.records["scores"].chaos > 0
