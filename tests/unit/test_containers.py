"""The container files hold against the compose specification, the settings, the commands, and each other."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from base64 import b64decode
from copy import deepcopy
from fnmatch import fnmatch
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import typer.main
from check_jsonschema.builtin_schemas import get_builtin_schema
from pydantic import BaseModel
from support.compose_file import COMMANDS, COMPOSE, OWN, SERVICES, VARIABLES, environment_of, interpolated
from support.recording_server import server_that

from app.cli import main
from app.core.settings import PROJECT, Settings, load
from app.runtime.jobs import ALONE, NAMES
from app.versions.pinned_configuration import configuration_of
from models.records.index_names import INDEX_KINDS, LABELS, alias_of

DOCKERFILE = (PROJECT / "Dockerfile").read_text()
EXAMPLE = (PROJECT / ".env.example").read_text()
USERS = PROJECT / "deploy" / "users.sh"
ONE_SHOTS = {"users", "topics", "kibana-objects"}


def check(compose: Any) -> None:
    """Raise for what the specification does not allow."""
    schema = get_builtin_schema("vendor.compose-spec")
    jsonschema.validators.validator_for(schema)(schema).validate(compose)


def settings_with(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What a process with only these variables of ours takes for its settings."""
    for name in os.environ:
        if name.startswith("KAPPA_"):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return load()


def test_compose_file_is_one() -> None:
    check(COMPOSE)


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [
        ("kafka", "healthchek", {}),
        ("extract", "command", 7),
        ("index", "depends_on", {"users": {"condition": "ready"}}),
    ],
)
def test_what_is_no_compose_file_is_refused(service: str, key: str, value: Any) -> None:
    broken = deepcopy(COMPOSE)
    broken["services"][service][key] = value
    with pytest.raises(jsonschema.ValidationError):
        check(broken)


def test_images_are_pinned_to_the_versions_that_the_embedded_stack_runs() -> None:
    jars = dict(
        re.findall(
            r'name="(kafka_2.13|elasticsearch)"[^>]*rev="([^"]+)"', (PROJECT / "app/embedded/ivy.xml").read_text()
        )
    )
    images = [interpolated(service["image"], {}) for service in SERVICES.values()]
    tags = dict(image.rsplit("/", 1)[-1].split(":") for image in images)
    assert tags == {
        "kafka": jars["kafka_2.13"],
        "elasticsearch": jars["elasticsearch"],
        "kibana": jars["elasticsearch"],
        "kappa": COMPOSE["x-kappa"]["image"].split(":")[1],
    }


def test_every_image_of_others_can_be_pinned_by_its_digest() -> None:
    pinned = "registry.example.net/it:1@sha256:" + "0" * 64
    names = {variable for variable, *_ in VARIABLES if variable.endswith("_IMAGE")}
    images = {interpolated(service["image"], dict.fromkeys(names, pinned)) for service in SERVICES.values()}
    assert images == {pinned, COMPOSE["x-kappa"]["image"]}
    base = COMPOSE["x-kappa"]["build"]["args"]["BASE_IMAGE"]
    assert interpolated(base, {"BASE_IMAGE": pinned}) == pinned
    assert [interpolated(base, {})] == [each.removeprefix("BASE_IMAGE=") for each in instructions("ARG")]


def test_no_password_is_in_the_file_and_every_variable_is_in_the_example() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if "PASSWORD" in key:
                assert re.fullmatch(r"\$\{[A-Z_]+:\?.+\}", value), (name, key)
    offered = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", EXAMPLE, re.M))
    required = {name for name, operator, _ in VARIABLES if operator == ":?"}
    assert offered.keys() == {name for name, _, _ in VARIABLES}
    assert all(offered[name] == "" for name in required)
    assert all(offered[name] == default for name, operator, default in VARIABLES if operator == ":-")


@pytest.mark.parametrize("service", OWN)
def test_every_variable_of_ours_is_a_setting_and_has_its_type(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of(service)
    for variable in environment:
        at: Any = Settings
        for part in variable.removeprefix("KAPPA_").lower().split("__"):
            assert isinstance(at, type), variable
            assert issubclass(at, BaseModel), variable
            assert part in at.model_fields, variable
            at = at.model_fields[part].annotation
    settings_with(environment, monkeypatch)  # raises for a value of the wrong type


def test_jobs_agree_on_what_results_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [configuration_of(settings_with(environment_of(name), monkeypatch)) for name in (*NAMES, "topics")]
    assert all(each == found[0] for each in found)
    assert {topic for name in NAMES for topic in [environment_of(name)["KAPPA_KAFKA__BOOTSTRAP_SERVERS"]]} == {
        "kafka:9092"
    }


def test_every_job_has_a_service_and_every_command_is_one() -> None:
    assert {("run", name) for name in NAMES} <= {tuple(command) for command in COMMANDS.values()}
    for command in COMMANDS.values():
        group: Any = typer.main.get_command(main.app)
        rest = list(command)
        while hasattr(group, "commands"):
            group = group.commands[rest.pop(0)]
        group.make_context("kappa", rest)  # raises for an option or an argument that there is not


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_limits_a_restart_and_a_health_check(name: str) -> None:
    service: Any = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]
    assert limits["cpus"]
    assert limits["memory"]
    one_shot = name in ONE_SHOTS
    assert service["restart"] == ("on-failure:5" if one_shot else "unless-stopped")
    own: Any = service.get("healthcheck")
    if name in (*NAMES, *ALONE):
        assert own is None  # the image's own, which asks /healthz
    elif not one_shot:
        assert own["test"][0] in ("CMD", "CMD-SHELL")


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_has_rights_that_it_does_not_need(name: str) -> None:
    service: Any = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert service.get("read_only", False) == (name in OWN)


def test_a_service_is_in_the_networks_of_what_it_speaks_to_and_in_no_other() -> None:
    search = {"elasticsearch", "users", "kibana", "kibana-objects", "index", "dashboard"}
    log = {"kafka", "topics", "extract", "detect", "correlate", "index", "notify", "dashboard"}
    for name, service in SERVICES.items():
        spoken_to = [str(value) for value in service.get("environment", {}).values()]
        assert ("http://elasticsearch:9200" in spoken_to) <= (name in search), name
        assert ("kafka:9092" in spoken_to) <= (name in log), name
        assert set(service["networks"]) == {
            net for net, members in (("log", log), ("search", search)) if name in members
        }
    assert COMPOSE["networks"].keys() == {"log", "search"}


def test_services_wait_for_one_shots_to_end_and_for_servers_to_be_healthy() -> None:
    for service in SERVICES.values():
        for other, how in service.get("depends_on", {}).items():
            ended = "service_completed_successfully" if other in ONE_SHOTS else "service_healthy"
            assert how["condition"] == ended


def test_nothing_listens_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_volumes_are_those_that_are_declared() -> None:
    used = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert {name for name in used if not name.startswith(".")} == COMPOSE["volumes"].keys()
    assert all((PROJECT / name).exists() for name in used if name.startswith("."))


# --- the image


def instructions(word: str) -> list[str]:
    """What follows a word of the Dockerfile, lines that go on joined."""
    return re.findall(rf"^{word} (.+)$", re.sub(r"\\\n\s*", "", DOCKERFILE), re.M)


def test_image_runs_as_a_user_without_rights_on_pinned_ground() -> None:
    assert instructions("USER") == ["kappa"]
    assert [bool(re.match(r"BASE_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", each)) for each in instructions("ARG")] == [
        True
    ]
    assert all(re.match(r"\$\{BASE_IMAGE\}( AS \w+)?$", each) for each in instructions("FROM"))


def test_image_is_made_of_what_is_there_and_is_not_kept_out() -> None:
    sources = [source for each in instructions("COPY") if "--from" not in each for source in each.split()[:-1]]
    wanted = {source.split("/")[0] for source in sources}
    lines = (PROJECT / ".dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines  # everything is kept out but what is named
    assert sorted(wanted) == sorted(allowed)
    assert all((PROJECT / name).exists() for name in wanted)
    packages = [line for line in allowed if (PROJECT / line).is_dir()]
    assert sorted(packages) == sorted(
        ["requirements"]
        + [
            path.parent.name
            for path in PROJECT.glob("*/__init__.py")
            if not fnmatch(path.parent.name, "tests*") and path.parent.name != "benchmarks"
        ]
    )
    assert all(
        "-r requirements/" in each or "--no-deps" in each for each in instructions("RUN") if "pip install" in each
    )


def test_health_check_of_the_image_asks_where_jobs_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    (check_line,) = instructions("HEALTHCHECK")
    command = json.loads(check_line.split("CMD ", 1)[1])
    health = settings_with(environment_of("extract"), monkeypatch).health
    assert f"http://127.0.0.1:{health.port}/healthz" in command[-1]
    compile(command[-1], "HEALTHCHECK", "exec")
    assert health.host == "0.0.0.0"
    asked = settings_with(environment_of("dashboard"), monkeypatch).dashboard.jobs
    assert {urlsplit(address).hostname for address in asked} == set(health.names), "by other names it does not answer"


def test_folders_of_the_image_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    own = dict(pair.split("=", 1) for each in instructions("ENV") for pair in shlex.split(each))
    set_here = {name: value for name, value in own.items() if name.startswith("KAPPA_")}
    settings = settings_with(set_here, monkeypatch)
    assert [str(settings.home)] == instructions("VOLUME")
    assert str(settings.jars) in {each.split()[-1] for each in instructions("COPY")}
    assert f"state:{settings.home}" in COMPOSE["x-kappa"]["volumes"]


# --- the users of Elasticsearch: the embedded node has none


def users(url: str, **passwords: str) -> subprocess.CompletedProcess[str]:
    """Run the script with these passwords."""
    own = {"ELASTIC_PASSWORD": "elastic-1", "KIBANA_PASSWORD": "kibana-22", "KAPPA_USER_PASSWORD": "kappa-333"}
    environment = {"PATH": os.environ["PATH"], "ELASTICSEARCH_URL": url, **own, **passwords}
    return subprocess.run(
        ["bash", str(USERS)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_users_are_made_by_the_superuser_and_may_write_every_kind_of_documents() -> None:
    with server_that(200, b"{}") as (url, asked):
        done = users(url)
    assert done.returncode == 0, done.stderr
    assert {b64decode(one.headers["Authorization"].removeprefix("Basic ")) for one in asked} == {b"elastic:elastic-1"}
    bodies = {one.path: json.loads(one.body) for one in asked}
    assert bodies["/_security/user/kibana_system/_password"] == {"password": "kibana-22"}
    assert bodies["/_security/user/kappa"] == {"password": "kappa-333", "roles": ["kappa"]}
    indices, old = bodies["/_security/role/kappa"]["indices"]
    assert old["privileges"] == ["view_index_metadata"], "what an early build has written is found"
    assert all(fnmatch(alias_of(kind), name) for kind in (*INDEX_KINDS, LABELS) for name in indices["names"])


@pytest.mark.parametrize("password", ["", "short", 'with "quotes"', "with $(touch it)"])
def test_password_that_would_break_json_or_the_shell_is_refused_before_anything_is_asked(password: str) -> None:
    with server_that(200, b"{}") as (url, asked):
        done = users(url, KIBANA_PASSWORD=password)
    assert (done.returncode, asked) == (1, [])
    assert "KIBANA_PASSWORD" in done.stderr


def test_refusal_ends_the_one_shot_with_an_error() -> None:
    with server_that(401, b"{}") as (url, asked):
        done = users(url)
    assert done.returncode != 0
    assert len(asked) == 1
    assert "elastic-1" not in done.stdout + done.stderr


def test_variables_are_put_in_as_compose_does() -> None:
    assert (
        interpolated("a ${KIBANA_PASSWORD:?set it} b ${NOT_SET:-7} $$HOME", {"KIBANA_PASSWORD": "x"}) == "a x b 7 $HOME"
    )
