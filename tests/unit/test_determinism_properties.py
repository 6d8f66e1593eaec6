"""Any batches, any interleaving, any repeats, any crash: detect and correlate say the same, to the last byte.

Logs of `statistics` are generated, and run through the jobs' own processors: in one go, in batches that are drawn, with
crashes after which a batch is done again and its output stands there twice. Each way must say what the models say when they
are handed one window after the other.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.tws_tester import TwsTester
from support.examples import SHARE, examples

from models.core import store
from models.core.store import read_part
from models.core.windows import Windows
from models.detection.alarm_bounds import EarlyParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, Watched, total
from models.records.schema import parsed
from models.rules.rule import Rule
from pipelines.errors import CheckpointLost, DeterminismViolation, OfAnotherRelease
from pipelines.jobs import correlate, detect, detect_bounded
from pipelines.jobs.correlate import CorrelateProcessor, EpisodeEventBuffer, NoveltiesTopic, incident_json, load_state
from pipelines.jobs.detect import Begin, DetectProcessor
from pipelines.jobs.detect_bounded import BoundedRun
from pipelines.state import shard_journal, window_buffer
from pipelines.state.shard_journal import ENTRY, full_parts
from pipelines.state.state_packing import BUFFER, NOW
from pipelines.state.window_buffer import NUMBERS, SCHEMA, TEXTS, WindowBuffer, empty_columns, to_windows

START, LENGTH = 1_767_571_200_000, 10_000
WINDOWS, SHARDS, PARTITIONS = 60, 3, 2
NOVELTIES = NoveltiesTopic("novelties", PARTITIONS, SHARDS, LENGTH, 0)
HOSTS = tuple(f"h-{i}" for i in range(5))
# Little is enough to be news: a story is short.


def at(window: int) -> str:
    """The beginning of a window."""
    return datetime.fromtimestamp((START + LENGTH * window) / 1000, UTC).isoformat()


RULES = (
    Rule(host="h-1", planned=True, since=at(38), until=at(41)),
    Rule(name="pinned", host="h-2", mute=True, since=at(30), until=at(37)),
    Rule(metric="load.1", dont_learn=True, since=at(25), until=at(35)),
    Rule(kind="logs", reset=at(50)),
    Rule(host="h-3", direction="up", half_life_days=1, warm_up_minutes=2),
)
QUICK = ControlledParameters(
    rules=RULES,
    warm_up_minutes=1.5,
    grace_minutes=2,
    persistence_minutes=1,
    patience_minutes=3,
    clear_windows=3,
    spike_nats=10,
    alarm_chance=0.3,
    confirm_seconds=10,
    metric_clear_minutes=0.5,
    metric_clear_windows=3,
    silence_nats=8,
    zero_nats=10,
    count_nats=8,
    new_template_nats=6,
    new_series_nats=2,
)
JOINING = CorrelationParameters(join_seconds=30, close_seconds=30, false_alarms_per_day=200)

Record = dict[str, Any]
Log = list[list[Record]]  # records of each partition, in order
Published = dict[tuple[Any, ...], set[str]]  # what was published of each key: repeats are one, contradictions are more
Shards = list[tuple[int, dict[str, bytes]]]  # each shard's last window and model


def shard_of(host: str) -> int:
    return zlib.crc32(host.encode()) % SHARDS


# --- logs


@dataclass(frozen=True)
class StatisticsStory:
    """What happened: rows by window end and host."""

    rows: dict[int, dict[str, list[Record]]]

    @property
    def windows(self) -> list[int]:
        return sorted(self.rows)


@cache
def story_of(seed: int) -> StatisticsStory:
    """A fleet with noise, a shift, a silence (of a host, or of a whole shard), a new template, rows that are missing, windows that are."""
    rng = np.random.default_rng(seed)
    sick, silent, chatty = rng.choice(len(HOSTS), 3)
    silenced = {silent} if seed % 2 else {i for i, h in enumerate(HOSTS) if shard_of(h) == shard_of(HOSTS[silent])}
    rows: dict[int, dict[str, list[Record]]] = {}
    for k in range(WINDOWS):
        if k not in (0, WINDOWS - 1) and rng.random() < 0.04:
            continue
        end = START + LENGTH * (k + 1)
        rows[end] = {}
        for i, host in enumerate(HOSTS):
            if i in silenced and 36 <= k < 48:
                continue
            level = 90.0 if i == sick and 33 <= k < 41 else 20.0
            found = [gauge(host, m, level + m + rng.normal(), end) for m in range(2) if rng.random() < 0.95]
            found += lines(host, int(rng.poisson(5)), "aa", end)
            found += lines(host, 3, "bb", end) if i == chatty and k > 38 and k % 2 else []
            found += labels(host, k, end)
            rows[end][host] = found
    return StatisticsStory(rows)


def gauge(host: str, metric: int, value: float, end: int) -> Record:
    text = dict.fromkeys(TEXTS[1:])
    return {"series": f"gauge/{host}/web/load.{metric}", "window_end": end, "n": 1, "m2": 0.0, **text} | dict.fromkeys(
        ("mean", "min", "max", "last"), round(value, 3)
    )


def lines(host: str, n: int, template: str, end: int) -> list[Record]:
    if not n:
        return []
    row = {"window_end": end, "n": n, "template": None, "sample": None, **dict.fromkeys(NUMBERS)}
    total = {**row, "series": f"logs/{host}/web/info"}
    counted = {**row, "series": f"template/{host}/web/info/{template}", "template": template, "sample": template}
    return [total, counted] if template == "aa" else [counted]


def statistics_of(story: StatisticsStory, chance: random.Random | None) -> Log:
    """The topic `statistics`, written in batches; a crash leaves a part of a batch, or all, then all of it."""
    log: Log = [[] for _ in range(PARTITIONS)]
    for batch in cut(story.windows, chance, most=9):
        whole = [list(batch_of(story, batch, p)) for p in range(PARTITIONS)]
        while chance is not None and chance.random() < 0.25:
            committed = chance.random() < 0.5  # all was written, and the crash came before the commit
            for p, records in enumerate(whole):
                log[p] += records[: len(records) if committed else chance.randint(0, len(records))]
        for p, records in enumerate(whole):
            log[p] += records
    return log


def batch_of(story: StatisticsStory, windows: Sequence[int], partition: int) -> Iterator[Record]:
    """What extract writes into a partition: the rows of a window, then its watermarks."""
    for end in windows:
        rows = [{**row, "shard": shard_of(host)} for host, found in story.rows[end].items() for row in found]
        rows += rules(end)
        shards = [s for s in range(SHARDS) if s % PARTITIONS == partition]
        yield from (r for s in shards for r in sorted(rows, key=lambda r: r["series"]) if r["shard"] == s)
        yield from ({"record": "watermark", "watermark": end, "shard": s} for s in shards)


def cut(items: Sequence[Any], chance: random.Random | None, most: int) -> Iterator[Sequence[Any]]:
    """In pieces; in one where nothing is left to chance."""
    at = 0
    while at < len(items):
        size = len(items) if chance is None else chance.randint(1, most)
        yield items[at : at + size]
        at += size


def interleaved(parts: Sequence[list[Record]], chance: random.Random | None) -> list[Record]:
    """All of them in one, each in its own order."""
    if chance is None:
        return [record for part in parts for record in part]
    turns = [i for i, part in enumerate(parts) for _ in part]
    chance.shuffle(turns)
    queues = [iter(part) for part in parts]
    return [next(queues[i]) for i in turns]


def labels(host: str, window: int, end: int) -> list[Record]:
    """A false alarm at every 20th window from the 15th on, and at the 37th that all of it is expected."""
    label = "expected-change" if window == 37 else "false-alarm"
    if window != 37 and window % 20 != 15:
        return []
    about = {"label": label, "series": [f"gauge/{host}/web/load.{m}" for m in range(2)] + [f"host/{host}"]}
    row = {"window_end": end, "n": 1, "template": None, "sample": json.dumps(about), **dict.fromkeys(NUMBERS)}
    return [{**row, "series": f"label/{host}/{window:020d}"}]


# Written while the story goes on: some replace others or rules of the configuration, some end, one comes twice, one is none.
LOGGED: dict[int, list[Record]] = {
    20: [{"name": "quiet", "host": "h-0", "mute": True}, {"name": "cpu", "metric": "load.0", "least_deviation": 2}],
    28: [
        {"name": "quiet", "host": "h-4", "mute": True},
        {"name": "rack", "host": "h-3", "planned": True, "until": at(36)},
    ],
    29: [{"name": "rack", "host": "h-3", "planned": True, "until": at(36)}, {"name": "none", "mute": "yes"}],
    34: [{"name": "pinned", "removed": True}, {"name": "cpu", "metric": "load.1", "direction": "down"}],
    44: [{"name": "quiet", "removed": True}, {"name": "again", "host": "h-1", "reset": at(40)}],
}


def rules(end: int) -> list[Record]:
    """The rules that were appended in a window, for each shard."""
    window = (end - START) // LENGTH - 1
    row = {"window_end": end, "n": 1, **dict.fromkeys(NUMBERS)}
    appended = [
        {"series": f"{100 * window + i:020d}", "template": one["name"], "sample": json.dumps({"record": "rule", **one})}
        for i, one in enumerate(LOGGED.get(window, []))
    ]
    return [
        {**row, **one, "series": f"rule/{shard}/{one['series']}", "shard": shard}
        for shard in range(SHARDS)
        for one in appended
    ]


# --- jobs


def batches_of(log: Log, chance: random.Random | None) -> Iterator[list[Record]]:
    """Batches as Spark reads them: some of each partition, or none at all. A partition may be far behind the others."""
    at = [0] * len(log)
    most = [0 if chance is None else chance.choice((4, 20, 80)) for _ in log]
    while any(begin < len(part) for begin, part in zip(at, log, strict=True)):
        sizes = [len(part) if chance is None else chance.randint(0, n) for part, n in zip(log, most, strict=True)]
        batch = [part[begin : begin + size] for part, begin, size in zip(log, at, sizes, strict=True)]
        at = [begin + size for begin, size in zip(at, sizes, strict=True)]
        records = interleaved(batch, chance)
        if chance is not None:
            chance.shuffle(records)  # a shuffle keeps no order
        yield records


class Detecting:
    """detect on batches, with its state in memory; a crash brings the state of before the batch back."""

    def __init__(self, begin: Begin | None = None, early: EarlyParameters | None = None) -> None:
        self._state: dict[Any, dict[Any, Any]] = {}
        self._begin, self._early = begin, early
        self._start()

    def _start(self) -> None:
        """A process that begins with the state that is kept."""
        self._processor = DetectProcessor(QUICK, "live", SHARDS, self._begin, early=self._early)
        self._tester = TwsTester(self._processor)
        self._tester.handle.map_states["parts"].state = self._state

    def batch(self, records: list[Record], chance: random.Random | None) -> Iterator[tuple[int, pd.DataFrame]]:
        """Answers by shard, as they come to stand in the topics."""
        kept = {shard: dict(parts) for shard, parts in self._state.items()}
        while chance is not None and chance.random() < 0.25:
            for shard, answers in self._done(records, chance):
                yield shard, answers.iloc[: chance.randint(0, len(answers))]
            self._state.clear()
            self._state |= {shard: dict(parts) for shard, parts in kept.items()}
            if chance.random() < 0.5:  # the whole process, or a task alone
                self._start()
        yield from self._done(records, chance)

    def _done(self, records: list[Record], chance: random.Random | None) -> Iterator[tuple[int, pd.DataFrame]]:
        for shard in sorted({record["shard"] for record in records}):
            own = [record for record in records if record["shard"] == shard]
            frames = [
                pd.DataFrame({"value": [json.dumps(record).encode() for record in part]})
                for part in cut(own, chance, most=40)
            ]
            self._tester.handle.setGroupingKey(shard)
            for answers in self._processor.handleInputRows((shard,), iter(frames), None):
                yield shard, answers

    def restart(self) -> None:
        """Another process begins with the state that is kept."""
        self._start()

    def lose(self, beginning: str) -> None:
        """What is stored under names that begin so is gone, and the process; rows that wait are not."""
        for parts in self._state.values():
            for key in [key for key in parts if key[0].startswith(beginning) and key[0] != BUFFER]:
                del parts[key]
        self._start()

    def cut_short(self, beginning: str) -> None:
        """What is stored under names that begin so lacks its second half; a process begins with it."""
        for parts in self._state.values():
            for key in [key for key in parts if key[0].startswith(beginning)]:
                parts[key] = (parts[key][0][: len(parts[key][0]) // 2],)
        self._start()

    def state(self, shard: int) -> tuple[WindowBuffer, dict[str, bytes]]:
        """The rows of a shard that wait, and its model."""
        stored = {key[0]: value[0] for key, value in self._state[shard].items()}
        buffer = WindowBuffer.load(stored[BUFFER])
        return buffer, full_parts(stored, buffer.done, QUICK, shard)


class Correlating:
    """correlate on batches, likewise."""

    def __init__(self) -> None:
        self._tester = TwsTester(CorrelateProcessor(JOINING, "live", NOVELTIES))

    def batch(self, records: list[Record], chance: random.Random | None) -> Iterator[str]:
        state = self._tester.handle.value_states["correlator"].state
        kept = dict(state)
        while chance is not None and chance.random() < 0.25:
            found_events = self._done(records)
            yield from found_events[: chance.randint(0, len(found_events))]
            state.clear()
            state |= kept
        yield from self._done(records)

    def _done(self, records: list[Record]) -> list[str]:
        if not records:
            return []
        answers = self._tester.testInPandas(0, event_frame(records))
        return answers["value"].dropna().tolist() if len(answers) else []

    @property
    def state(self) -> tuple[int, bytes, bytes]:
        found = self._tester.peekValueState("correlator", 0)
        assert found is not None
        return found


def event_frame(records: Iterable[Record]) -> pd.DataFrame:
    """As `correlate.as_one_group` gives them."""
    rows = []
    for r in records:
        shard, value = shard_in(r), json.dumps({k: v for k, v in r.items() if k != "offset"}).encode()
        rows.append((0, value, r.get("series"), shard, shard % PARTITIONS, r["offset"], START + LENGTH * WINDOWS))
    return pd.DataFrame(rows, columns=["everything", "value", "series", "shard", "partition", "offset", "timestamp"])


# --- what was published


def text(row: dict[str, Any]) -> str:
    """A score with every bit of its numbers: a float's repr is that."""
    return json.dumps({k: v for k, v in row.items() if k in SCORE}, default=str)


def add_score(into: Published, row: dict[str, Any]) -> None:
    """A score, or a letter about a rule that was refused."""
    if row["letter"]:
        add(into, ("letter", json.loads(row["letter"])["timestamp"] + LENGTH), row["letter"])
    else:
        add(into, (row["series"], row["window_end"]), text(row))


SCORE = ("series", "window_end", "score", "value", "typical", "lower", "upper", "kind")


@dataclass
class ChainResult:
    """Everything that was published, and the state at the end."""

    scores: Published  # and letters
    novelties: Published
    incidents: Published
    shards: Shards
    correlator: tuple[int, bytes]
    watermarks: Log  # of each shard, in order


def novelty_key(record: Record) -> tuple[Any, ...]:
    return record["series"], record["start"], record["status"], record["window_end"]


def rows_in(frame: pd.DataFrame) -> list[Record]:
    found: list[Any] = frame.to_dict("records")
    return found


def add(into: Published, key: tuple[Any, ...], value: str) -> None:
    into.setdefault(key, set()).add(value)


def detected(
    story: StatisticsStory,
    extract: random.Random | None,
    chance: random.Random | None,
    begin: Begin | None = None,
    early: EarlyParameters | None = None,
) -> tuple[Detecting, Log, Published]:
    """What detect makes of a story: itself, the topic `novelties` (with `early` bounds as well), and scores."""
    scores: Published = {}
    topic: Log = [[] for _ in range(PARTITIONS)]
    job = Detecting(begin, early)
    for batch in batches_of(statistics_of(story, extract), chance):
        by_shard: dict[int, list[Record]] = defaultdict(list)
        for shard, answers in job.batch(batch, chance):
            by_shard[shard] += rows_in(answers)
        for p in range(PARTITIONS):
            written_by = [[r for r in by_shard[s] if r["event"]] for s in range(SHARDS) if s % PARTITIONS == p]
            topic[p] += [json.loads(r["event"]) for r in interleaved(written_by, chance)]
        for row in (r for rows in by_shard.values() for r in rows if not r["event"]):
            add_score(scores, row)
    return job, topic, scores


def episode_events_in(topic: Log) -> Published:
    """Events by what they are about; watermarks left out."""
    found: Published = {}
    for record in (r for part in topic for r in part if r["record"] != "watermark"):
        add(found, novelty_key(record), json.dumps(record))
    return found


def correlated(topic: Log, chance: random.Random | None) -> tuple[Correlating, Published]:
    """What correlate makes of `novelties`."""
    incidents: Published = {}
    job = Correlating()
    placed = [[record | {"offset": i} for i, record in enumerate(part)] for part in topic]
    for batch in batches_of(placed, chance):
        for value in job.batch(batch, chance):
            add(incidents, incident_key(json.loads(value)), value)
    assert not EpisodeEventBuffer.load(job.state[2]).waiting
    return job, incidents


def states_of(job: Detecting) -> Shards:
    """Every shard's last window and model."""
    states = [job.state(shard) for shard in range(SHARDS)]
    assert not any(len(buffer.rows["n"]) for buffer, _ in states), "rows of windows that are done wait for ever"
    return [(buffer.done, parts) for buffer, parts in states]


def run(story: StatisticsStory, extract: int | None, detecting: int | None, correlating: int | None) -> ChainResult:
    """All three jobs. A number is the seed of a job's batches, repeats and crashes; None for one batch, no crash."""
    chances = [None if seed is None else random.Random(seed) for seed in (extract, detecting, correlating)]
    job, topic, scores = detected(story, chances[0], chances[1])
    last, incidents = correlated(topic, chances[2])
    watermarks: Log = [[] for _ in range(SHARDS)]
    for watermark in (r for part in topic for r in part if r["record"] == "watermark"):
        if watermark not in watermarks[watermark["shard"]]:
            watermarks[watermark["shard"]].append(watermark)
    return ChainResult(scores, episode_events_in(topic), incidents, states_of(job), last.state[:2], watermarks)


def incident_key(record: Record) -> tuple[Any, ...]:
    return record["id"], record["status"], record["window_end"]


@cache
def straight(story_seed: int) -> ChainResult:
    """The models alone, handed one window after the other: no buffers, no batches, no watermarks."""
    story = story_of(story_seed)
    scores: Published = {}
    novelties: Published = {}
    incidents: Published = {}
    events: dict[int, list[EpisodeEvent]] = defaultdict(list)
    watermarks: Log = [[] for _ in range(SHARDS)]
    shards = []
    for shard in range(SHARDS):
        detector = ShardDetector(QUICK)
        for end in story.windows:
            for answers in detect.step_window(detector, shard, end, rows_of(story, shard, end), "live", SHARDS):
                for row in rows_in(pd.DataFrame(detect.concatenate([answers]))):
                    if not row["event"]:
                        add_score(scores, row)
                    elif (record := json.loads(row["event"]))["record"] != "watermark":
                        add(novelties, novelty_key(record), json.dumps(record))
                        events[end].append(EpisodeEvent.from_record(record))
                    else:
                        watermarks[shard].append(record)
        shards.append((story.windows[-1], detector.dump()))
    correlator = Correlator(JOINING)
    for end, messages in zip(story.windows, zip(*watermarks, strict=True), strict=True):
        watched = total(parsed(Watched, watermark["watched"]) for watermark in messages)
        for incident in correlator.step(end, sorted(events[end], key=lambda s: s.order), watched):
            value = incident_json(incident, "live")
            add(incidents, incident_key(json.loads(value)), value)
    return ChainResult(scores, novelties, incidents, shards, (story.windows[-1], correlator.dump()), watermarks)


def rows_of(story: StatisticsStory, shard: int, end: int) -> Windows:
    """The rows of a shard in a window."""
    found = [row for host, rows in story.rows[end].items() if shard_of(host) == shard for row in rows]
    found += [row for row in rules(end) if row["shard"] == shard]
    columns = empty_columns()
    if found:
        frame = pd.DataFrame(found, columns=SCHEMA.names)
        columns = {name: detect_bounded.column_of(frame, name) for name in SCHEMA.names}
    return to_windows(columns, np.arange(len(found)))


def compare(found: ChainResult, wanted: ChainResult) -> None:
    for kind in ("scores", "novelties", "incidents"):
        one, other = getattr(found, kind), getattr(wanted, kind)
        contradicted = {key: values for key, values in one.items() if len(values) > 1}
        assert not contradicted, f"{kind}: a repeat says something else"
        assert one == other, kind
    assert found.shards == wanted.shards
    assert found.correlator == wanted.correlator
    assert found.watermarks == wanted.watermarks


seeds = st.integers(0, 10_000)
stories = st.integers(0, 11 if SHARE == 1 else 0)  # each story is also run without batches, which takes a second
maybe = st.none() | seeds


def after_some_windows() -> tuple[Detecting, list[Record]]:
    """A job that has taken twelve windows of a story, and the records of the next one."""
    by_end: dict[int, list[Record]] = defaultdict(list)
    for record in (r for part in statistics_of(story_of(0), None) for r in part):
        by_end[record["watermark" if "watermark" in record else "window_end"]].append(record)
    job, ends = Detecting(), sorted(by_end)
    for end in ends[:12]:
        assert list(job.batch(by_end[end], None))
    return job, by_end[ends[12]]


@pytest.mark.parametrize("lacking", [ENTRY, ""])
def test_detect_stops_where_its_state_lacks_windows(lacking: str) -> None:
    """The journal, or all of the model: a worker that begins with such a state hands on nothing."""
    job, records = after_some_windows()
    job.lose(lacking)
    with pytest.raises(DeterminismViolation, match=r"ends at .*, wanted .*: windows are missing"):
        list(job.batch(records, None))


@pytest.mark.parametrize("damaged", [ENTRY, NOW, BUFFER])
def test_detect_says_in_one_line_which_state_cannot_be_read(damaged: str) -> None:
    job, records = after_some_windows()
    job.cut_short(damaged)
    with pytest.raises(CheckpointLost, match=r"the state of shard \d cannot be read .*: it is damaged") as error:
        list(job.batch(records, None))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("written_by", [store, shard_journal, window_buffer])
def test_detect_says_which_format_its_state_has_and_which_it_writes(
    written_by: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it ends in a release that writes another one, which can never read the state."""
    job, records = after_some_windows()
    kept = written_by.FORMAT
    monkeypatch.setattr(written_by, "FORMAT", type(kept)(b"99" if isinstance(kept, bytes) else 99))
    job.restart()
    with pytest.raises(
        OfAnotherRelease, match=r"shard \d was written by another release \(.* has format \d+; wanted 99\)"
    ):
        list(job.batch(records, None))


def test_a_worker_keeps_no_model_of_a_version_that_ran_before() -> None:
    after_some_windows()
    before = {run for run, _ in DetectProcessor._warm}
    after_some_windows()
    assert len(before) == 1 and len({run for run, _ in DetectProcessor._warm}) == 1
    assert before.isdisjoint(run for run, _ in DetectProcessor._warm)


@pytest.mark.slow
def test_the_stories_have_something_to_say() -> None:
    found_events = [straight(seed) for seed in range(3)]
    assert all(len(one.scores) > 500 for one in found_events)
    assert all(len(one.novelties) > 3 and len(one.incidents) > 1 for one in found_events)
    assert all(any(key[0] == "letter" for key in one.scores) for one in found_events)
    assert {one["name"].as_py() for one in rules_at_the_end(found_events[0])} == {"pinned", "cpu", "again", "rack"}
    assert {key[2] for one in found_events for key in one.novelties} >= {"open", "close"}


def rules_at_the_end(found: ChainResult) -> list[dict[str, Any]]:
    """The rules of the log that a shard knows after the last window."""
    columns, _ = read_part(found.shards[0][1]["rules"])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@examples(8, derandomize=True)
@given(stories, maybe, seeds, seeds)
def test_any_batches_interleaving_repeats_and_crashes_say_the_same(
    story: int, extract: int | None, detecting: int, correlating: int
) -> None:
    compare(run(story_of(story), extract, detecting, correlating), straight(story))


@examples(4, derandomize=True)
@given(stories)
def test_one_batch_of_everything_says_the_same(story: int) -> None:
    compare(run(story_of(story), None, None, None), straight(story))


@examples(25, derandomize=True)
@given(stories, seeds)
def test_events_in_any_batches_with_repeats_of_long_ago_are_the_same_incidents(story: int, seed: int) -> None:
    chance = random.Random(seed)
    windows = story_of(story).windows
    topic: Log = [[] for _ in range(PARTITIONS)]
    for shard in range(SHARDS):
        messages = [json.loads(v) for values in straight(story).novelties.values() for v in values]
        own = [r for r in messages if shard_of(r["host"]) == shard]
        for end, watermark in zip(windows, straight(story).watermarks[shard], strict=True):
            topic[shard % PARTITIONS] += [r for r in own if r["window_end"] == end]
            topic[shard % PARTITIONS].append(watermark)
            if chance.random() < 0.15:  # a batch that detect has written before
                again = chance.randint(1, 60)
                topic[shard % PARTITIONS] += [r for r in topic[shard % PARTITIONS][-again:] if shard_in(r) == shard]
    job, incidents = correlated(topic, chance)
    assert incidents == straight(story).incidents
    assert job.state[:2] == straight(story).correlator


def shard_in(record: Record) -> int:
    return record["shard"] if record["record"] == "watermark" else shard_of(record["host"])


@examples(4, derandomize=True)
@given(stories, st.integers(1, WINDOWS // 2), seeds, seeds)
def test_a_run_from_a_savepoint_says_the_rest_and_comes_to_the_same_state(
    story_seed: int, taken: int, extract: int, detecting: int
) -> None:
    story, wanted = story_of(story_seed), straight(story_seed)
    at = story.windows[taken]
    before = {shard: state_at(story_seed, shard, at) for shard in range(SHARDS)}
    job, topic, scores = detected(story, random.Random(extract), random.Random(detecting), before.get)
    assert scores == {key: found_events for key, found_events in wanted.scores.items() if key[1] > at}
    assert episode_events_in(topic) == {
        key: found_events for key, found_events in wanted.novelties.items() if key[3] > at
    }
    assert states_of(job) == wanted.shards


@examples(4, derandomize=True)
@given(stories, seeds)
def test_bounds_of_single_records_change_nothing_else(story_seed: int, detecting: int) -> None:
    story, wanted = story_of(story_seed), straight(story_seed)
    early = EarlyParameters(1000.0, SHARDS)
    job, topic, scores = detected(story, None, random.Random(detecting), early=early)
    bounds = [record for part in topic for record in part if record["record"] == "bound"]
    others: Log = [[record for record in part if record["record"] != "bound"] for part in topic]
    assert bounds and all(record["window_end"] in story.windows for record in bounds)
    assert scores == wanted.scores
    assert episode_events_in(others) == wanted.novelties
    assert states_of(job) == wanted.shards


def state_at(story_seed: int, shard: int, at: int) -> tuple[int, dict[str, bytes]]:
    """A shard after a window."""
    story, detector = story_of(story_seed), ShardDetector(QUICK)
    for end in (w for w in story.windows if w <= at):
        detector.step(end, rows_of(story, shard, end))
    return at, detector.dump()


@examples(6, derandomize=True)
@given(stories, seeds)
def test_bounded_runs_in_any_slices_and_chunks_say_the_same(story_seed: int, seed: int) -> None:
    story, chance, wanted = story_of(story_seed), random.Random(seed), straight(story_seed)
    scores: Published = {}
    novelties: Published = {}
    state: dict[int, tuple[int, dict[str, bytes]]] = {}
    for windows in cut(story.windows, chance, most=30):
        begin = dict(state).get
        work = detect_bounded.make_partition_function(BoundedRun(tuple(windows), QUICK, "live", SHARDS, begin))
        after: dict[int, dict[str, bytes]] = defaultdict(dict)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(detect, "ANSWERS_AT_ONCE", chance.randint(1, 200))
            frames = list(work(cut_frame(sorted_rows(story, windows), chance)))
        for frame in frames:
            for row in rows_in(frame):
                if row["part"] is not None:
                    after[row["shard"]][row["part"]] = row["bytes"]
                    state[row["shard"]] = (int(row["done"]), after[row["shard"]])
                elif not row["event"]:
                    add_score(scores, row)
                elif (record := json.loads(row["event"]))["record"] != "watermark":
                    add(novelties, novelty_key(record), json.dumps(record))
    assert scores == wanted.scores
    assert novelties == wanted.novelties
    assert [state[shard] for shard in range(SHARDS)] == wanted.shards


@examples(6, derandomize=True)
@given(stories, st.integers(1, 30), seeds)
def test_incidents_of_bounded_runs_are_the_same_and_no_complete_window_waits(story: int, most: int, seed: int) -> None:
    windows, found = story_of(story).windows, straight(story)
    novelties = [json.loads(value) for values in found.novelties.values() for value in values]
    events = [(one["window_end"], False, json.dumps(one)) for one in novelties]
    messages = [(one["watermark"], True, json.dumps(one)) for own in found.watermarks for one in own]
    made: Published = {}
    state: tuple[int, bytes, bytes] | None = None
    for part in cut(windows, random.Random(seed), most=60):
        buffer, correlator = load_state(state, JOINING)

        def read(part: Sequence[int] = part, buffer: EpisodeEventBuffer = buffer) -> Iterator[str]:
            own = sorted(row for row in [*events, *messages] if part[0] <= row[0] <= part[-1])
            for at, (_, _, value) in enumerate(own):
                if at >= most:  # windows before the last record of an earlier chunk are complete
                    assert all(end >= own[at - at % most - 1][0] for end, *_ in buffer.waiting)
                yield value

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(correlate, "AT_ONCE", most)
            for incident in correlate.correlate_values(buffer, correlator, read()):
                value = incident_json(incident, "live")
                add(made, incident_key(json.loads(value)), value)
        state = buffer.done, correlator.dump(), buffer.dump()
    assert made == found.incidents
    assert state is not None and state[:2] == found.correlator


def sorted_rows(story: StatisticsStory, windows: Sequence[int]) -> pd.DataFrame:
    """Rows of some windows as a bounded run has them: by shard, window and series, a marker first in each shard."""
    marker = {"window_end": detect_bounded.MARKER}
    rows = [{**marker, "shard": shard, "series": ""} for shard in range(SHARDS)]
    rows += [{**row, "shard": shard_of(h)} for w in windows for h, found in story.rows[w].items() for row in found]
    rows += [row for w in windows for row in rules(w)]
    rows.sort(key=lambda row: (row["shard"], row["window_end"], row["series"]))
    return pd.DataFrame(rows, columns=["shard", *SCHEMA.names])


def cut_frame(frame: pd.DataFrame, chance: random.Random) -> Iterator[pd.DataFrame]:
    for part in cut(range(len(frame)), chance, most=90):
        yield frame.iloc[part[0] : part[-1] + 1]


@examples(25, derandomize=True)
@given(stories, seeds)
def test_events_that_wait_are_kept_through_a_dump(story: int, seed: int) -> None:
    chance = random.Random(seed)
    found_events = [json.loads(v) for values in straight(story).novelties.values() for v in values]
    buffer = EpisodeEventBuffer(shards=SHARDS)
    for record in chance.sample(found_events, len(found_events)):
        buffer.add_event(json.dumps(record))
        buffer = EpisodeEventBuffer.load(buffer.dump()) if chance.random() < 0.2 else buffer
    for shard in range(SHARDS):
        buffer.add_watermark(shard, story_of(story).windows[-1])
    taken = [(end, [novelty_of(s) for s in found]) for end, found, _ in buffer.take() if found]
    by_window: dict[int, list[Any]] = defaultdict(list)
    for record in found_events:
        by_window[record["window_end"]].append(novelty_of(EpisodeEvent.from_record(record)))
    assert taken == [(end, sorted(by_window[end])) for end in sorted(by_window)]


def novelty_of(event: EpisodeEvent) -> tuple[Any, ...]:
    return event.order
