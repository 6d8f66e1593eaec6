"""A setting that is misspelt is refused with the one that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import SettingsError
from app.core.settings import load


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("window_seconds = 5", "did you mean windowing.window_seconds?"),
        ("[detection]\nalarm_chanse = 0.1", "did you mean detection.alarm_chance?"),
        ('[[control.rules]]\nhst = "db"\nmute = true', "did you mean host?"),
        ('[kafka]\nbootstrap_servers = "kafka"', "wanted host:port"),
        ('[kafka]\nbootstrap_servers = "kafka:9092,[::1]:99,other"', "bootstrap_servers has 'other'"),
        ('[kafka]\nbootstrap_servers = "kafka:9092,"', "bootstrap_servers has ''"),
        ('[elasticsearch]\nurl = "localhost:9200"', "must begin with http:// or https://"),
        ('[spark]\ndriver_memory = "4 gigs"', "wanted a size such as 2g"),
        ('[topics]\nprefix = "größe-"', "letters of a to z"),
        ('\ufeff[kafka]\nbootstrap_servers = "kafka:9092"', "begins with a byte order mark"),
        ('home = ""', "wanted a path"),
        ('home = "~nobody-of-this-name/kappa"', "wanted a path without ~"),
    ],
)
def test_in_the_file(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "kappa.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as found:
        load(file)
    assert what in str(found.value)


def test_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_DETECTON__WARM_UP_MINUTES", "5")
    with pytest.raises(SettingsError, match=r"KAPPA_DETECTON__WARM_UP_MINUTES.*did you mean detection.warm_up_minutes"):
        load()


def test_a_variable_with_one_line_too_few_between_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "KAPPA_HEALTH_PORT", "tcp://10.0.0.7:9464"
    )  # as Kubernetes sets where a service is called kappa-health
    monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", "[]")  # as pages of the dashboard have it
    load()
    monkeypatch.setenv("KAPPA_KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    with pytest.raises(
        SettingsError, match=r"KAPPA_KAFKA_BOOTSTRAP_SERVERS.*did you mean KAPPA_KAFKA__BOOTSTRAP_SERVERS"
    ):
        load()


@pytest.mark.parametrize(
    ("name", "text"), [("KAPPA_DASHBOARD__VIEWERS", "*"), ("KAPPA_SPARK__EXTRA", "a=b"), ("KAPPA_SPARK", "{")]
)
def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD__SIGN_IN", "code")  # no list, so no JSON
    monkeypatch.setenv(name, text)
    with pytest.raises(SettingsError, match=f"^settings: {name} in the environment: wanted JSON"):
        load()


def test_a_path_may_begin_with_the_home_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "kappa.toml"
    file.write_text('home = "~/kappa"\n[elasticsearch]\nurl = "https://a"\nca_certs = "~/ca.pem"')
    found = load(file)
    assert (found.home, found.elasticsearch.ca_certs) == (tmp_path / "kappa", tmp_path / "ca.pem")


def test_addresses_of_brokers_that_are_right_stay(tmp_path: Path) -> None:
    file = tmp_path / "kappa.toml"
    file.write_text('[kafka]\nbootstrap_servers = "a.example:9092, 10.0.0.1:9093,[::1]:9094"')
    assert load(file).kafka.bootstrap_servers == "a.example:9092, 10.0.0.1:9093,[::1]:9094"
