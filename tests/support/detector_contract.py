"""Contract of the detector of a shard: properties that hold whatever the data, and with a challenger in the model's place."""

import dataclasses
from collections.abc import Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.fleet_story import START, WINDOW, DetectorRun, Row, windows

from models.core.parameters import DetectorParameters
from models.core.store import FORMAT
from models.core.windows import Scores
from models.detection.detector import ShardDetector

QUICK = DetectorParameters(warm_up_minutes=5, grace_minutes=5, persistence_minutes=3, patience_minutes=10)
HOSTS = ("h-1", "h-2", "h-3")
Fleet = list[dict[str, Row]]


def fleet(seed: int, count: int = 150, per_host: int = 3) -> Fleet:
    """Windows of three hosts with noise, counters, logs, a shift, a silence, new things, and rows that are missing."""
    rng = np.random.default_rng(seed)
    story: Fleet = []
    total = dict.fromkeys(HOSTS, 1e6)
    for k in range(count):
        rows: dict[str, Row] = {}
        for host in HOSTS:
            total[host] += rng.uniform(900, 1100)
            if host == "h-3" and 100 <= k < 115:
                continue
            for i in range(per_host):
                if rng.random() < 0.98:
                    level = 60.0 if host == "h-1" and i == 0 and 80 <= k < 120 else 20.0 + i
                    rows[f"gauge/{host}/web/load.{i}"] = round(level + rng.normal(), 2)
            rows[f"counter/{host}//bytes"] = total[host] if k != 90 else 5.0
            if lines := int(rng.poisson(4)):
                rows[f"logs/{host}/web/info"] = lines
                rows[f"template/{host}/web/info/aa"] = (lines, "took <num> ms")
            if host == "h-2" and k > 90 and rng.random() < 0.8:
                rows[f"template/{host}/web/info/bb"] = (2, "never seen <num>")
            shares = (0.3, 0.3, 0.4) if host == "h-2" and 90 <= k < 130 else (0.6, 0.3, 0.1)
            for name, n in zip("xyz", rng.poisson(rng.gamma(5, 14) * np.array(shares)).tolist(), strict=True):
                rows[f"template/{host}/app/info/{name}"] = (n, f"text {name} <num>")
        if k > 70:
            rows["gauge/h-2/db/size"] = float(k)
        story.append(rows)
    return story


def of_host(rows: Mapping[str, Row], hosts: tuple[str, ...]) -> dict[str, Row]:
    return {name: row for name, row in rows.items() if name.split("/")[1] in hosts}


def answers(scores: list[Scores]) -> list[dict[str, tuple[bytes, str]]]:
    """Every score to the last bit, by series."""
    return [
        {
            name: (
                np.array([getattr(s, f)[i] for f in ("score", "value", "typical", "lower", "upper")]).tobytes(),
                kind,
            )
            for i, (name, kind) in enumerate(zip(s.series, s.kind, strict=True))
        }
        for s in scores
    ]


def texts_of(run: DetectorRun) -> list[str]:
    return [repr(dataclasses.asdict(n)) for n in run.events]


@cache
def played(challenger: str) -> tuple[Fleet, DetectorRun]:
    """A story, and a detector's answers to it; kept for the tests that only read them. `challenger` is that of `QUICK`."""
    assert challenger == QUICK.challenger
    story, run = fleet(1), DetectorRun(ShardDetector(QUICK))
    run.play(story)
    return story, run


@examples(5)
@given(st.integers(0, 1000), st.integers(1, 124))
def test_dump_and_load_equal_one_pass_to_the_bit(seed: int, cut: int) -> None:
    story = fleet(seed, 125, 2)
    whole = DetectorRun(ShardDetector(QUICK))
    whole.play(story)
    first = DetectorRun(ShardDetector(QUICK))
    first.play(story[:cut])
    second = DetectorRun(ShardDetector.load(first.detector.dump(), QUICK), first.now)
    second.play(story[cut:])
    assert answers(whole.scores) == answers(first.scores + second.scores)
    assert texts_of(whole) == texts_of(first) + texts_of(second)
    assert whole.detector.dump() == second.detector.dump()


@examples(5)
@given(st.integers(0, 1000), st.permutations(HOSTS), st.integers(1, 2), st.integers(1, 9))
def test_splitting_a_shard_by_hosts_changes_no_bit(seed: int, hosts: tuple[str, ...], cut: int, per_host: int) -> None:
    story = fleet(seed, 110, per_host)
    whole = DetectorRun(ShardDetector(QUICK))
    whole.play(story)
    parts = [DetectorRun(ShardDetector(QUICK)) for _ in range(2)]
    for run, share in zip(parts, (hosts[:cut], hosts[cut:]), strict=True):
        run.play(of_host(rows, tuple(share)) for rows in story)
    joined = [a | b for a, b in zip(*(answers(run.scores) for run in parts), strict=True)]
    assert answers(whole.scores) == joined
    assert sorted(texts_of(whole)) == sorted(texts_of(parts[0]) + texts_of(parts[1]))


def test_a_dump_of_what_was_changed_completes_an_older_one() -> None:
    p = dataclasses.replace(QUICK, alarm_chance=1e-9)  # a level that is adopted changes what seldom changes
    story, run = fleet(1), DetectorRun(ShardDetector(p))
    run.play(story[:120])
    parts = run.detector.dump()
    run.play(story[120:])
    changed = run.detector.dump(only_changed=True)
    assert not {"names", "texts", "cold"} & changed.keys()
    assert parts | changed == run.detector.dump()


def test_another_format_is_refused() -> None:
    detector = ShardDetector(QUICK)
    parts = detector.dump()
    with pa.ipc.open_stream(parts["gauges"]) as reader:
        batch = reader.read_next_batch()
    metadata = {**batch.schema.metadata, b"format": b"99"}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata(metadata)) as writer:
        writer.write_batch(batch.replace_schema_metadata(metadata))
    with pytest.raises(ValueError, match=f"has format 99; wanted {FORMAT}"):
        ShardDetector.load(parts | {"gauges": bytes(sink.getvalue())}, QUICK)


def test_a_missing_part_is_refused_by_name() -> None:
    parts = ShardDetector(QUICK).dump()
    del parts["counts"]
    with pytest.raises(ValueError, match="counts"):
        ShardDetector.load(parts, QUICK)


def test_the_story_has_episodes_of_every_detector() -> None:
    _, run = played(QUICK.challenger)
    assert {n.part for n in run.events} >= {"level", "mix", "silence", "new template"}


def test_windows_must_come_in_order() -> None:
    detector = ShardDetector(QUICK)
    detector.step(START, windows({}))
    with pytest.raises(ValueError, match="order"):
        detector.step(START, windows({}))


def test_every_row_is_answered_in_its_place() -> None:
    story, run = played(QUICK.challenger)
    for rows, scores in zip(story, run.scores, strict=True):
        assert scores.series[: len(rows)].tolist() == sorted(rows)


def test_scores_are_not_known_while_warming_up() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(fleet(3)[:29])
    assert all(np.isnan(s.score).all() and set(s.kind) <= {"warming"} for s in run.scores)
    assert run.events == []


def test_scores_are_surprises_once_warm() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(fleet(3)[:70])
    last = run.scores[-1]
    known = np.isfinite(last.score)
    assert known.sum() >= 12
    assert (last.score[known] >= 0).all()
    assert (last.lower[known] <= last.typical[known]).all()
    assert (last.typical[known] <= last.upper[known]).all()


def test_a_score_of_a_template_has_its_text_also_where_no_line_came() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    story = fleet(3)[:70]
    run.play(story)
    gone = "template/h-1/app/info/x"
    run.play([{name: row for name, row in story[-1].items() if name != gone}] * 3)
    texts = [dict(zip(s.series.tolist(), s.template.tolist(), strict=True)) for s in run.scores]
    assert all((text is not None) == name.startswith("template/") for one in texts for name, text in one.items())
    assert texts[60][gone] == texts[-1][gone] == "text x <num>"


@pytest.mark.parametrize("strange", ["gauge/h-1/web/load.1", "counter/h-2//bytes", "logs/h-3/web/info"])
def test_an_injected_anomaly_ranks_first(strange: str) -> None:
    run = DetectorRun(ShardDetector(QUICK))
    story = fleet(4)[:70]
    run.play(story)
    rows = {name: row for name, row in story[-1].items() if "/size" not in name}
    rows |= {name: float(row) + 1000 for name, row in rows.items() if name.startswith("counter/")}  # type: ignore[arg-type]
    rows[strange] = 400 if strange.startswith("logs") else float(rows[strange]) * 5  # type: ignore[arg-type]
    run.play([rows])
    last = run.scores[-1]
    assert last.series[np.nanargmax(last.score)] == strange


def test_every_episode_is_opened_once_and_closed_once_at_most() -> None:
    _, run = played(QUICK.challenger)
    seen: dict[tuple[str, int], str] = {}
    for n in run.events:
        before = seen.get((n.series, n.start), "nothing")
        assert before == "nothing" if n.status == "open" else before in ("open", "update")
        seen[n.series, n.start] = n.status
    assert "close" in seen.values()


def test_no_window_says_the_same_status_of_a_series_twice() -> None:
    _, run = played(QUICK.challenger)
    events = [(n.series, n.window_end, n.status) for n in run.events]
    assert len(events) == len(set(events)) > 5


def test_memory_is_bounded_series_that_do_not_come_back_are_forgotten() -> None:
    p = dataclasses.replace(QUICK, forget_days=0.5)
    run = DetectorRun(ShardDetector(p))
    run.play(fleet(7)[:40])
    size = sum(map(len, run.detector.dump().values()))
    for day in range(12):
        run.gap(3600)
        names = {f"gauge/h-{day}/web/m{i}": 1.0 for i in range(5)}
        run.play([names | {f"template/h-{day}/web/info/{day}": (1, f"text {day}")}] * 3)
    assert sum(map(len, run.detector.dump().values())) < 2 * size
    with pytest.raises(KeyError):
        run.detector.describe_state("gauge/h-1/web/load.1")


def test_an_ordinary_window_rewrites_less_than_a_third_of_a_gauge() -> None:
    names = [f"gauge/host-{i % 50:04d}/web/system.cpu.utilization{{cpu={i:04d}}}" for i in range(4000)]
    assert len(names[0]) >= 50
    detector = ShardDetector(QUICK)
    detector.step(START + WINDOW, windows({name: 1.0 for name in names}))
    assert sum(map(len, detector.dump().values())) / len(names) < 1_680  # 60 of it are the name
    detector.step(START + 2 * WINDOW, windows({name: 1.0 for name in names}))
    assert sum(map(len, detector.dump(only_changed=True).values())) / len(names) < 470


def test_the_cold_part_is_dumped_when_an_hour_has_ended_and_not_again() -> None:
    run = DetectorRun(ShardDetector(QUICK), START + 3_600_000 - 3 * WINDOW)
    kept = []
    for k in range(5):
        run.play([{"gauge/h-1/web/load": 20.0 + k % 2}])
        kept.append("cold" in run.detector.dump(only_changed=True))
    assert kept == [True, False, True, False, False]


def test_the_state_is_described_by_name() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(fleet(8)[:60])
    found = run.detector.describe_state("gauge/h-2/web/load.1")
    assert found["typical"] == pytest.approx(21, abs=1)
    assert found["ever"]["fast mean"]["mean"] == pytest.approx(21, abs=1)
    assert found["healthy"]["value"]["spread"] == pytest.approx(1, rel=0.3)
    assert found["episode"] is None


def test_a_step_without_rows_is_answered_with_nothing() -> None:
    scores, events = ShardDetector(QUICK).step(START, windows({}))
    assert len(scores.series) == 0
    assert events == []


def test_episode_events_are_sorted_by_window_and_series() -> None:
    _, run = played(QUICK.challenger)
    order = [(n.window_end, n.series) for n in run.events]
    assert len(order) > 10
    assert order == sorted(order)


@examples(8)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=12), st.sampled_from([0, 1, 1e9]))
@example([2.2250738585072014e-308], 0)
def test_no_value_stops_a_series_from_being_scored(strange: list[float], base: float) -> None:
    """Whatever comes, once: afterwards the series is scored again, and no arithmetic fails."""
    name, rng = "gauge/h-1//x", np.random.default_rng(0)
    run = DetectorRun(ShardDetector(QUICK))
    run.play({name: value} for value in (base * rng.normal(5, 1, 35)).tolist())
    run.play({name: value} for value in strange)
    run.play({name: value} for value in rng.normal(5, 1, 35).tolist())
    assert np.isfinite(run.score_of(name))


@pytest.mark.slow
def test_episodes_of_what_is_forgotten_are_closed() -> None:
    p = dataclasses.replace(QUICK, forget_days=0.03, silence_patience_hours=1e6)
    run = DetectorRun(ShardDetector(p))
    story = fleet(10, 60, 1)
    run.play(story)
    run.play([of_host(story[-1], ("h-1",))] * 700)
    silent = [n for n in run.events if n.series == "host/h-2"]
    assert [n.status for n in silent if n.status != "update"] == ["open", "close"]
