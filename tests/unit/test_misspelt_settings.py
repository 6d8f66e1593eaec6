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
        ('[elasticsearch]\nurl = "localhost:9200"', "must begin with http:// or https://"),
        ('[spark]\ndriver_memory = "4 gigs"', "wanted a size such as 2g"),
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


def test_addresses_of_brokers_that_are_right_stay(tmp_path: Path) -> None:
    file = tmp_path / "kappa.toml"
    file.write_text('[kafka]\nbootstrap_servers = "a.example:9092, 10.0.0.1:9093,[::1]:9094"')
    assert load(file).kafka.bootstrap_servers == "a.example:9092, 10.0.0.1:9093,[::1]:9094"
