"""A canary is planted in everything that is secret, found by walking the settings, and shown nowhere."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from typer.testing import CliRunner

from app.cli import main
from app.core import logs, private_files
from app.core.errors import SettingsError
from app.core.exposure import warning
from app.core.secrets import MASK, is_secret, masked, without_password
from app.core.settings import Settings, load
from app.runtime import dashboard

CANARY = "c4nary-in-a-c0al-mine"
# What makes a secret's group valid, beside the secret.
BESIDE: dict[str, dict[str, Any]] = {
    "kafka.sasl_password": {"security_protocol": "SASL_SSL", "sasl_username": "u"},
    "kafka.sasl_oauth_client_secret": {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_url": "https://login.example.net/token",
        "sasl_oauth_client_id": "c",
    },
    "kafka.ssl_key_password": {"security_protocol": "SSL", "ssl_certfile": "c.pem", "ssl_keyfile": "k.pem"},
    "elasticsearch.password": {"username": "u"},
}


def secrets(group: type[BaseModel] = Settings, name: str = "") -> Iterator[str]:
    """Every setting that is a secret, by its dotted name."""
    for field, info in group.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from secrets(info.annotation, f"{name}{field}.")
        elif "SecretStr" in str(info.annotation):
            yield f"{name}{field}"


def texts(group: type[BaseModel] = Settings, name: str = "") -> Iterator[tuple[str, str]]:
    """Every setting that is a text or texts, with its type."""
    for field, info in group.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from texts(info.annotation, f"{name}{field}.")
        else:
            yield f"{name}{field}", str(info.annotation)


SECRETS = sorted(secrets())
ADDRESSES = sorted(n for n, kind in texts() if "str" in kind and n.endswith(("url", "jobs", "bootstrap_servers")))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file_with(folder: Path, name: str, value: str, /, **more: Any) -> Path:
    """A settings file with a secret, and what its group needs."""
    group, _, key = name.rpartition(".")
    values = BESIDE.get(name, {}) | {key: value} | more
    file = folder / "canary.toml"
    file.write_text(f"[{group}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()))
    return file


def test_every_setting_with_the_name_of_a_secret_is_one() -> None:
    assert len(SECRETS) >= 6
    assert all(map(is_secret, SECRETS)), "masked in logs by its name"
    plain = [name for name, kind in texts() if "str" in kind and "SecretStr" not in kind and is_secret(name)]
    assert plain == [], "a secret must be a SecretStr"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_shown_by_no_command_and_in_no_error(tmp_path: Path, name: str) -> None:
    file = file_with(tmp_path, name, CANARY)
    settings = load(file)
    shown = [repr(settings), str(settings), json.dumps(settings.shown()), str(warning(settings))]
    for command in (["config", "show"], ["config", "show", "--json"], ["config", "check"]):
        answer = CliRunner().invoke(main.app, [*command, "--config", str(file)])
        shown += [answer.stdout, answer.stderr]
    for more in ({"no_such_setting": 1}, {"ssl_cafile": 7}, {name.rpartition(".")[2]: [CANARY]}):
        with pytest.raises(SettingsError) as error:
            load(file_with(tmp_path, name, CANARY, **more))
        shown.append(str(error.value))
    assert not [text for text in shown if CANARY in text]


@pytest.mark.parametrize("name", SECRETS)
def test_the_pages_commands_get_every_secret(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(file_with(tmp_path, name, CANARY))
    for variable, text in dashboard.environment(settings).items():
        if variable.startswith("KAPPA_"):
            monkeypatch.setenv(variable, text)
    group, _, key = name.rpartition(".")
    found = getattr(getattr(load(), group), key)
    assert isinstance(found, SecretStr) and found.get_secret_value() == CANARY


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize(
    "address", ["http://kappa:{}@host:9200", "https://{}@host", "host:1,u:{}@other:2", "https://h/p?token={}"]
)
def test_an_address_with_a_password_is_refused_without_saying_it(tmp_path: Path, name: str, address: str) -> None:
    group, _, key = name.rpartition(".")
    value: Any = address.format(CANARY)
    (tmp_path / "own.toml").write_text(f"[{group}]\n{key} = {json.dumps([value] if key == 'jobs' else value)}\n")
    with pytest.raises(SettingsError, match="may hold no user and no password") as error:
        load(tmp_path / "own.toml")
    assert CANARY not in str(error.value)


def test_options_of_spark_are_masked_by_their_names(tmp_path: Path) -> None:
    names = (
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.ssl.keyPassword",
        "spark.kafka.sasl.jaas.config",
    )
    (tmp_path / "own.toml").write_text("[spark.extra]\n" + "".join(f'"{n}" = "{CANARY}"\n' for n in names))
    assert CANARY not in json.dumps(load(tmp_path / "own.toml").shown())


@pytest.mark.parametrize("value", [CANARY, f'"{CANARY} x"', f"'x {CANARY}'"])
def test_options_of_java_are_masked_by_their_names(value: str) -> None:
    given = f"-Xmx1g -Djavax.net.ssl.keyStorePassword={value} -Duser.timezone=UTC"
    shown = load(spark={"extra": {"spark.driver.extraJavaOptions": given}}).shown()["spark"]["extra"]
    assert list(shown.values()) == [f"-Xmx1g -Djavax.net.ssl.keyStorePassword={MASK} -Duser.timezone=UTC"]


def test_a_variable_that_is_not_json_is_one_line_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_KAFKA", f'{{"sasl_password": "{CANARY}"')
    with pytest.raises(SettingsError) as error:
        load()
    assert "KAPPA_KAFKA" in str(error.value) and CANARY not in str(error.value) and "\n" not in str(error.value)


def test_log_lines_show_no_secret() -> None:
    import structlog

    with redirect_stderr(io.StringIO()) as err:
        logs.configure("json")
        log = structlog.get_logger()
        log.info(
            "asked", url=f"https://u:{CANARY}@host/", sasl_password=CANARY, options={"kafka.sasl.jaas.config": CANARY}
        )
        log.info(f"no answer of http://u:{CANARY}@host")
        try:
            raise ValueError(f"https://{CANARY}@host refuses")
        except ValueError:
            log.exception("failed")
    assert err.getvalue().count("\n") == 3 and CANARY not in err.getvalue()


def test_masks_leave_what_is_no_secret() -> None:
    value = {
        "key": "web-1",
        "ssl_keyfile": "k.pem",
        "sasl_oauth_token_url": "https://a/t",
        "n": 3,
        "none_password": None,
    }
    assert masked(value) == value
    assert without_password("see https://a/b and a@b.example") == "see https://a/b and a@b.example"
    assert without_password("https://a/b@c.example") == "https://a/b@c.example"


def test_a_parameter_of_an_address_that_has_a_secret_name_shows_no_value() -> None:
    text = "jdbc:x://h/db?user=a&password=%s;ssl=true and https://h/?access_token=%s&n=1"
    assert without_password(text % (CANARY, CANARY)) == text % (MASK, MASK)


def test_a_password_that_holds_an_at_sign_is_masked_in_whole() -> None:
    text = "https://u:p@ssw@rd@a.example/b@c, jdbc:x://u:p@b.example:1"
    assert without_password(text) == f"https://{MASK}@a.example/b@c, jdbc:x://{MASK}@b.example:1"


@pytest.mark.parametrize(
    ("servers", "protocol", "named"),
    [
        ("127.0.0.1:1,[::1]:2,localhost:3", "PLAINTEXT", None),
        ("127.0.0.1:1,broker:9092", "PLAINTEXT", "broker:9092"),
        ("localhost.example.net:1", "PLAINTEXT", "localhost.example.net:1"),
        ("broker:9092", "SSL", None),
    ],
)
def test_what_goes_unencrypted_to_other_machines_is_warned_of(servers: str, protocol: str, named: str | None) -> None:
    line = warning(load(kafka={"bootstrap_servers": servers, "security_protocol": protocol}))
    assert line is None if named is None else named in str(line) and "127.0.0.1" not in str(line)


def test_each_address_that_is_not_encrypted_is_named_in_one_line() -> None:
    own = load(elasticsearch={"url": "http://search:9200"}, dashboard={"jobs": ["http://jobs:1", "http://127.0.0.1:2"]})
    line = str(warning(own))
    assert "elasticsearch.url http://search:9200; dashboard.jobs http://jobs:1" in line and "127.0.0.1" not in line


def test_a_folder_of_an_earlier_release_is_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    private_files.tighten(home)
    assert home.stat().st_mode & 0o777 == 0o700
