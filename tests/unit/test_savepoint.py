"""Laws of savepoints: what is loaded goes on like what was written, and what is not whole is never taken for it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from kafka import TopicPartition
from support.savepoint_stories import CUT, QUICK, START, WINDOW, story, windows
from typer.testing import CliRunner, Result

from app.cli.main import app
from app.core.settings import Settings
from app.kafka.checkpoints import offsets_after
from app.versions.pinned_configuration import pin_configuration
from models.core.limits import LimitParameters
from models.core.windows import Windows
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent
from pipelines.errors import InputError
from pipelines.jobs import correlate
from pipelines.jobs.correlate import EpisodeEventBuffer
from pipelines.state import savepoint_format, savepoint_tables
from pipelines.state.savepoint_format import CorrelatorState
from pipelines.state.savepoint_tables import ShardParts
from replay.savepoints import savepoint_folder, savepoint_writer
from replay.savepoints.create_savepoint import check_has_state, cut_to_watermarks, first_offset
from replay.savepoints.savepoint_writer import Provenance

SHARDS = 3
PROVENANCE = Provenance(
    "live", {"windowing": {"shards": SHARDS}}, {"telemetry": "telemetry", "logs": "logs"}, SHARDS, "0.1.0"
)


def advance(detector: ShardDetector, windows_seen: list[Windows], begin: int) -> list[str]:
    """What a detector says of windows, to the last bit."""
    answers = []
    for k, rows in enumerate(windows_seen, begin + 1):
        scores, novelties = detector.step(START + k * WINDOW, rows)
        numbers = [getattr(scores, name).tobytes() for name in ("score", "value", "typical", "lower", "upper")]
        answers.append(repr((scores.series.tolist(), numbers, scores.kind.tolist(), novelties)))
    return answers


def state(shard: int, count: int = CUT) -> ShardParts:
    detector = ShardDetector(QUICK)
    advance(detector, story(shard)[:count], 0)
    return ShardParts(shard, START + count * WINDOW, detector.dump())


def event(host: str, window_end: int) -> str:
    parts = {
        "record": "episode",
        "id": f"e-{host}",
        "version": "live",
        "series": f"gauge/{host}//m",
        "kind": "anomaly",
        "status": "open",
    }
    return json.dumps(
        {**parts, "start": START, "window_end": window_end, "score": 20.5, "reason": "höher", "host": host}
    )


def correlator() -> CorrelatorState:
    """One incident that is open, and an event that waits."""
    made, done = Correlator(CorrelationParameters()), START + 90 * WINDOW
    made.step(done, [EpisodeEvent.from_record(json.loads(event("h0", done)))])
    buffer = EpisodeEventBuffer(done, SHARDS, {0: done + WINDOW, 1: done, 2: done})
    buffer.add_event(event("h0", done + WINDOW))
    return CorrelatorState(done, made.dump(), buffer.dump())


@pytest.fixture(scope="module")
def states() -> list[ShardParts]:
    """Shards that stand at two windows; the last has not seen a series."""
    nothing = ShardDetector(QUICK)
    nothing.step(START + CUT * WINDOW, windows({}, {}))
    return [state(0), state(1, CUT + 1), ShardParts(2, START + CUT * WINDOW, nothing.dump())]


@pytest.fixture(scope="module")
def original(states: list[ShardParts], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint that no test changes."""
    folder = tmp_path_factory.mktemp("home") / "savepoints" / "original"
    savepoint_writer.write(folder, PROVENANCE, iter(states), correlator())
    return folder


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    """One to break."""
    return Path(shutil.copytree(original, tmp_path / "savepoints" / "copy"))


@pytest.mark.parametrize("shard", [0, 1])
def test_a_loaded_shard_goes_on_to_the_bit(original: Path, states: list[ShardParts], shard: int) -> None:
    begin = CUT + shard
    there = ShardDetector.load(states[shard].parts, QUICK)
    about = json.loads(json.dumps([there.describe_state(f"gauge/h{shard}/web/load.0"), len(there._state.trials)]))
    assert about[0]["episode"] is not None
    assert about[1] == 1
    loaded = savepoint_format.load_shard(str(original), shard)
    assert loaded is not None
    again = ShardDetector.load(loaded.parts, QUICK)
    whole = ShardDetector(QUICK)
    rest = story(shard)[begin:]
    advance(whole, story(shard)[:begin], 0)
    expected = advance(whole, rest, begin)
    assert advance(again, rest, begin) == expected
    assert again.dump() == whole.dump()


def test_a_shard_that_is_full_makes_room_after_a_savepoint_as_without_one(tmp_path: Path) -> None:
    """What a full host has not sent for a day is forgotten within the hour, for what had no room."""
    full = ControlledParameters(grace_minutes=1.0, limits=LimitParameters(metrics_per_host=20))
    old, new = ({f"gauge/h0//{name}.{i}": float(i) for i in range(20)} for name in ("old", "new"))
    whole, hours = ShardDetector(full), [START + h * 3_600_000 for h in range(28)]
    for hour in hours[:-3]:
        whole.step(hour, windows(old if hour == START else new, {}))
    parts = whole.dump()
    savepoint_writer.write(tmp_path / "full", PROVENANCE, [ShardParts(0, hours[-4], parts)], None)
    loaded = savepoint_format.load_shard(tmp_path / "full", 0)
    assert loaded is not None
    assert loaded.parts == parts
    again = ShardDetector.load(loaded.parts, full)
    for hour in hours[-3:]:
        whole.step(hour, windows(new, {}))
        again.step(hour, windows(new, {}))
    assert set(again.series) == set(whole.series) == set(new)
    assert again.dump() == whole.dump()


def test_every_shard_is_loaded_as_it_was_written(original: Path, states: list[ShardParts]) -> None:
    assert [savepoint_format.load_shard(original, s.shard) for s in states] == states
    assert savepoint_format.load_shard(original, SHARDS) is None


def test_bits_that_compare_equal_are_kept_apart(states: list[ShardParts], tmp_path: Path) -> None:
    detector = ShardDetector.load(states[0].parts, QUICK)
    odd = np.array([0x8000000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0], dtype=np.uint64).view(np.float64)
    detector._state.gauges.matrix[6, :4] = odd
    parts = detector.dump()
    savepoint_writer.write(tmp_path / "odd", PROVENANCE, [ShardParts(0, 1, parts)], None)
    loaded = savepoint_format.load_shard(tmp_path / "odd", 0)
    assert loaded is not None
    assert loaded.parts == parts


def test_rows_keep_their_order(original: Path, states: list[ShardParts]) -> None:
    names = pq.read_table(original / "gauges.parquet", columns=["shard", "series"]).to_pydict()
    first = ShardDetector.load(states[0].parts, QUICK)._state.gauges.names
    second = ShardDetector.load(states[1].parts, QUICK)._state.gauges.names
    assert names["series"] == first + second
    assert names["series"] != sorted(names["series"])
    assert names["shard"] == [0] * len(first) + [1] * len(second)


def test_tables_say_what_the_model_believes(original: Path, states: list[ShardParts]) -> None:
    rows = {row["series"]: row for row in pq.read_table(original / "gauges.parquet").to_pylist()}
    believed = ShardDetector.load(states[1].parts, QUICK).describe_state("gauge/h1/web/load.1")
    believed.pop("episode")
    hot = {row["series"]: row for row in pq.read_table(original / "hot.parquet").to_pylist()}
    shown = {**rows["gauge/h1/web/load.1"], **hot["gauge/h1/web/load.1"]}
    same = shown.keys() & believed.keys()
    assert same >= {"seen", "total", "rows", "fast", "interval"}
    assert all(repr(float(shown[key])) == repr(float(believed[key])) for key in same)  # NaN is not equal to itself
    assert shown["robust_mean"][-1] == believed["typical"]


def test_the_correlator_is_loaded_as_it_was_written(original: Path) -> None:
    assert savepoint_format.load_correlator(original) == correlator()


def test_without_a_correlator_there_is_none(states: list[ShardParts], tmp_path: Path) -> None:
    manifest = savepoint_writer.write(tmp_path / "without", PROVENANCE, states, None)
    assert manifest["correlated"] is None
    assert savepoint_format.load_correlator(tmp_path / "without") is None
    assert savepoint_format.verify(tmp_path / "without") == []


def test_the_same_state_has_the_same_hash_under_any_name(
    original: Path, states: list[ShardParts], tmp_path: Path
) -> None:
    again = savepoint_writer.write(tmp_path / "another", PROVENANCE, iter(states), correlator())
    first = savepoint_format.read_manifest(original)
    assert again["hash"] == first["hash"]
    assert again["files"] == first["files"]
    other = [state(0, CUT - 1), *states[1:]]
    assert savepoint_writer.write(tmp_path / "earlier", PROVENANCE, other, correlator())["hash"] != first["hash"]


def test_the_manifest_says_what_it_is_of(original: Path) -> None:
    manifest = savepoint_format.read_manifest(original)
    watermark = START + CUT * WINDOW
    assert (manifest["name"], manifest["version"], manifest["shards"]) == ("original", "live", SHARDS)
    assert manifest["watermark"] == watermark
    assert manifest["watermarks"] == {"0": watermark, "1": watermark + WINDOW, "2": watermark}
    assert manifest["correlated"] == START + 90 * WINDOW
    assert (
        manifest["series"] == manifest["files"]["gauges.parquet"]["rows"] + manifest["files"]["counts.parquet"]["rows"]
    )
    assert manifest["files"].keys() == {p.name for p in original.iterdir()} - {"manifest.json"}


FILES = ("manifest.json", "correlator.json", "shards.parquet", *(f"{name}.parquet" for name in savepoint_tables.TABLES))


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_found(copy: Path, name: str) -> None:
    assert savepoint_format.verify(copy) == []
    file = copy / name
    data = bytearray(file.read_bytes())
    for at in {*range(0, len(data), max(1, len(data) // 60)), len(data) - 1}:
        for bit in (at % 8, 5):
            data[at] ^= 1 << bit
            file.write_bytes(data)
            assert savepoint_format.verify(copy), f"byte {at}, bit {bit}"
            data[at] ^= 1 << bit
    file.write_bytes(data)
    assert savepoint_format.verify(copy) == []


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_found(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert any(name in problem for problem in savepoint_format.verify(copy))


def last_byte_of_a_page(table: Path) -> int:
    """Where the first column of the first row group ends, which is shard 0's."""
    column = pq.ParquetFile(table).metadata.row_group(0).column(0)
    return int(column.dictionary_page_offset or column.data_page_offset) + int(column.total_compressed_size) - 1


@pytest.mark.parametrize("name", ["gauges.parquet", "shards.parquet", "correlator.json"])
def test_what_is_damaged_is_not_loaded(copy: Path, name: str) -> None:
    """Every page of a table has a checksum; small files are held against the manifest."""
    data = bytearray((copy / name).read_bytes())
    data[last_byte_of_a_page(copy / name) if name.endswith(".parquet") else len(data) // 5] ^= 1
    (copy / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"copy: cannot read {name}: .*kappa savepoint verify"):
        (savepoint_format.load_shard(copy, 0), savepoint_format.load_correlator(copy))


def test_rows_of_another_shard_are_not_loaded(copy: Path, states: list[ShardParts]) -> None:
    reversed_states = [ShardParts(shard, state.done, state.parts) for shard, state in enumerate(states[::-1])]
    savepoint_writer.write(copy.with_name("other"), PROVENANCE, reversed_states, None)
    shutil.copy(copy.with_name("other") / "gauges.parquet", copy)
    with pytest.raises(InputError, match=r"its rows are not the \d+ of shard 0"):
        savepoint_format.load_shard(copy, 0)


def rewrite(folder: Path, **changed: Any) -> None:
    manifest = savepoint_format.read_manifest(folder) | changed
    manifest["checksum"] = savepoint_format.manifest_checksum(manifest)
    (folder / "manifest.json").write_bytes(savepoint_format.manifest_bytes(manifest))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"format": 99}, f"format 99 of savepoint, this release reads {savepoint_format.FORMAT}"),
        (
            {"formats": savepoint_format.FORMATS | {"models": 0}},
            f"format 0 of models, this release reads {savepoint_format.FORMATS['models']}",
        ),
        ({"formats": savepoint_format.FORMATS | {"events": 99}}, "format 99 of events"),
        ({"formats": None}, "format None of models"),
    ],
)
def test_another_format_is_refused_and_never_misread(copy: Path, changed: dict[str, Any], says: str) -> None:
    rewrite(copy, **changed)
    for read in (
        savepoint_format.load_correlator,
        savepoint_format.read_manifest,
        lambda path: savepoint_format.load_shard(path, 0),
    ):
        with pytest.raises(InputError, match=says) as refused:
            read(copy)
        assert "\n" not in str(refused.value)
    assert says in savepoint_format.verify(copy)[0]


def test_state_of_another_format_is_not_written(states: list[ShardParts], tmp_path: Path) -> None:
    parts = {**states[0].parts, "gauges": states[0].parts["gauges"].replace(b"format\x00\x00", b"farmot\x00\x00")}
    assert parts != states[0].parts
    with pytest.raises(InputError, match=r"state of shard 0 cannot be put into a savepoint: .*format none"):
        savepoint_writer.write(tmp_path / "a", PROVENANCE, [ShardParts(0, 1, parts)], None)
    incomplete = {name: part for name, part in states[0].parts.items() if name != "texts"}
    with pytest.raises(InputError, match="lacks texts"):
        savepoint_writer.write(tmp_path / "a", PROVENANCE, [ShardParts(0, 1, incomplete)], None)
    stranger = CorrelatorState(1, b'{"format":99}', EpisodeEventBuffer().dump())
    with pytest.raises(InputError, match="model is not canonical JSON"):
        savepoint_writer.write(tmp_path / "a", PROVENANCE, states, stranger)
    assert list(tmp_path.iterdir()) == []


def test_the_format_of_waiting_events_is_the_one_that_correlate_writes() -> None:
    assert savepoint_format.FORMATS["events"] == correlate.FORMAT


def test_a_crash_half_way_leaves_nothing(states: list[ShardParts], tmp_path: Path) -> None:
    def breaks() -> Iterator[ShardParts]:
        yield states[0]
        msg = "power cut"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="power cut"):
        savepoint_writer.write(tmp_path / "a", PROVENANCE, breaks(), None)
    assert list(tmp_path.iterdir()) == []


def test_a_draft_is_no_savepoint(original: Path, copy: Path) -> None:
    home = copy.parent.parent
    copy.rename(copy.with_name(".copy.x.draft"))
    assert savepoint_folder.list_manifests(home) == []
    with pytest.raises(InputError, match=r"no savepoint copy in .*there are: none"):
        savepoint_folder.find(home, "copy")


def test_a_savepoint_that_exists_is_not_replaced(copy: Path, states: list[ShardParts]) -> None:
    with pytest.raises(InputError, match="savepoint copy exists"):
        savepoint_writer.write(copy, PROVENANCE, states, None)
    assert savepoint_format.verify(copy) == []
    assert [p.name for p in copy.parent.iterdir()] == ["copy"]


def test_shards_come_in_order_and_there_is_one(states: list[ShardParts], tmp_path: Path) -> None:
    for shards, says in (
        (states[::-1], "shard 1 comes after 2"),
        ([states[0]] * 2, "0 comes after 0"),
        ([], "no shard"),
    ):
        with pytest.raises(ValueError, match=says):
            savepoint_writer.write(tmp_path / "a", PROVENANCE, shards, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "a/b", "a b", "ä", "a\n", "x" * 65])
def test_a_bad_name_is_refused(tmp_path: Path, states: list[ShardParts], name: str) -> None:
    for use in (lambda: savepoint_format.check_name(name), lambda: savepoint_folder.find(tmp_path, name)):
        with pytest.raises(InputError, match="wanted 1 to 64 letters"):
            use()


@pytest.mark.parametrize("name", ["a", "Before-upgrade_1.2", "x" * 64, "2026-01-05"])
def test_a_good_name_is_none_of_the_bad_ones(name: str) -> None:
    savepoint_format.check_name(name)


def test_a_dropped_savepoint_is_gone_and_the_others_are_not(copy: Path) -> None:
    home = copy.parent.parent
    shutil.copytree(copy, copy.with_name("other"))
    (copy.with_name("other") / "manifest.json").write_text("{")
    assert [m["name"] for m in savepoint_folder.list_manifests(home)] == ["copy", "other"]
    assert "is not JSON" in savepoint_folder.list_manifests(home)[1]["problem"]
    savepoint_folder.drop(home, "copy")
    assert [p.name for p in copy.parent.iterdir()] == ["other"]
    with pytest.raises(InputError, match="there are: other"):
        savepoint_folder.drop(home, "copy")


def test_a_version_without_a_batch_is_refused_before_spark_starts(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with pytest.raises(InputError, match="has never run"):
        check_has_state(settings)
    pin_configuration(settings)
    with pytest.raises(InputError, match="detect of version live has ended no batch yet"):
        check_has_state(settings)
    commits = settings.checkpoint("detect") / "commits"
    commits.mkdir(parents=True)
    (commits / "0").touch()
    check_has_state(settings)


def test_what_a_kill_has_left_is_removed_unless_somebody_is_at_it(copy: Path) -> None:
    """And nothing else: neither a savepoint nor what we did not make."""
    left = [copy.with_name(f".copy.{end}") for end in ("ab12_xyz.spool", "ab12_xyz.draft", "ab12_xyz.gone")]
    others = [copy, copy.with_name(".snapshot"), copy.with_name(".copy.draft")]
    for folder in (*left, *others[1:]):
        folder.mkdir()
        (folder / "file").touch()
    with savepoint_folder.shared_lock(copy.parent):
        savepoint_folder.remove_stale_drafts(copy.parent)
        assert sorted(copy.parent.iterdir()) == sorted([*left, *others])
    savepoint_folder.remove_stale_drafts(copy.parent)
    assert sorted(copy.parent.iterdir()) == sorted(others)
    savepoint_folder.remove_stale_drafts(copy.parent / "missing")


def test_statements_beyond_a_shards_tick_are_left_to_be_said_again() -> None:
    """Correlate may have heard of windows that detect has not committed yet."""
    buffer = EpisodeEventBuffer(START, 2, {0: START + 3 * WINDOW, 1: START + 3 * WINDOW})
    for host in ("h0", "h1"):
        for k in (1, 2, 3):
            buffer.add_event(event(host, START + k * WINDOW))
    watermarks = {0: START + WINDOW, 1: START + 2 * WINDOW}
    kept = cut_to_watermarks(buffer, watermarks, {"gauge/h0//m": 0, "gauge/h1//m": 1})
    assert kept.latest == watermarks
    assert sorted((key[1], (key[0] - START) // WINDOW) for key in kept.waiting) == [
        ("gauge/h0//m", 1),
        ("gauge/h1//m", 1),
        ("gauge/h1//m", 2),
    ]
    assert kept.limit == START + WINDOW


def test_reading_begins_where_the_batch_ended(tmp_path: Path) -> None:
    log = tmp_path / "offsets" / "7"
    log.parent.mkdir()
    log.write_text('v1\n{"batchWatermarkMs":0}\n{"novelties.a":{"0":700,"1":3}}')
    assert offsets_after(tmp_path, 7) == {("novelties.a", 0): 700, ("novelties.a", 1): 3}
    positions = {0: 700, 1: 3}
    assert first_offset(TopicPartition("novelties.a", 0), positions, first=10) == 700
    assert first_offset(TopicPartition("novelties.a", 2), positions, first=10) == 10  # added since
    log.write_text("v9\n{}\n{}")
    with pytest.raises(InputError, match="offset log of version 'v9', wanted 'v1'"):
        offsets_after(tmp_path, 7)


def test_statements_that_are_gone_from_the_log_are_missed() -> None:
    with pytest.raises(InputError, match=r"read up to offset 3, the topic begins at 10.*replay instead"):
        first_offset(TopicPartition("novelties", 1), {0: 700, 1: 3}, first=10)


@pytest.fixture
def home(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one savepoint, `copy`, which commands use."""
    monkeypatch.setenv("KAPPA_HOME", str(copy.parent.parent))
    monkeypatch.setenv("KAPPA_KAFKA__BOOTSTRAP_SERVERS", "localhost:1")
    return copy.parent.parent


def kappa(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["savepoint", *arguments])


def test_commands_print_one_object(home: Path) -> None:
    manifest = savepoint_format.read_manifest(home / "savepoints" / "copy") | {"name": "copy"}
    manifest["tick"], manifest["ticks"] = manifest.pop("watermark"), manifest.pop("watermarks")
    listed = json.loads(kappa("list", "--json").stdout)
    assert listed == {"home": str(home / "savepoints"), "savepoints": [manifest]}
    assert json.loads(kappa("show", "copy", "--json").stdout) == manifest
    assert json.loads(kappa("verify", "copy", "--json").stdout) == {"name": "copy", "whole": True, "problems": []}
    for command in (["list"], ["show", "copy"], ["verify", "copy"]):
        result = kappa(*command)
        assert (result.exit_code, "copy" in result.stdout) == (0, True)


def test_drop_asks_for_a_yes(home: Path) -> None:
    windows_seen = json.loads(kappa("drop", "copy", "--json").stdout)
    assert windows_seen["removed"] is False
    assert windows_seen["files"].keys() == set(FILES)
    assert savepoint_folder.list_names(home) == ["copy"]
    assert kappa("drop", "copy").exit_code == 0
    assert savepoint_folder.list_names(home) == ["copy"]
    assert json.loads(kappa("drop", "copy", "--yes", "--json").stdout)["removed"] is True
    assert savepoint_folder.list_names(home) == []


def test_verify_of_what_is_damaged_fails(home: Path) -> None:
    (home / "savepoints" / "copy" / "counts.parquet").unlink()
    result = kappa("verify", "copy", "--json")
    assert json.loads(result.stdout) == {"name": "copy", "whole": False, "problems": ["counts.parquet is missing"]}
    assert isinstance(result.exception, InputError)
    assert "savepoint copy is damaged: counts.parquet is missing" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "other"), "no savepoint other in .*there are: copy"),
        (("create", "a/b"), "wanted 1 to 64 letters"),
        (("create", "new"), "version live has never run in .*none has"),
        (("create", "new", "--version", "b"), "version b has never run"),
    ],
)
def test_commands_refuse_with_one_line_and_change_nothing(home: Path, arguments: tuple[str, ...], says: str) -> None:
    result = kappa(*arguments)
    assert isinstance(result.exception, InputError)
    with pytest.raises(InputError, match=says):
        raise result.exception
    assert "\n" not in str(result.exception)
    assert [p.name for p in (home / "savepoints").iterdir()] == ["copy"]


def test_what_a_challenger_knows_goes_through_a_savepoint_to_the_byte(tmp_path: Path) -> None:
    p = dataclasses.replace(
        QUICK,
        challenger="river.anomaly.HalfSpaceTrees",
        challenger_options={"n_trees": 3, "height": 4, "window_size": 20},
        challenger_rows=40,
    )
    there, nothing = ShardDetector(p), ShardDetector(p)
    advance(there, story(0)[:CUT], 0)
    nothing.step(START + CUT * WINDOW, windows({}, {}))
    written = [ShardParts(k, START + CUT * WINDOW, one.dump()) for k, one in enumerate((there, nothing))]
    folder = tmp_path / "savepoints" / "challenged"
    savepoint_writer.write(folder, PROVENANCE, iter(written), None)
    assert savepoint_format.verify(folder) == []
    assert pq.read_table(folder / "challengers.parquet")["series"].to_pylist() == there._state.gauges.names
    for one in written:
        loaded = savepoint_format.load_shard(str(folder), one.shard)
        assert loaded is not None
        assert dict(loaded.parts) == dict(one.parts)
    rest = story(0)[CUT:]
    assert advance(ShardDetector.load(written[0].parts, p), rest, CUT) == advance(there, rest, CUT)
