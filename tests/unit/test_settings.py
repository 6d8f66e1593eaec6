"""Settings: arguments over environment over file over defaults; what is unknown, missing or out of range is an error."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from app.cli import main
from app.core.errors import SettingsError
from app.core.settings import Settings, dotted_names, load
from app.runtime.jobs import selected
from app.versions.pinned_configuration import pin_configuration
from pipelines.errors import InputError, OfAnotherRelease
from pipelines.windowing import WindowingConfig

SECRETS = (
    "kafka.sasl_password",
    "elasticsearch.password",
    "elasticsearch.api_key",
)  # and see tests/unit/test_secrets.py
ELASTIC = '[elasticsearch]\nurl = "https://127.0.0.1:1"'


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A working directory without a file, an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("KAPPA_"):
            monkeypatch.delenv(name)


def toml(folder: Path, text: str, name: str = "own.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def one_line(error: Exception) -> str:
    line = str(error)
    assert "\n" not in line
    return line


# --- where they come from


def test_without_file_and_environment_there_are_defaults() -> None:
    settings = load()
    assert settings.version == "live"
    assert settings.windowing == WindowingConfig()
    assert settings.kafka.bootstrap_servers is None


def test_arguments_go_over_environment_over_file_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = toml(tmp_path, 'version = "file"\n[kafka]\nbootstrap_servers = "file:9092"\nssl_cafile = "file"\n')
    monkeypatch.setenv("KAPPA_KAFKA__SECURITY_PROTOCOL", "SSL")
    assert load(file).version == "file"
    monkeypatch.setenv("KAPPA_VERSION", "environment")
    monkeypatch.setenv("KAPPA_KAFKA__BOOTSTRAP_SERVERS", "environment:9092")
    settings = load(file)
    assert settings.version == "environment"
    assert settings.kafka.bootstrap_servers == "environment:9092"
    assert settings.kafka.ssl_cafile == Path("file")  # one setting of a group leaves the others alone
    assert settings.kafka.sasl_mechanism == "PLAIN"
    assert load(file, version="argument").version == "argument"


def test_the_environment_reaches_the_law_and_keeps_the_rest_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = toml(tmp_path, "[windowing]\nwindow_seconds = 20\nshards = 8\n")
    monkeypatch.setenv("KAPPA_WINDOWING__LATENESS_SECONDS", "30")
    assert load(file).windowing == WindowingConfig(window_seconds=20, lateness_seconds=30, shards=8)


def test_kappa_toml_of_the_working_directory_is_read_unless_another_is_named(tmp_path: Path) -> None:
    toml(tmp_path, 'version = "here"\n', "kappa.toml")
    assert load().version == "here"
    assert load(toml(tmp_path, 'version = "there"\n')).version == "there"


def test_a_file_that_was_named_once_is_not_remembered(tmp_path: Path) -> None:
    load(toml(tmp_path, 'version = "once"\n'))
    assert load().version == "live"


# --- what is refused, in one line


def test_a_named_file_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load(tmp_path / "gone.toml")
    assert "gone.toml" in one_line(error.value)


def test_a_file_that_is_not_toml_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load(toml(tmp_path, "[windowing\n"))
    assert "own.toml is not TOML" in one_line(error.value)


def test_what_nests_deeply_or_has_thousands_of_digits_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("x = " + "[" * 5_000, "[detection]\nalert_nats = " + "1" * 5_000):
        with pytest.raises(SettingsError) as error:
            load(toml(tmp_path, text))
        assert "own.toml" in one_line(error.value)
    monkeypatch.setenv("KAPPA_NOTIFY__ROUTES", "[" * 50_000)
    with pytest.raises(SettingsError) as error:
        load()
    assert "nests too deeply" in one_line(error.value)


def test_a_file_that_is_no_text_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError) as error:
        load(file)
    assert "own.toml is not TOML" in one_line(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[kafka]\nbotstrap_servers = 'x'", "did you mean kafka.bootstrap_servers?"),
        ("[windowing]\nwindow_second = 1", "did you mean windowing.window_seconds?"),
        ("correlations = 1", "did you mean correlation?"),
        ("quite_another = 1", "docs/settings.md lists all"),
    ],
)
def test_an_unknown_key_is_answered_with_the_one_that_may_be_meant(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        load(toml(tmp_path, text))


def test_a_window_length_that_would_not_count_is_refused(tmp_path: Path) -> None:
    other = "[detection]\nwindow_seconds = 30\n"
    with pytest.raises(
        SettingsError, match=r"detection\.window_seconds: .*windowing\.window_seconds, 10, got 30; set"
    ) as error:
        load(toml(tmp_path, other))
    one_line(error.value)
    same = load(toml(tmp_path, other + "[windowing]\nwindow_seconds = 30\n"))
    assert (
        same.detector.window_seconds
        == load(toml(tmp_path, "[windowing]\nwindow_seconds = 30\n")).detector.window_seconds
        == 30
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("verison = 'x'", "verison"),
        ("[kafka]\nbootstrap = 'x'", "kafka.bootstrap"),
        ("[windowing]\nwindows = 1", "windowing.windows"),
        ("[detection]\nspike = 1", "detection.spike"),
        ("[health]\nport = 1\nhosts = 'x'", "health.hosts"),
    ],
)
def test_an_unknown_key_is_refused_by_its_name(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(toml(tmp_path, text))
    line = one_line(error.value)
    assert key in line
    assert "unknown setting" in line


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[windowing]\nwindow_seconds = 0", "window_seconds"),
        ("[windowing]\nwindow_seconds = 86401", "window_seconds"),
        ("[windowing]\nlateness_seconds = -1", "lateness_seconds"),
        ("[windowing]\nskew_seconds = 90000", "skew_seconds"),
        ("[windowing]\nshards = 0", "shards"),
        ("[windowing]\nshards = 5000", "shards"),
        ("[windowing]\nwindow_seconds = 1.5", "window_seconds"),
        ("[windowing]\nwindow_seconds = 'ten'", "window_seconds"),
        ("[topics]\ntelemetry_partitions = 0", "topics.telemetry_partitions"),
        ("[topics]\nprefix = 'a/b'", "topics.prefix"),
        ("[topics]\ntimestamps = 'event'", "topics.timestamps"),
        ("[kafka]\nsecurity_protocol = 'TLS'", "kafka.security_protocol"),
        ("[spark]\nmax_records_per_batch = 1", "spark.max_records_per_batch"),
        ("[health]\nstale_seconds = 0", "health.stale_seconds"),
        ("version = 'Live!'", "version"),
        ("version = ''", "version"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_setting_and_what_was_got(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(toml(tmp_path, text))
    line = one_line(error.value)
    assert key in line
    assert ", got " in line or "; wanted " in line


@given(st.sampled_from([f.name for f in dataclasses.fields(WindowingConfig)]), st.integers())
def test_a_law_holds_what_it_was_given_or_is_refused(name: str, value: int) -> None:
    try:
        windowing = WindowingConfig(**{name: value})
    except ValueError as error:
        assert f"{name} is {value}" in str(error)
        assert value < 1 or value > 4_096
    else:
        assert getattr(windowing, name) == value
        assert windowing.watermark_delay_seconds >= windowing.lateness_seconds >= 0


def test_settings_are_frozen() -> None:
    settings = load()
    with pytest.raises(ValidationError):
        settings.version = "other"
    with pytest.raises(ValidationError):
        settings.kafka.sasl_username = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.windowing.shards = 1  # type: ignore[misc]


# --- secrets


def test_secrets_are_masked_wherever_settings_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv("KAPPA_" + name.upper().replace(".", "__"), f"hush-{name}")
    monkeypatch.setenv("KAPPA_KAFKA__SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("KAPPA_KAFKA__SASL_USERNAME", "kappa")
    monkeypatch.setenv("KAPPA_ELASTICSEARCH__USERNAME", "kappa")
    settings = load()
    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == "hush-kafka.sasl_password"
    for shown in (json.dumps(settings.shown()), repr(settings), str(settings)):
        assert "hush" not in shown
    masked = dict(dotted_names(settings.shown()))
    assert [masked[name] for name in SECRETS] == ["**********"] * 3


def test_a_bad_value_beside_a_secret_does_not_print_the_secret(tmp_path: Path) -> None:
    file = toml(tmp_path, "[kafka]\nsasl_password = 'hush'\nsecurity_protocol = 'TLS'\n")
    with pytest.raises(SettingsError) as error:
        load(file)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[elasticsearch]\npassword = 20261122", "elasticsearch.password"),
        ("[kafka]\nsasl_pasword = '20261122'", "kafka.sasl_pasword"),
    ],
)
def test_a_secret_of_the_wrong_type_or_under_a_misspelled_name_is_not_printed(
    tmp_path: Path, text: str, key: str
) -> None:
    with pytest.raises(SettingsError) as error:
        load(toml(tmp_path, text))
    line = one_line(error.value)
    assert key in line
    assert "20261122" not in line


def test_shown_settings_are_json_and_name_every_setting() -> None:
    shown = json.loads(json.dumps(load().shown()))
    assert set(shown) == set(Settings.model_fields)
    assert shown["windowing"] == dataclasses.asdict(WindowingConfig())


# --- names


@pytest.mark.parametrize(("kind", "own"), [("telemetry", False), ("logs", False), ("scores", True), ("late", True)])
def test_versions_share_inputs_and_have_outputs_of_their_own(kind: str, own: bool) -> None:
    live = load(topics={"prefix": "a-"})
    other = load(version="second", topics={"prefix": "a-"})
    assert live.topic(kind) == f"a-{kind}"
    assert other.topic(kind) == (f"a-{kind}.second" if own else f"a-{kind}")
    assert live.checkpoint("detect") != other.checkpoint("detect")


def test_the_command_says_its_version() -> None:
    assert CliRunner().invoke(main.app, ["--version"]).stdout == f"kappa {metadata.version('kappa-novelty')}\n"


@pytest.mark.parametrize(
    ("command", "text", "setting"),
    [
        ("rules list", '[kafka]\nbootstrap_servers = "127.0.0.1:1"\nsecurity_protocol = "SSL"', "kafka.ssl_cafile"),
        ("dashboard", ELASTIC, "elasticsearch.ca_certs"),
        ("label x true", f'[kafka]\nbootstrap_servers = "127.0.0.1:1"\n{ELASTIC}', "elasticsearch.ca_certs"),
    ],
)
def test_a_file_that_a_server_needs_and_that_is_not_there_is_the_only_thing_that_is_said(
    tmp_path: Path, command: str, text: str, setting: str
) -> None:
    file = tmp_path / "authority.pem"
    own = toml(tmp_path, f'{text}\n{setting.partition(".")[2]} = "{file}"')
    done = CliRunner().invoke(main.app, [*command.split(), "--config", str(own)])
    assert isinstance(done.exception, SettingsError) and done.output == ""
    assert one_line(done.exception).startswith(
        f"settings: {setting} = {file} cannot be read (No such file or directory)"
    )


def test_all_means_every_job_once_and_an_unknown_one_is_refused() -> None:
    assert selected(["index", "all"]).names == ("extract", "detect", "correlate", "index")
    assert selected(["detect", "extract", "detect"]).names == ("detect", "extract")
    with pytest.raises(InputError, match="no job 'extrakt'"):
        selected(["extrakt"])
    with pytest.raises(InputError, match="no job 'detct'"):
        selected(["all", "detct"])
    with pytest.raises(InputError, match=r"^notify runs beside no other job; wanted .*notify and early by itself"):
        selected(["index", "notify"])


@pytest.mark.parametrize(
    ("home", "jars", "says"),
    [
        ("a,b", None, "home: wanted a folder without ','"),
        ("a:b", None, "jar_folder: wanted a folder without ':'"),
        ("a", "b,c", "jar_folder: wanted a folder without ','"),
    ],
)
def test_folders_with_a_sign_that_parts_a_list_are_refused(home: str, jars: str | None, says: str) -> None:
    """Kafka took `a,b` for two folders, and did not start."""
    with pytest.raises(SettingsError) as error:
        load(home=home, jar_folder=jars)
    assert says in one_line(error.value)


def test_folders_with_spaces_and_a_home_with_a_colon_are_taken() -> None:
    assert load(home="a b", jar_folder="c d").jars == Path("c d")
    assert load(home="a:b", jar_folder="c").home == Path("a:b")


# --- the configuration that results depend on


def of(home: Path, **more: Any) -> Settings:
    return load(home=home, **more)


def test_the_first_configuration_of_a_version_is_kept_and_the_same_one_is_let_in_again(tmp_path: Path) -> None:
    file = pin_configuration(of(tmp_path))
    before = file.read_bytes()
    assert pin_configuration(of(tmp_path, kafka={"bootstrap_servers": "elsewhere:9092"})) == file
    assert file.read_bytes() == before
    assert json.loads(before)["windowing"]["lateness_seconds"] == 15


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [("windowing", "lateness_seconds", 16), ("windowing", "shards", 8), ("detection", "spike_nats", 21.0)],
)
def test_another_configuration_under_the_same_version_is_refused_with_what_differs(
    tmp_path: Path, group: str, name: str, value: float
) -> None:
    file = pin_configuration(of(tmp_path))
    before = file.read_bytes()
    with pytest.raises(InputError) as error:
        pin_configuration(of(tmp_path, **{group: {name: value}}))
    line = one_line(error.value)
    assert f"{group}.{name}" in line
    assert str(value) in line
    assert file.read_bytes() == before
    assert pin_configuration(of(tmp_path, version="second", **{group: {name: value}})) != file


def edit_pinned(settings: Settings, edit: Callable[[dict[str, Any]], object]) -> None:
    """Let the version have begun with another configuration."""
    kept = json.loads(settings.configuration_file.read_text())
    edit(kept)
    settings.configuration_file.write_text(json.dumps(kept))


def test_a_rule_that_lacks_a_key_of_today_is_the_rule_with_its_default(tmp_path: Path) -> None:
    settings = of(tmp_path, control={"rules": [{"mute": True, "host": "web-1"}]})
    pin_configuration(settings)
    edit_pinned(settings, lambda kept: kept["control"]["rules"][0].pop("least_deviation"))
    pin_configuration(settings)
    edit_pinned(settings, lambda kept: kept["control"]["rules"][0].update(host="web-2"))
    with pytest.raises(
        InputError,
        match=r'control\.rules = \[{ host = "web-2", mute = true }\], the settings say \[{ host = "web-1", mute = true }\]; .* set it back',
    ):
        pin_configuration(settings)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda kept: kept["detection"].pop("spike_nats"), "detection.spike_nats is missing"),
        (lambda kept: kept["detection"].update(old_one=3), "detection.old_one is no setting of it"),
        (lambda kept: kept.pop("limits"), "limits.all_series is missing"),
        (lambda kept: kept["control"]["rules"][0].update(old_one=3), "no key 'old_one' in a rule"),
    ],
)
def test_a_pinned_setting_that_only_one_of_two_releases_has_cannot_be_set_back(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object], what: str
) -> None:
    settings = of(tmp_path, control={"rules": [{"mute": True, "host": "web-1"}]})
    pin_configuration(settings)
    edit_pinned(settings, edit)
    with pytest.raises(OfAnotherRelease) as error:
        pin_configuration(settings)
    line = one_line(error.value)
    assert what in line
    assert "set it back" not in line
    assert "go on with the release that began it, or replay the log under another --version" in line


def test_what_is_shown_as_toml_is_read_back(tmp_path: Path) -> None:
    text = "[windowing]\nwindow_seconds = 5\n[topics]\nprefix = 'x-'\n"
    settings = load(toml(tmp_path, text))
    shown = settings.shown()
    for group, values in tomllib.loads(text).items():
        assert {key: shown[group][key] for key in values} == values
