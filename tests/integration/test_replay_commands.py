"""`kappa replay` as an operator meets it: what it would read, what it says, what it refuses in one line."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.commands import assert_one_line
from support.commands import kappa as kappa_process
from support.live_jobs import feed, records, run_to_end, settings_file
from support.replays import named, same, values

from app.cli import main
from app.core.settings import PROJECT, Settings, load
from app.core.timestamps import iso
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import admin_client
from app.versions import replay_manifest
from app.versions.pinned_configuration import configuration_of
from models.detection.detector import ShardDetector
from pipelines.state.savepoint_tables import ShardParts
from replay import run as replays
from replay.savepoints import savepoint_folder, savepoint_writer
from replay.savepoints.savepoint_writer import Provenance
from replay.slices import RequestedRange

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

Kappa = Callable[..., tuple[int, str, str]]
MINUTE = 60_000


@pytest.fixture(scope="module")
def file(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of a deployment whose log has been filled, and which nothing has read yet."""
    folder = tmp_path_factory.mktemp("commands")
    made = settings_file(folder, stack, folder.name, "live", 20_000)
    topics.create(load(made))
    assert feed(load(made)) > 10_000
    return made


@pytest.fixture(scope="module")
def settings(file: Path) -> Settings:
    return load(file)


@pytest.fixture
def kappa(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kappa:
    """The command line in this process: status, stdout, stderr. For what never comes to start Spark."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kappa", *arguments, "--config", str(file)])
        with pytest.raises(SystemExit) as left:
            main.main()
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call


def in_a_process(file: Path, *arguments: str) -> dict[str, Any]:
    """A command with a Spark session of its own: its one JSON object."""
    command = [sys.executable, "-m", "app.cli", *arguments, "--json", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def everything(settings: Settings) -> tuple[list[str], list[str]]:
    """What a command could have left: topics of the broker, files of the deployment."""
    client = admin_client(settings)
    names = sorted(name for name in client.list_topics() if name.startswith(settings.topics.prefix))
    client.close()
    home = settings.home
    return names, sorted(str(p) for part in ("replays", "checkpoints", "savepoints") for p in (home / part).rglob("*"))


def kept_savepoint(settings: Settings, name: str, **instance: Any) -> Path:
    """A savepoint as some run has left it: of other topics, of other shards, ..."""
    own = Provenance("live", configuration_of(settings), {k: settings.topic(k) for k in topics.INPUTS}, 4, "0.0.1")
    own = dataclasses.replace(own, **instance)
    parts = ShardDetector(settings.detector).dump()
    folder = savepoint_folder.savepoints_folder(settings.home) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    savepoint_writer.write(folder, own, (ShardParts(s, 1_767_571_800_000, parts) for s in range(own.shards)), None)
    return folder


@pytest.fixture(scope="module")
def others(settings: Settings) -> None:
    """Savepoints and a replay that cannot be gone on from."""
    kept_savepoint(settings, "foreign", topics={"telemetry": "elsewhere", "logs": "logs"})
    kept_savepoint(settings, "wider", shards=8)
    damaged = kept_savepoint(settings, "damaged") / "shards.parquet"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    half = named(settings, "half")
    topics.create(half)
    replay_manifest.write(half, replays.plan(half, RequestedRange(), None).manifest)


REFUSED = [
    ("replay diff live nobody", "no version 'nobody'.*live"),
    ("replay diff live half", "replay of version half is unfinished; run the same"),
    ("replay --version half --to-time 2026-01-05T00:10:00Z", "has a replay of another range .running."),
    ("replay --version half --to-time 2026-01-05T00:10:00Z --dry-run", "has a replay of another range .running."),
    ("replay --version live", "version live is what the live jobs write"),
    (
        'replay --version x --from-offsets {"telemetry":{"0":99999999}}',
        "offset 99999999 of .* is outside the log; wanted 0",
    ),
    ('replay --version x --to-offsets {"logs":{"1":-1}}', "offset -1 of .* is outside the log"),
    ('replay --version x --from-offsets {"telemetry":{"9":0}}', "no partition .*/9; the inputs are"),
    ('replay --version x --from-offsets {"metrics":{"0":0}}', "no input 'metrics'; there are telemetry, logs"),
    ('replay --version x --from-offsets {"telemetry":[0]}', "wanted JSON such as"),
    ("replay --version x --from-offsets {", "wanted a JSON object"),
    ("replay --version x --from-offsets nowhere.json", "no file 'nowhere.json'"),
    ("replay --version x --from-time yesterday", "'yesterday'; wanted ISO 8601"),
    ("replay --version x --to-time 2026-01-05T00:10:00", "has no zone"),
    ("replay --version x --from-time 2026-02-01T00:00:00Z", "no window after|no record"),
    ("replay --version x --to-time 2025-01-01T00:00:00Z", "no window|no record"),
    ("replay --version x --savepoint nobody", "no savepoint nobody in .*; there are: damaged, foreign, wider"),
    ("replay --version x --savepoint foreign", "savepoint foreign is of topics .*elsewhere.*; wanted the same log"),
    ("replay --version x --savepoint wider", "has 8 shards, the settings say 4; set windowing.shards"),
    ("replay --version x --savepoint damaged", "savepoint damaged is damaged: shards.parquet"),
    ("replay --version x --savepoint wider --from-time 2h", "--from-time and --savepoint cannot be given together"),
    ("replay --version x --manifest nowhere.json", "no file 'nowhere.json'"),
    ("replay drop live --yes", "version live cannot be dropped"),
    ("replay drop nobody --yes", "there is nothing of version nobody"),
]


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(("command", "says"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_cannot_be_done_is_refused_in_one_line_and_changes_nothing(
    settings: Settings, kappa: Kappa, command: str, says: str
) -> None:
    before = everything(settings)
    status, out, err = kappa(*command.split())
    assert status == 1
    assert out == ""
    assert re.fullmatch(r"kappa: [^\n]+\n", err), err
    assert re.search(says, err), err
    assert everything(settings) == before


def test_jobs_do_not_begin_after_a_replay_that_is_unfinished_or_not_there(settings: Settings, file: Path) -> None:
    for name, says in (("half", "replay of version half is unfinished"), ("nobody", "no replay of version 'nobody'")):
        run = kappa_process("run", "detect", "--version", "b", "--savepoint", f"REPLAY:{name}", "--config", str(file))
        assert_one_line(run, says)
    assert not settings.model_copy(update={"version": "b"}).checkpoint("detect").exists()


def test_without_a_version_the_usage_is_said(kappa: Kappa) -> None:
    status, _, err = kappa("replay")
    assert status == 2
    assert "--version" in err


def test_a_dry_run_says_what_would_be_read_and_leaves_nothing(settings: Settings, kappa: Kappa) -> None:
    before = everything(settings)
    status, out, _ = kappa("replay", "--version", "dry", "--to-time", "2026-01-05T00:10:00Z", "--dry-run", "--json")
    assert status == 0
    found = json.loads(out)
    whole = replays.plan(named(settings, "dry"), RequestedRange(), None).whole
    assert iso(found["until"]) == "2026-01-05T00:10:00Z"
    assert 0 < found["events"] < whole.events
    spans = found["offsets"]
    assert {(t, int(p)) for t, parts in spans.items() for p in parts} == set(whole.ends)
    assert sum(end - begin for parts in spans.values() for begin, end in parts.values()) == found["events"]
    status, out, _ = kappa("replay", "--version", "dry", "--to-time", "2026-01-05T00:10:00Z", "--dry-run")
    assert (status, out.count("\n")) == (0, 1)
    assert f"would read {found['events']:,} events: windows after the beginning up to 2026-01-05T00:10:00Z" in out
    assert everything(settings) == before


@pytest.mark.long
@pytest.mark.spark
def test_a_manifest_is_run_again_under_another_name_and_under_its_own(settings: Settings, file: Path) -> None:
    until = ("--to-time", "2026-01-05T00:12:00Z", "--no-index", "--partitions", "2")
    made = in_a_process(file, "replay", "--version", "made", *until)
    assert made["status"] == "complete"
    assert "same" not in made
    kept = replay_manifest.folder_of(named(settings, "made")) / "manifest.json"
    assert json.loads(kept.read_text()) == made
    written = len(records(named(settings, "made"), "scores"))
    assert written >= made["counts"]["scores"] > 1_000

    copy = in_a_process(file, "replay", "--version", "copy", "--manifest", str(kept), "--no-index")
    for name in ("whole", "slices", "digests", "configuration_hash"):
        assert without_seconds(copy[name]) == without_seconds(made[name])
    assert same(named(settings, "made"), named(settings, "copy"))

    again = in_a_process(
        file, "replay", "--version", "made", "--manifest", str(kept), "--no-index", "--partitions", "5"
    )
    assert again == {**made, "same": True}
    assert len(records(named(settings, "made"), "scores")) == written


def without_seconds(value: Any) -> Any:
    """What does not depend on the machine."""
    if isinstance(value, list):
        return [{k: v for k, v in part.items() if k != "seconds"} for part in value]
    return value


@pytest.mark.long
@pytest.mark.spark
def test_late_records_count_as_where_the_lateness_was_larger_from_the_start(
    spark: SparkSession, settings: Settings, file: Path
) -> None:
    made = in_a_process(file, "replay", "--version", "late-too", "--include-late", "--no-index")
    windowing = dataclasses.replace(
        settings.windowing, lateness_seconds=made["configuration"]["windowing"]["lateness_seconds"]
    )
    assert windowing.lateness_seconds > settings.windowing.lateness_seconds
    patient = named(settings, "patient").model_copy(update={"windowing": windowing})
    assert run_to_end(spark, patient) == 0
    assert len(values(patient, "scores")) > 10_000
    assert same(patient, named(settings, "late-too"))
    assert made["counts"]["late"] == len(set(records(patient, "late")))
    # and not as with the lateness of before
    strict = in_a_process(file, "replay", "--version", "strict", "--no-index")
    until = strict["whole"]["until"] - MINUTE * (1 + windowing.lateness_seconds // 60)
    assert strict["counts"]["late"] > made["counts"]["late"]
    assert {v for v in values(named(settings, "strict"), "scores") if json.loads(v)["window_end"] < until} != {
        v for v in values(patient, "scores") if json.loads(v)["window_end"] < until
    }
