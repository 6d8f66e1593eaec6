"""`kappa config check` and `kappa label`, without servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import label as label_command
from app.cli.config import RulesRefused, check, series_of, settings_of
from app.cli.main import app
from app.core.settings import Settings, load
from app.versions.pinned_configuration import configuration_of, model_settings
from models.detection.silence import log_of
from models.records.labels import MOST_BYTES, is_label, is_name
from pipelines.errors import InputError, ServiceUnavailable

SERIES = """gauge/db-1//cpu.load
gauge/db-1/pg/disk.used{device=sda}
logs/db-1/pg/error
template/db-1/pg/error/00aa\tlost connection to <*>
gauge/web-1//cpu.load
"""
RULES = """
[[control.rules]]
name = "backup"
host = "db-*"
mute = true
days = ["sat"]
hours = "22:00-06:00"
[[control.rules]]
metric = "cpu.load"
half_life_days = 7
[[control.rules]]
host = "db-1"
half_life_days = 2
[[control.rules]]
kind = "logs"
alarm_chance = 0.1
[[control.rules]]
host = "nobody"
reset = 2026-01-05T10:00:00Z
[[control.rules]]
template = "lost connection*"
direction = "up"
"""


def test_series_are_told_from_what_else_the_topic_of_statistics_holds() -> None:
    template, text = b"template/db-1/pg/error/00aa", b'{"template": "lost connection to <*>"}'
    others = [b"label/3/00000000000000000402", b"change/3/1", b"rule/7/00000000000000000402", b"overflow/a/web-1"]
    records = [(b"gauge/db-1//cpu", b"{}"), (template, text), *((key, b"{}") for key in others), (template, b"{}")]
    assert series_of(records) == {"gauge/db-1//cpu": None, template.decode(): "lost connection to <*>"}


def settings_with(folder: Path, text: str) -> Path:
    file = folder / "kappa.toml"
    file.write_text(text)
    return file


def no_broker() -> Settings:
    pytest.fail("a file was named")


def checked(folder: Path, rules: str = RULES, series: str = SERIES) -> dict[str, Any]:
    names = folder / "series.txt"
    names.write_text(series)
    return check(load(settings_with(folder, rules)), names, no_broker, pytest.fail)


def test_each_rule_says_what_it_matches_and_when(tmp_path: Path) -> None:
    answer = checked(tmp_path)
    found = {rule["title"]: (rule["matches"], rule["hosts"], rule["does"], rule["when"]) for rule in answer["rules"]}
    assert answer["series"] == 5
    assert found["backup"] == (6, 1, "mute", "sat 22:00-06:00 UTC")  # its host and its service as well
    assert found["rule 2"] == (2, 2, "half_life_days 7.0", "always")
    assert found["rule 5"][0] == 0
    assert found["rule 5"][3] == "once, with the first window after 2026-01-05T10:00:00Z"
    assert found["rule 6"][0] == 1
    assert answer["rules"][5]["examples"] == ("template/db-1/pg/error/00aa",)


def test_what_contradicts_and_what_does_nothing_is_a_warning(tmp_path: Path) -> None:
    assert sorted(checked(tmp_path)["warnings"]) == [
        "rule 2 says half_life_days 7.0, rule 3 says 2.0, of 1 series such as gauge/db-1//cpu.load: the later one, rule 3, "
        "counts",
        "rule 4: alarm_chance does nothing for what it matches; it is for gauge, counter",
        "rule 5 matches no series that is known",
    ]


def test_rules_at_other_times_do_not_contradict(tmp_path: Path) -> None:
    spans = [("2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z"), ("2026-01-05T11:00:00Z", "2026-01-05T12:00:00Z")]
    rules = "".join(
        f'[[control.rules]]\nhost="db-1"\ndirection="{way}"\nsince={begin}\nuntil={end}\n'
        for way, (begin, end) in zip(("up", "down"), spans, strict=True)
    )
    assert checked(tmp_path, rules)["warnings"] == []
    assert len(checked(tmp_path, rules.replace("since=2026-01-05T11", "since=2026-01-05T10"))["warnings"]) == 1


def test_everything_that_is_wrong_is_a_line_and_exit_1(tmp_path: Path) -> None:
    file = settings_with(
        tmp_path,
        '[[control.rules]]\nhost="a"\n[[control.rules]]\nmute=true\nhuost="a"\n[[control.rules]]\nmute=true\nlevel="eror"\n'
        "[detection]\nspikes=1\n",
    )
    with pytest.raises(RulesRefused) as refused:
        settings_of(file)
    assert len(refused.value.lines) == 4
    assert any("control.rules.0: the rule does nothing" in line for line in refused.value.lines)
    assert any("control.rules.2: level is 'eror', which no series has" in line for line in refused.value.lines)
    result = CliRunner().invoke(app, ["config", "check", "--config", str(file)])
    assert result.exit_code == 1
    assert "control.rules.1.huost" in result.stderr


def test_check_says_which_file_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    alone = CliRunner().invoke(app, ["config", "check"])
    (tmp_path / "kappa.toml").write_text("[topics]\npartitions = 2\n")
    default = CliRunner().invoke(app, ["config", "check"])
    lines = [one.stdout.splitlines()[0] for one in (alone, default)]
    assert lines == [
        f"the settings are valid: {file}, the environment and the defaults"
        for file in ("no kappa.toml in this folder", "kappa.toml")
    ]


def test_a_file_with_something_else_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2: not the name of a series"):
        checked(tmp_path, series="host/a\ncpu.load\n")


def test_the_command_prints_one_object(tmp_path: Path) -> None:
    names = tmp_path / "series.txt"
    names.write_text(SERIES)
    file = settings_with(tmp_path, RULES)
    result = CliRunner().invoke(app, ["config", "check", "--config", str(file), "--series", str(names), "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["rules"]) == 6


def test_a_version_keeps_its_rules(tmp_path: Path) -> None:
    settings = load(settings_with(tmp_path, RULES))
    kept = json.loads(json.dumps(configuration_of(settings)))
    assert model_settings(kept)["control"] == settings.control
    assert model_settings(kept)["detection"] == settings.detection
    assert "rules" not in kept["detection"]
    assert settings.detector.rules == settings.control.rules


# --- labels


def test_a_label_of_series_names_their_hosts(tmp_path: Path) -> None:
    made = label_command.record(
        load(settings_with(tmp_path, "")),
        *("abc", "true", "so it was", "me"),
        label_command.about_series(["gauge/a%2Fb//cpu", "host/c"]),
    )
    assert made.pop("@timestamp").endswith("Z")
    assert made == {
        "record": "label",
        "label": "true",
        "incident": "abc",
        "version": "live",
        "series": ["gauge/a%2Fb//cpu", "host/c"],
        "host": ["a/b", "c"],
        "start": None,
        "end": None,
        "comment": "so it was",
        "author": "me",
    }


def test_a_label_has_the_series_of_all_episodes_of_an_incident_each_once() -> None:
    shown, members = ["host/a", "host/b"], ["host/b", "host/c", "host/a", "logs/d//error", "host/c"]
    assert label_command.series_of(shown, members) == (["host/a", "host/b", "host/c", "logs/d//error"], 0)
    assert label_command.series_of(shown, []) == (shown, 0)


def test_only_a_label_is_advised_to_name_series_where_elasticsearch_does_not_answer(tmp_path: Path) -> None:
    settings = load(settings_with(tmp_path, '[elasticsearch]\nurl = "http://127.0.0.1:1"'))
    why = "Elasticsearch at http://127.0.0.1:1 does not answer (ConnectionError): see whether it runs, and check elasticsearch.url"
    for asked, rest in (
        (label_command.incident_document, ""),
        (label_command.whole_incident, "; or name the series with --series"),
    ):
        with pytest.raises(ServiceUnavailable) as refused:
            asked(settings, "abc")
        assert str(refused.value) == why + rest


def test_a_label_of_a_large_incident_says_how_many_episodes_have_no_place() -> None:
    """It stays a label that is read: no more names, and no more bytes, and none that makes all of it refused."""
    assert label_command.series_of([], [f"host/{i}" for i in range(1_003)])[1] == 3
    names, left_out = label_command.series_of(["host/a"], [f"gauge/{'é' * 1_000}{i}//cpu" for i in range(200)])
    source = {"label": "true", "series": names, "host": ["h" * 255] * 500}
    assert is_label(source) and len(json.dumps(source, ensure_ascii=False).encode()) < MOST_BYTES - 10_000
    assert len(names) - 1 + left_out == 200 and left_out > 100
    assert label_command.series_of(["fleet///hosts in shard 0", "host/a"], ["fleet///hosts in shard 0"]) == (
        ["host/a"],
        1,
    )


def test_the_episodes_of_an_incident_whose_series_it_does_not_show_are_counted() -> None:
    shown = [{"series": f"host/{i}"} for i in range(20)]
    listed = {"contributions": shown, "episodes": [str(i) for i in range(200)], "episodes_omitted": 7}
    assert label_command.unshown({"novelty": listed}) == 187
    assert label_command.unshown({"novelty": {"contributions": shown[:1], "episodes": ["1"]}}) == 0


def test_the_log_of_a_host_that_fell_silent_can_be_labelled() -> None:
    assert label_command.series_of([log_of("a/b")], []) == (["logs/a%2Fb//"], 0)
    assert not any(is_name(name) for name in ("logs///", "logs/a/shop/", "logs/a//\n", "gauge/a//", "logs/a/"))


@pytest.mark.parametrize(
    ("label", "comment", "series", "why"),
    [
        ("maybe", "", "host/a", "label is 'maybe'; wanted true, false-alarm, expected-change, acknowledged"),
        ("true", "x" * 1001, "host/a", "comment has 1001 characters"),
        ("true", "", "cpu", "not the name of a series"),
    ],
)
def test_what_is_no_label_is_not_written(tmp_path: Path, label: str, comment: str, series: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        about = label_command.about_series([series])
        label_command.record(load(settings_with(tmp_path, "")), "abc", label, comment, "me", about)


def test_a_label_is_shown_and_not_written_by_a_dry_run(tmp_path: Path) -> None:
    """No Kafka answers there."""
    file = settings_with(tmp_path, f'home = "{tmp_path}"\n[kafka]\nbootstrap_servers = "127.0.0.1:1"\n')
    arguments = ["label", "3f2a", "true", "--series", "gauge/a//cpu", "--dry-run", "--config", str(file)]
    found = CliRunner().invoke(app, arguments)
    assert (found.exit_code, found.stdout) == (0, "would write true: 1 series of incident 3f2a\n")
    record = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert record["series"] == ["gauge/a//cpu"] and record["written"] is False
