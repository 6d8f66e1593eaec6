"""The environment of the pages' process, and what it asks of others: commands and jobs."""

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from pydantic import SecretStr
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.testing.v1 import AppTest
from support.markdown import as_read
from support.recording_server import server_that
from typer.testing import CliRunner
from websockets.sync.client import connect

from app.cli import main
from app.cli.output import with_json_keys
from app.core.ports import free_port, port_is_free
from app.core.settings import (
    PROJECT,
    DashboardSettings,
    ElasticsearchSettings,
    HealthSettings,
    KafkaSettings,
    LogSettings,
    Settings,
    load,
)
from app.runtime import dashboard
from app.runtime.health import Health, HealthServer
from app.runtime.served_health import own_jobs
from dashboards import commands, jobs
from dashboards.commands import CommandError, CommandRunner
from dashboards.identity import Identity
from dashboards.links import any_of, kibana
from dashboards.queries import Connection, Span
from pipelines.windowing import WindowingConfig

SECRET = "s3cret"
OPERATOR = Identity("Ada", "operator")


def settings(home: Path) -> Settings:
    """Settings that name servers and have secrets."""
    return Settings(
        home=home,
        windowing=WindowingConfig(shards=8),
        kafka=KafkaSettings(
            bootstrap_servers="kafka:9092",
            security_protocol="SASL_SSL",
            sasl_username="kappa",
            sasl_password=SecretStr(SECRET),
        ),
        elasticsearch=ElasticsearchSettings(url="http://search:9200", username="kappa", password=SecretStr(SECRET)),
        health=HealthSettings(port=9464),
    )


def test_commands_of_the_pages_have_the_settings_of_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_KAFKA__BOOTSTRAP_SERVERS", "elsewhere:1")
    own = settings(tmp_path)
    variables = dashboard.environment(own)
    assert not [name for name in variables if name.startswith("KAPPA_KAFKA__")]
    monkeypatch.delenv("KAPPA_KAFKA__BOOTSTRAP_SERVERS")
    for name, text in variables.items():
        if name.startswith("KAPPA_"):
            monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    assert load() == own


def test_pages_are_told_where_servers_and_jobs_are(tmp_path: Path) -> None:
    variables = dashboard.environment(settings(tmp_path))
    assert Connection.of(variables).password == SECRET
    assert jobs.addresses(variables, "live") == ["http://127.0.0.1:9464"]
    named = settings(tmp_path).model_copy(update={"dashboard": DashboardSettings(jobs=("http://a:1", "http://b:2/"))})
    assert jobs.addresses(dashboard.environment(named), "live") == ["http://a:1", "http://b:2"]


def test_jobs_say_how_they_are_and_who_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health(120.0)
    health.on_progress("index", {"batchId": 3, "batchDuration": 500, "numInputRows": 7})
    health.expect("extract")
    health.quarantined(3)
    with HealthServer(health, "127.0.0.1", 0) as server:
        addresses = [server.address, "http://127.0.0.1:1"]
        monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", json.dumps(addresses))
        found = jobs.report_jobs("live")
    assert list(found.jobs) == ["extract", "index"]
    assert (found.jobs["index"]["rows"], found.jobs["index"]["batch_seconds"]) == (7, 0.5)
    assert list(found.silent) == ["http://127.0.0.1:1"]
    assert found.quarantined == 3
    assert found.notes == ()


def test_restarts_violations_and_waiting_are_a_sentence_each() -> None:
    history = {"restarts": 3, "last_error": "killed", "last_at": "2026-01-05T10:00:00Z"}
    violations = {"count": 1, "accepted": 0, "last": "rows were dropped"}
    heartbeats = {"not_written_since": "2026-01-05T10:01:00Z", "problem": "Kafka does not answer"}
    answer = {
        "jobs": {"index": {"waiting": "for Elasticsearch"}},
        "restarts": history,
        "violations": violations,
        "heartbeats": heartbeats,
    }
    assert list(jobs.notes_of(answer, ZoneInfo("Europe/Vienna"))) == [
        "index: restarts 3, the last at 2026-01-05 11:00:00 CET: killed",
        "Violations of determinism 1, accepted 0, the last: rows were dropped",
        "No window closes: no heartbeats are written since 2026-01-05 11:01:00 CET: Kafka does not answer",
        "index waits for Elasticsearch",
    ]


def test_job_that_is_not_well_still_says_what_it_knows() -> None:
    health = Health(-1.0)
    health.expect("detect")
    with HealthServer(health, "127.0.0.1", 0) as server:
        found = jobs.fetch(server.address)
    assert isinstance(found, jobs.ProcessHealth)
    assert found.jobs["detect"]["healthy"] is False


@contextmanager
def served(version: str | None, job: str, healthy: bool = True) -> Iterator[str]:
    """A process that runs a job of a version, None for an older release, which does not say of which one; its address."""
    health = Health(120.0 if healthy else -1.0)
    if version is not None:
        health.runs(version)
    health.expect(job)
    with HealthServer(health, "127.0.0.1", 0) as server:
        yield server.address


def test_jobs_are_those_of_the_version_and_who_runs_another_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        served("live", "detect") as first,
        served("live", "index") as second,
        served("v2", "detect", healthy=False) as third,
    ):
        monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", json.dumps([first, second, third]))
        live, candidate, nobodys = (jobs.report_jobs(version) for version in ("live", "v2", "old"))
    assert {name: facts["healthy"] for name, facts in live.jobs.items()} == {"detect": True, "index": True}
    assert live.others == {third: "v2"}
    assert {name: facts["healthy"] for name, facts in candidate.jobs.items()} == {"detect": False}
    assert candidate.others == {first: "live", second: "live"}
    assert nobodys.jobs == {}
    assert nobodys.others == {first: "live", second: "live", third: "v2"}


def test_a_process_of_an_older_release_is_taken_for_one_of_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(None, "detect") as address:
        monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", json.dumps([address]))
        found = jobs.report_jobs("v2")
    assert (list(found.jobs), dict(found.others)) == (["detect"], {})


def test_page_of_a_version_that_nobody_runs_shows_no_job_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(version: str) -> None:
        from zoneinfo import ZoneInfo

        from dashboards import chrome, pipeline

        pipeline.show_jobs(chrome.View(version, [version], "1h", ZoneInfo("UTC"), None))

    with served("live", "detect") as address:
        monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", json.dumps([address]))
        test = AppTest.from_function(script, default_timeout=60, args=("v2",)).run()
        assert not test.dataframe
        assert not test.success
        assert "runs jobs of version `v2`. Start them with `kappa run all --version v2`" in test.info[0].value
        assert as_read(test.caption[0].value) == f"Other versions are run: `live` at {address}."
        test.args = ("live",)
        assert list(test.run().dataframe[0].value["job"]) == ["detect"]
        assert not test.caption


def test_watch_of_a_version_takes_no_health_of_another_one(tmp_path: Path) -> None:
    with served("live", "detect") as address:
        own = Settings(home=tmp_path, health=HealthSettings(port=int(address.rsplit(":", 1)[1])))
        assert list(own_jobs(own)) == ["detect"]
        assert own_jobs(own.model_copy(update={"version": "v2"})) == {}
    with served(None, "detect") as address:
        older = own.model_copy(update={"version": "v2", "health": HealthSettings(port=int(address.rsplit(":", 1)[1]))})
        assert list(own_jobs(older)) == ["detect"]


WRONG: tuple[Any, ...] = (None, "9", [], {})
JOB = {
    "healthy": True,
    **{"lag": 0, "batch_seconds": 0.1, "rows": 7, "state_bytes": 9},
    **{"dropped_by_watermark": 0, "seconds_since_progress": 1.5, "watermark_delay_seconds": None},
}


@pytest.mark.parametrize(
    "jobs_found",
    [
        *(7, None, "x", [], ["index"], {"index": 7}, {"index": {}}, {"index": JOB | {"healthy": "yes"}}),
        *({"index": JOB | {name: value}} for name in jobs.NUMBERS for value in WRONG),
        {"index": JOB | {"watermark_delay_seconds": "x"}},
    ],
)
def test_what_answers_in_the_place_of_the_jobs_is_named_as_that(jobs_found: Any) -> None:
    with server_that(200, json.dumps({"jobs": jobs_found}).encode()) as (address, _):
        assert isinstance(jobs.fetch(address), str)
    with server_that(200, json.dumps({"jobs": {"index": JOB}}).encode()) as (address, _):
        assert isinstance(jobs.fetch(address), jobs.ProcessHealth)
    with server_that(200, json.dumps({"jobs": {"index": JOB}, "version": 7}).encode()) as (address, _):
        assert isinstance(jobs.fetch(address), str)


@pytest.mark.parametrize(
    "given", [b"SSH-2.0-OpenSSH_9.9\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"\x00" * 70_000]
)
def test_what_speaks_no_http_is_named_as_that(given: bytes) -> None:
    def speak() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4_096)
            connection.sendall(given)

    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=speak)
        answering.start()
        assert isinstance(jobs.fetch(f"http://127.0.0.1:{server.getsockname()[1]}"), str)
        answering.join()


def test_processes_that_run_jobs_are_found_by_what_they_wrote_down(tmp_path: Path) -> None:
    variables = {"KAPPA_DASHBOARD_RUN": str(tmp_path), "KAPPA_DASHBOARD_JOBS": '["http://a:1"]'}
    assert jobs.addresses(variables, "live") == ["http://a:1"]
    (tmp_path / "live-detect.json").write_text('{"address": "http://127.0.0.1:7"}')
    assert jobs.addresses(variables, "live") == ["http://a:1", "http://127.0.0.1:7"]
    (tmp_path / "live-index.json").write_text('{"address": "http://127.0.0.1:8"}')
    assert jobs.addresses(variables, "live") == ["http://a:1", "http://127.0.0.1:7", "http://127.0.0.1:8"]
    assert jobs.addresses(variables, "other") == ["http://a:1"]


def calls(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let the pages run this program for `kappa`."""
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-c", program]))


def test_command_answers_its_object_and_is_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls(monkeypatch, "import json, sys; print(json.dumps({'asked': sys.argv[1:]}))")
    assert commands.answer(["state", "a b"], 60, OPERATOR) == {"asked": ["state", "a b", "--json"]}
    assert commands.answer(["state", "--", "--help"], 60, OPERATOR) == {"asked": ["state", "--json", "--", "--help"]}


@pytest.mark.parametrize(
    "series", ["--help", "-h", "--config=/etc/passwd", "--version", "--", "-", "", "a\x00b", "\ud800", "a" * 300_000]
)
def test_no_series_in_the_address_of_a_page_is_an_option_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, series: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-m", "app.cli"]))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    with pytest.raises(CommandError, match=r"has never run|cannot be run with that|not the name of a series"):
        commands.answer(["state", "--version", "live", commands.NO_OPTIONS, series], 60, OPERATOR)


def put_modules_into_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else has put modules there that have the names of libraries; whoever imports one of them ends with code 42."""
    for name in ("streamlit", "typer", "structlog"):
        (folder / f"{name}.py").write_text("raise SystemExit(42)\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))


def test_commands_of_the_pages_take_no_module_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_modules_into_working_directory(tmp_path, monkeypatch)
    variables = dashboard.environment(settings(tmp_path / "home"))
    command = [*json.loads(variables["KAPPA_DASHBOARD_COMMAND"]), "--version"]
    assert subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


GOOD = {
    "name": "good",
    "version": "live",
    "watermark": 1_795_262_400_000,
    "series": 7,
    "files": {"a": {"bytes": 2**21}},
}
BROKEN = {"name": "old", "problem": "state format 26, wanted 27"}


@pytest.mark.parametrize("found", [[BROKEN], [BROKEN, BROKEN | {"name": "older"}], [GOOD], [GOOD, BROKEN]])
def test_savepoints_are_listed_with_their_problems_though_none_can_be_read(
    monkeypatch: pytest.MonkeyPatch, found: list[dict[str, Any]]
) -> None:
    def script() -> None:
        from zoneinfo import ZoneInfo

        from dashboards import chrome, pipeline

        pipeline.savepoints.clear()
        pipeline.show_savepoints(chrome.View("live", ["live"], "1h", ZoneInfo("UTC"), None))
        pipeline.savepoints.clear()

    calls(monkeypatch, f"print({json.dumps(json.dumps(with_json_keys({'savepoints': found})))})")
    test = AppTest.from_function(script, default_timeout=60).run()
    assert not test.exception
    assert not test.error
    rows = test.dataframe[0].value
    assert list(rows["name"]) == [one["name"] for one in found[::-1]], "the newest first"
    assert [why or "" for why in rows["problem"]] == [one.get("problem", "") for one in found[::-1]]
    assert list(rows["series"].dropna()) == [one["series"] for one in found if "series" in one]
    assert list(rows["size"].dropna()) == [2.0 for one in found if "files" in one]
    assert len(rows["after"].dropna()) == len(rows["size"].dropna())


def test_command_that_fails_says_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    calls(monkeypatch, "import sys; sys.stderr.write('starting\\nkappa: no version x\\n'); sys.exit(1)")
    with pytest.raises(CommandError, match=r"^no version x$"):
        commands.answer(["state"], 60, OPERATOR)


def test_a_command_answers_people_where_logs_are_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Settings(home=tmp_path, log=LogSettings(format="json"))
    for name, text in dashboard.environment(own).items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=r"^kafka\.bootstrap_servers is not set"):
        commands.answer(["label", "x", "true"], 60, OPERATOR)


def test_command_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls(monkeypatch, "import threading; threading.Event().wait()")
    with pytest.raises(CommandError, match="not ready within"):
        commands.answer(["state"], 0.5, OPERATOR)


def test_pages_that_were_started_otherwise_cannot_run_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAPPA_DASHBOARD_COMMAND", raising=False)
    with pytest.raises(CommandError, match="kappa dashboard"):
        commands.answer(["state"], 1, OPERATOR)


def test_only_one_command_runs_at_a_time_and_all_it_says_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    calls(monkeypatch, "import sys; print('one'); sys.stderr.write('two'); sys.stdout.flush(); sys.stdin.read()")
    command_runner = CommandRunner()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "DEVNULL", subprocess.PIPE)
        work = command_runner.begin(["replay", "promote", "x"], OPERATOR)
    assert command_runner.is_busy
    with pytest.raises(CommandError, match=re.escape("`kappa replay promote x` is running")):
        command_runner.begin(["replay", "rollback"], OPERATOR)
    assert work.process.stdin is not None
    work.process.stdin.close()
    assert work.process.wait(30) == 0
    assert sorted(work.output.replace("two", "two\n").split()) == ["one", "two"]
    assert not command_runner.is_busy


def test_link_to_kibana_has_time_and_filter_and_is_absent_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    span = Span(datetime(2026, 11, 21, 11, tzinfo=UTC), datetime(2026, 11, 21, 12, tzinfo=UTC))
    monkeypatch.delenv("KAPPA_DASHBOARD_KIBANA_URL", raising=False)
    assert kibana("novelties", span, "*") is None
    monkeypatch.setenv("KAPPA_DASHBOARD_KIBANA_URL", "https://kibana.example.net/")
    found = kibana("novelties", span, any_of("novelty.series", ["gauge/vm-1/web/it's"]))
    assert found is not None
    assert found.startswith("https://kibana.example.net/app/discover#/?_g=")
    assert "2026-11-21T11%3A00%3A00%2B00%3A00" in found
    assert "gauge%2Fvm-1%2Fweb%2Fit%21%27s" in found


def test_pages_are_opened_by_names_of_loopback_and_by_those_that_settings_name() -> None:
    here = ["localhost", "127.0.0.1", "::1", "127.0.0.1"]
    assert dashboard.known_names(load(), "127.0.0.1") == here
    linked = load(notify={"link": "https://kappa.example.net/x"}, dashboard={"names": ("10.0.0.7",)})
    assert dashboard.known_names(linked, "127.0.0.1") == [*here, "kappa.example.net", "10.0.0.7"]
    assert dashboard.known_names(load(), "0.0.0.0") == [], "by which address it is reached is not known"
    assert "10.0.0.7" in dashboard.known_names(linked, "0.0.0.0")


@pytest.mark.slow
def test_a_page_of_the_web_whose_name_leads_here_opens_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port(None)
    put_modules_into_working_directory(tmp_path, monkeypatch)

    def session(host: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        named = {"Host": host, "Origin": f"http://{host}", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        with closing(connection):
            connection.request("GET", "/_stcore/stream", headers=upgrade | named)
            return connection.getresponse().status

    own = Settings(home=tmp_path, dashboard=DashboardSettings(names=("kappa.example.net",)))
    with listening(own, port):
        found = {host: session(host) for host in (f"localhost:{port}", "kappa.example.net", f"evil.example:{port}")}
    assert list(found.values()) == [101, 101, 403]


@contextmanager
def listening(own: Settings, port: int) -> Iterator[None]:
    """The pages with these settings, once they listen."""
    with dashboard.served(own, port, print) as (server, _):
        while port_is_free(port):
            assert server.poll() is None
            threading.Event().wait(0.1)
        yield


@pytest.mark.slow
def test_no_session_takes_a_file_as_no_page_asks_for_one(tmp_path: Path) -> None:
    port = free_port(None)
    address = f"127.0.0.1:{port}"
    begin = BackMsg()
    begin.rerun_script.query_string = ""
    with (
        listening(Settings(home=tmp_path), port),
        httpx.Client(base_url=f"http://{address}/_stcore/") as client,
        connect(f"ws://{address}/_stcore/stream", max_size=None) as socket,
    ):
        socket.send(begin.SerializeToString())
        session = next(found for message in socket if (found := session_in(message)))
        client.get("health")
        token = {"X-Xsrftoken": client.cookies["_streamlit_xsrf"]}
        answer = client.put(f"upload_file/{session}/file", headers=token, files={"file": ("name", b"0")})
    assert answer.status_code == 413


def session_in(message: bytes | str) -> str:
    """The id of the session that a message of Streamlit begins; empty for another message."""
    forward = ForwardMsg.FromString(message)
    return str(forward.new_session.initialize.session_id)


@pytest.mark.parametrize("port", ["0", "-1", "65536"])
def test_a_port_that_there_is_none_of_is_refused(port: str) -> None:
    found = CliRunner().invoke(main.app, ["dashboard", "--port", port])
    assert found.exit_code == 2 and "'--port'" in found.output
