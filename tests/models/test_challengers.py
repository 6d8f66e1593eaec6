"""Challengers: the contract of detectors holds with them as well, and nothing else is made by a name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import detector_contract as contract
from support.fleet_story import START, DetectorRun

from models.challengers import memory
from models.challengers.adapters import check, resolve
from models.challengers.memory import ChallengerMemories
from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from models.stats import reference_distribution

RIVER = dataclasses.replace(
    contract.QUICK,
    challenger="river.anomaly.HalfSpaceTrees",
    challenger_options={"n_trees": 5, "height": 5, "window_size": 20},
    challenger_rows=60,
)
SKLEARN = dataclasses.replace(contract.QUICK, challenger="sklearn.svm.OneClassSVM", challenger_rows=60)
FOREST = dataclasses.replace(
    SKLEARN, challenger="sklearn.ensemble.IsolationForest", challenger_options={"n_estimators": 5}
)
BOTH = pytest.mark.parametrize("p", [RIVER, SKLEARN], ids=["river", "sklearn"])
# What does not hold, and why: docs/challengers.md.
NOT_HELD = {
    "test_an_ordinary_window_rewrites_less_than_a_third_of_a_gauge",  # all rows of a challenger are rewritten
    "test_an_injected_anomaly_ranks_first",  # many scores are bounded: an ordinary extreme elsewhere is as strange to them
    "test_the_story_has_episodes_of_every_detector",  # a challenger has no features, so no part `level`
}
SLOW = {"test_episodes_of_what_is_forgotten_are_closed"}


def properties() -> Iterator[Any]:
    """The tests of the contract suite, once for each of their arguments."""
    for name, test in inspect.getmembers(contract, inspect.isfunction):
        if not name.startswith("test_") or name in NOT_HELD:
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        arguments = marks[0].args[1] if marks else [None]
        long = [pytest.mark.long] if name in SLOW or hasattr(test, "hypothesis") else []
        for argument in arguments:
            yield pytest.param(test, argument, id=name if argument is None else f"{name}[{argument}]", marks=long)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(("test", "argument"), list(properties()))
def test_the_contract_holds(test: Any, argument: Any, p: DetectorParameters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "QUICK", p)
    test() if argument is None else test(argument)


@pytest.mark.slow
@pytest.mark.parametrize("p", [RIVER, FOREST], ids=["river", "sklearn"])
def test_dump_and_load_go_on_to_the_bit_and_hosts_do_not_touch(p: DetectorParameters) -> None:
    """One example of two properties of the contract that hypothesis checks in `make test-long`, with a detector that draws numbers."""
    story = contract.fleet(3, 90, 1)
    whole, first = DetectorRun(ShardDetector(p)), DetectorRun(ShardDetector(p))
    whole.play(story)
    first.play(story[:61])
    second = DetectorRun(ShardDetector.load(first.detector.dump(), p), first.now)
    second.play(story[61:])
    assert contract.answers(whole.scores) == contract.answers(first.scores + second.scores)
    assert whole.detector.dump() == second.detector.dump()
    alone = DetectorRun(ShardDetector(p))
    alone.play(contract.of_host(rows, ("h-2",)) for rows in story)
    for together, own in zip(contract.answers(whole.scores), contract.answers(alone.scores), strict=True):
        assert own.items() <= together.items()


@pytest.mark.slow
@BOTH
def test_a_spike_is_the_strangest_of_late(p: DetectorParameters) -> None:
    better = {"gamma": 0.1} if p is SKLEARN else {"window_size": 50}
    p = dataclasses.replace(p, challenger_options=better, challenger_rows=200)
    values = np.random.default_rng(8).normal(20, 1, 260)
    values[250] = 35.0
    run, scores = DetectorRun(ShardDetector(p)), []
    for value in values.tolist():
        run.play([{"gauge/h//x": value}])
        scores.append(run.score_of("gauge/h//x"))
    assert np.argmax(scores[200:]) in (50, 51)  # there, or on the way back
    assert scores[250] > np.nanquantile(scores[200:250], 0.9)


@BOTH
def test_a_challenger_speaks_for_metrics_and_the_product_for_the_rest(p: DetectorParameters) -> None:
    story = contract.fleet(1)[:95]  # no change has been adopted, which goes by what is strange
    own, other = DetectorRun(ShardDetector(contract.QUICK)), DetectorRun(ShardDetector(p))
    own.play(story)
    other.play(story)
    one, two = own.scores[-1], other.scores[-1]
    assert one.series.tolist() == two.series.tolist()
    metric = np.array([name.startswith(("gauge/", "counter/")) for name in one.series])
    assert not np.array_equal(one.score[metric], two.score[metric], equal_nan=True)
    for column in ("score", "typical"):
        np.testing.assert_array_equal(getattr(one, column)[~metric], getattr(two, column)[~metric])
    np.testing.assert_array_equal(one.typical[metric], two.typical[metric])


@pytest.mark.slow
@BOTH
def test_retraining_goes_by_event_time_and_memory_stays_bounded(p: DetectorParameters) -> None:
    p = dataclasses.replace(p, challenger_retrain_hours=0.25)
    run, rng = DetectorRun(ShardDetector(p)), np.random.default_rng(1)
    began = set()
    for value in rng.normal(20, 1, 400):
        run.play([{"gauge/h//x": float(value)}])
        memories = run.detector._state.challengers
        assert memories is not None
        began.add(memories.series[0].began)
        assert len(memories.series[0].values) <= 2 * p.challenger_rows
        assert len(memories.series[0].scores) <= p.challenger_rows
    steady = sorted(began)[4:]
    assert set(np.diff(steady)) == {900_000} or set(np.diff(steady)) == {600_000}  # sooner where 60 rows are doubled


@BOTH
def test_another_detector_begins_with_the_values_and_without_the_scores(p: DetectorParameters) -> None:
    first = DetectorRun(ShardDetector(p))
    first.play({"gauge/h//x": float(v)} for v in np.random.default_rng(2).normal(20, 1, 100))
    parts = first.detector.dump()
    other = RIVER if p is SKLEARN else SKLEARN
    taken = ShardDetector.load(parts, other)._state.challengers
    assert taken is not None and taken.series[0].scores == [] and len(taken.series[0].values) > 50
    assert ShardDetector.load(parts, contract.QUICK).dump().keys() == ShardDetector(contract.QUICK).dump().keys()


def test_a_state_is_the_same_bytes_after_it_was_loaded() -> None:
    run = DetectorRun(ShardDetector(SKLEARN))
    run.play(contract.fleet(2)[:60])
    memories = run.detector._state.challengers
    assert memories is not None
    assert ChallengerMemories.load(memories.dump()).dump() == memories.dump()


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("os.path.join", {}, "wanted a class of river.anomaly or scikit-learn"),
        ("river.anomaly._private.X", {}, "wanted a class of"),
        ("sklearn.__builtins__.X", {}, "wanted a class of"),
        ("river.stream.Cache", {}, "wanted a class of"),
        ("river.anomaly.QuantileFilter", {}, "no anomaly detector of its own"),
        ("river.anomaly.Nobody", {}, "no such class"),
        ("sklearn.nowhere.Nobody", {}, "no such class"),
        ("sklearn.ensemble.RandomForestClassifier", {}, "no outlier detector"),
        ("sklearn.ensemble.IsolationForest", {"trees": 3}, "no option 'trees'; it has n_estimators"),
        ("sklearn.ensemble.IsolationForest", {"n_estimators": -1}, "cannot be used with options"),
    ],
)
def test_what_cannot_challenge_is_refused_in_one_line(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        check(name, options)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(f"river.anomaly.{own}" for own in ("GaussianScorer", "LODA", "LocalOutlierFactor", "OneClassSVM")),
        *(f"river.anomaly.{own}" for own in ("PredictiveAnomalyDetection", "StandardAbsoluteDeviation")),
        "sklearn.covariance.EllipticEnvelope",
        "sklearn.linear_model.SGDOneClassSVM",
        "sklearn.neighbors.LocalOutlierFactor",
        "sklearn.svm.OneClassSVM",
    ],
)
def test_other_detectors_of_both_libraries_can_be_used(name: str) -> None:
    p = dataclasses.replace(RIVER, challenger=name, challenger_options={})
    run = DetectorRun(ShardDetector(p), START)
    run.play({"gauge/h//x": float(v)} for v in np.random.default_rng(3).normal(20, 1, 250))
    assert np.isfinite(run.score_of("gauge/h//x"))


def test_seeds_are_fixed_unless_they_are_given() -> None:
    assert resolve("river.anomaly.HalfSpaceTrees", {}).make().seed == 1
    assert resolve(FOREST.challenger, {"random_state": 9}).make().random_state == 9


@pytest.mark.parametrize("draw", ["normal", "exponential", "uniform"])
def test_the_tail_is_a_probability(draw: str) -> None:
    """-ln P for scores of three distributions, one bounded: how often it exceeds 3 and 6 nats is e^-3 and e^-6 within a factor."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(25):
        scores = getattr(rng, draw)(size=2000)
        found += [memory.surprisal(y, scores[:1000]) for y in scores[1000:]]
    exceeded = [float(np.mean(np.array(found) >= level)) for level in (3.0, 6.0)]
    assert exceeded[0] == pytest.approx(np.exp(-3), rel=0.15)
    assert (draw == "uniform" or np.exp(-6) / 2 < exceeded[1]) and exceeded[1] < np.exp(-6) * 2  # careful at a bound


def test_the_tail_rises_and_is_unknown_at_first() -> None:
    past = np.random.default_rng(6).normal(size=300)
    surprisals = [memory.surprisal(y, past) for y in np.linspace(-4, 30, 200)]
    assert (np.diff(surprisals) >= -1e-9).all()
    assert surprisals[-1] > 13.8
    assert np.isnan(memory.surprisal(3.0, past[:10]))
    assert np.isfinite(memory.surprisal(1.0, np.zeros(100)))


def test_nats_and_joined_scores_are_inverse() -> None:
    x = np.linspace(0, 30, 100)
    np.testing.assert_allclose(reference_distribution.surprisal(reference_distribution.joined_score(x)), x, atol=1e-9)
