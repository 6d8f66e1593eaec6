"""The command line as an operator meets it: health, a clean stop, going on, and one line for what is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.commands import Running, answer, assert_one_line, get, healthz, kappa
from support.live_jobs import records, settings_file
from support.malformed import iso

from app.core.ports import free_port
from app.core.settings import Settings, load
from app.core.timestamps import wall_clock
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import queue_heartbeats
from app.kafka.input_offsets import input_partitions
from app.kafka.producer import BoundedProducer
from app.runtime.run import prepare

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

METRICS = {
    "kappa_lag_records",
    "kappa_watermark_delay_seconds",
    "kappa_batch_seconds",
    "kappa_state_bytes",
    "kappa_last_progress_age_seconds",
    "kappa_rows",
    "kappa_batches",
    "kappa_dropped_by_watermark",
    "kappa_refused",
    "kappa_restarts",
}
STALE_SECONDS = 4


@pytest.fixture(scope="module", autouse=True)
def without_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that find no broker: started early, awaited at the end."""
    folder = tmp_path_factory.mktemp("nobody")
    nobody = {
        "KAPPA_HOME": str(folder),
        "KAPPA_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port(0)}",
        "KAPPA_KAFKA__CONNECT_SECONDS": "1",
        "KAPPA_ELASTICSEARCH__URL": f"http://127.0.0.1:{free_port(0)}",
    }
    processes = [kappa("topics", "create", **nobody), kappa("run", "extract", "detect", **nobody)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


# --- what needs nobody


def test_settings_are_shown_as_json_and_secrets_are_masked(tmp_path: Path) -> None:
    secrets = {
        "KAPPA_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "KAPPA_KAFKA__SASL_USERNAME": "kappa",
        "KAPPA_KAFKA__SASL_PASSWORD": "hush-1",
        "KAPPA_ELASTICSEARCH__USERNAME": "kappa",
        "KAPPA_ELASTICSEARCH__PASSWORD": "hush-2",
        "KAPPA_ELASTICSEARCH__API_KEY": "hush-3",
    }
    as_json = kappa("config", "show", "--json", KAPPA_HOME=str(tmp_path), **secrets)
    as_text = kappa("config", "show", KAPPA_HOME=str(tmp_path), **secrets)
    status, out, err = answer(as_json)
    assert (status, err) == (0, "")
    shown = json.loads(out)
    assert shown["home"] == str(tmp_path)
    assert shown["kafka"]["sasl_password"] == "*" * 10
    text_status, text, _ = answer(as_text)
    assert text_status == 0
    assert 'kafka.sasl_password = "**********"' in text.splitlines()
    assert "hush" not in out + text


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[windowing]\nwindows = 1\n")
    gone = kappa("config", "show", "--config", str(tmp_path / "gone.toml"))
    unknown = kappa("config", "show", "--config", str(tmp_path / "bad.toml"))
    no_job = kappa("run", "extrakt", KAPPA_HOME=str(tmp_path))
    no_stack = kappa("run", "extract", KAPPA_HOME=str(tmp_path))
    assert_one_line(gone, "gone.toml")
    assert_one_line(unknown, "windowing.windows", "unknown setting")
    assert_one_line(no_job, "no job 'extrakt'", "correlate")
    assert_one_line(no_stack, "kappa up")


# --- a deployment


class ExtractAndDetect:
    """`kappa run extract detect` with windows of a second, and what was sent to it."""

    series = "gauge/web-1/web/load"

    def __init__(self, file: Path, environment: dict[str, str], settings: Settings) -> None:
        self.file, self.environment, self.settings = file, environment, settings
        self.sent = 0
        self.outbox = BoundedProducer(client_options(settings))

    def command(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        return kappa(*arguments, "--config", str(self.file), **(self.environment | more))

    def run(self, *arguments: str, **more: str) -> Running:
        return Running(self.command("run", "extract", "detect", *arguments, **more))

    def send(self, count: int = 20) -> None:
        """Measurements of now, and with them a heartbeat to every partition."""
        for i in range(count):
            now = wall_clock()
            point = {
                "@timestamp": iso(now),
                "host.name": "web-1",
                "service.name": "web",
                "metric.name": "load",
                "metric.value": i / 7,
            }
            self.outbox.send(self.settings.topic("telemetry"), json.dumps(point).encode(), key=str(self.sent).encode())
            self.sent += 1
        self.beat()

    def beat(self) -> None:
        queue_heartbeats(self.outbox, input_partitions(self.settings), wall_clock())
        self.outbox.flush()

    def statistics(self) -> list[tuple[int, str]]:
        """Window and record of all rows of the series, in the order written."""
        found = [
            value.decode() for key, value, _ in records(self.settings, "statistics") if key == self.series.encode()
        ]
        return [(json.loads(value)["window_end"], value) for value in found]

    def counted(self) -> int:
        """How many measurements are in statistics, repeats apart."""
        return sum(json.loads(value)["n"] for value in {value for _, value in self.statistics()})


@pytest.fixture(scope="module")
def deployment(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtractAndDetect]:
    """Topics, settings and a producer. The environment goes over what the file says."""
    folder = tmp_path_factory.mktemp("operations")
    file = settings_file(folder, stack, folder.name, "live", 10_000)
    with file.open("a") as more:
        more.write('[spark.extra]\n"spark.sql.streaming.noDataProgressEventInterval" = "500"\n')
    environment = {
        "KAPPA_WINDOWING__WINDOW_SECONDS": "1",
        "KAPPA_WINDOWING__LATENESS_SECONDS": "1",
        "KAPPA_TOPICS__TIMESTAMPS": "append",
        "KAPPA_HEALTH__PORT": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        settings = load(file)
    status, out, err = answer(kappa("topics", "create", "--json", "--config", str(file), **environment))
    assert (status, err) == (0, "")
    wanted = {settings.topic(kind) for kind in (*topics.INPUTS, *topics.OUTPUTS, "quarantine", "deliveries", "early")}
    assert json.loads(out) == dict.fromkeys(wanted, "created")
    made = ExtractAndDetect(file, environment, settings)
    yield made
    made.outbox.close()


@pytest.mark.long
@pytest.mark.spark
def test_jobs_tell_their_health_stop_after_the_batch_in_hand_and_go_on_from_there(deployment: ExtractAndDetect) -> None:
    with deployment.run() as first:
        address = first.address()

        def windows_written(least: int) -> Callable[[], bool]:
            def enough() -> bool:
                deployment.send()
                return len(deployment.statistics()) >= least

            return enough

        first.wait(windows_written(3), 90, "statistics")
        first.wait(lambda: healthz(address)[1]["jobs"]["detect"]["batch"] >= 0, 60, "detect's first batch")
        status, summary = healthz(address)
        assert status == 200
        assert summary["healthy"]
        assert (summary["version"], set(summary["jobs"])) == ("live", {"extract", "detect"})
        assert summary["jobs"]["extract"]["rows"] > 0
        assert {job["dropped_by_watermark"] for job in summary["jobs"].values()} == {0}
        exposed = list(text_string_to_metric_families(get(address + "/metrics")[1]))
        assert {family.name for family in exposed} >= METRICS
        jobs_of = {f.name: {s.labels["kappa_job"] for s in f.samples if "kappa_job" in s.labels} for f in exposed}
        assert jobs_of["kappa_rows"] == jobs_of["kappa_batches"] == {"extract", "detect"}
        assert jobs_of["kappa_watermark_delay_seconds"] == {"extract"}
        before = deployment.statistics()
        deployment.send(200)
        first.stop()

    for _ in range(3):
        deployment.send()
    with deployment.run("--no-heartbeats", KAPPA_HEALTH__STALE_SECONDS=str(STALE_SECONDS)) as second:
        address = second.address()

        def all_counted() -> bool:
            deployment.beat()
            return deployment.counted() == deployment.sent

        second.wait(all_counted, 90, "all measurements")

        seen: dict[int, float] = {}

        def healthy_without_work() -> bool:
            status, summary = healthz(address)
            batch = summary["jobs"]["extract"]["batch"]
            since = time.monotonic() - seen.setdefault(batch, time.monotonic())
            return since > 1.5 * STALE_SECONDS and status == 200

        second.wait(healthy_without_work, 90, "jobs that have no work, and are healthy")
        second.stop()

    rows = deployment.statistics()
    assert all(len(found) == 1 for found in variants(rows).values()), "a repeated row must be the same"
    assert deployment.counted() == deployment.sent
    written = Counter(window for window, _ in rows)
    again = [window for window, _ in before if written[window] > 1]
    assert not again, "what was written before the stop is written again"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "number"), [("java", signal.SIGKILL), ("python", signal.SIGKILL), ("java", signal.SIGSTOP)]
)
def test_jobs_go_on_after_their_process_was_killed_or_stopped(
    deployment: ExtractAndDetect, name: str, number: signal.Signals
) -> None:
    more = {"KAPPA_HEALTH__STALE_SECONDS": "30"}
    before = max((window for window, _ in deployment.statistics()), default=0)
    with deployment.run(**more) as process:

        def goes_on(beyond: int) -> bool:
            deployment.send()
            return max((window for window, _ in deployment.statistics()), default=0) > beyond

        process.wait(lambda: goes_on(before), 240, "statistics")
        [child] = psutil.Process(process.process.pid).children()
        hit = child if name == "python" else next(one for one in child.children(recursive=True) if one.name() == name)
        hit.send_signal(number)
        killed = wall_clock()
        process.wait(lambda: "jobs start again" in process.output, 120, "the restart")
        # It has ended, whether or not whoever inherits it has asked for its exit code.
        assert not hit.is_running() or hit.status() == psutil.STATUS_ZOMBIE
        process.wait(lambda: goes_on(killed), 240, "statistics after the restart")
        process.stop()
    assert ("jobs hang" in process.output) == (number == signal.SIGSTOP)
    rows = deployment.statistics()
    assert all(len(found) == 1 for found in variants(rows).values()), "a repeated row must be the same"


def variants(rows: list[tuple[int, str]]) -> dict[int, set[str]]:
    """The different records of each window."""
    found: dict[int, set[str]] = {}
    for window, value in rows:
        found.setdefault(window, set()).add(value)
    return found


def test_what_would_break_the_results_is_refused_in_one_line_before_spark_starts(deployment: ExtractAndDetect) -> None:
    prepare(deployment.settings, ("extract", "detect"))  # all that a start does before Spark
    kept = deployment.settings.checkpoint("extract").parent
    before = sorted(kept.rglob("*"))
    assert before, "the version has been started"
    again = deployment.command("topics", "create", "--json")
    other_law = deployment.command("run", "extract", KAPPA_WINDOWING__LATENESS_SECONDS="2")
    other_partitions = deployment.command(
        "run", "extract", KAPPA_TOPICS__TELEMETRY_PARTITIONS="4", KAPPA_VERSION="other"
    )
    create = deployment.command("topics", "create", KAPPA_TOPICS__PARTITIONS="3")
    status, out, _ = answer(again)
    assert status == 0
    assert set(json.loads(out).values()) == {"there already"}
    assert_one_line(other_law, "version live", "windowing.lateness_seconds = 1", "2")
    telemetry, statistics = deployment.settings.topic("telemetry"), deployment.settings.topic("statistics")
    assert_one_line(other_partitions, f"topic {telemetry} has 3 partitions, wanted 4")
    assert_one_line(create, f"topic {statistics} has 2 partitions, wanted 3")
    assert sorted(kept.rglob("*")) == before


def test_without_a_broker_it_is_reported_at_once_and_at_the_end_where_it_was_looked_for(
    without_kafka: list[subprocess.Popen[str]],
) -> None:
    once, jobs = without_kafka
    status, out, err = answer(once)
    at_once, at_the_end = err.splitlines()
    assert (status, out) == (1, "")
    assert at_once.startswith("Kafka does not answer yet (127.0.0.1:") and "refused" in at_once
    for word in ("kappa: Kafka at 127.0.0.1:", "does not answer", "kappa up"):
        assert word in at_the_end
    assert jobs.stderr is not None
    assert jobs.stderr.readline().startswith("Kafka does not answer yet")
    line = jobs.stderr.readline()  # they wait for it
    for word in ("waiting for a server", "Kafka at 127.0.0.1:", "does not answer", "kappa up", "next_try_seconds"):
        assert word in line
    assert jobs.poll() is None
