"""Rights in Kafka: least ones, and commands that a shell takes apart as they were meant."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from app.cli import main
from app.core.settings import INPUTS, load
from app.kafka.acls import Right, commands, rights
from app.kafka.topics import OUTPUTS, QUARANTINE, required_topics
from models.records import labels
from models.rules import rule_log


def test_only_jobs_write_what_jobs_write() -> None:
    table = rights(load(topics={"prefix": "a."}))
    for kind, own in table.items():
        written = {right.topic for right in own if "Write" in right.operations}
        assert not written & {f"a.{name}" for name in OUTPUTS} or kind == "jobs"
    assert {right.topic for right in table["agents"]} == {"a.telemetry", "a.logs"}
    assert {right.topic for right in table["people"]} == {"a.labels", "a.changes"}
    assert {right.topic for right in table["responders"]} == {"a.labels", "a.changes", "a.rules", "a.quarantine"}


def test_who_notifies_reads_incidents_and_writes_deliveries() -> None:
    own = rights(load(topics={"prefix": "a."}))["notifiers"]
    assert {right.topic for right in own if "Write" in right.operations} == {"a.deliveries"}
    assert {right.topic for right in own if right.prefixed} == {"a.incidents.", "a.novelties."}
    assert {right.topic for right in own if not right.prefixed and "Write" not in right.operations} == {
        "a.incidents", "a.novelties", "a.labels", "a.rules", "a.early", "a.quarantine",
    }  # fmt: skip


def test_the_lane_reads_inputs_and_results_and_writes_early_alarms() -> None:
    own = rights(load(topics={"prefix": "a."}))["lanes"]
    assert {right.topic for right in own if "Write" in right.operations} == {"a.early"}
    assert {right.topic for right in own if right.prefixed} == {"a.bounds.", "a.incidents.", "a.novelties."}
    assert {right.topic for right in own if not right.prefixed} == {
        "a.telemetry", "a.logs", "a.early", "a.bounds", "a.incidents", "a.novelties",
    }  # fmt: skip


def test_operators_may_append_a_record_in_quarantine_again_and_write_nothing_else() -> None:
    own = rights(load(topics={"prefix": "a."}))["operators"]
    written = {right for right in own if "Write" in right.operations}
    assert {right.topic for right in written} == {*(f"a.{kind}" for kind in INPUTS), f"a.{QUARANTINE}"}
    assert all("Read" in right.operations and not right.prefixed for right in written)


def test_a_command_is_one_right_of_one_user() -> None:
    lines = commands(load(), {"agents": ["User:CN=agents, O='x'"], "readers": ["User:r"]})
    words = [shlex.split(line) for line in lines]
    of_outputs = len(OUTPUTS) + 3  # and of quarantine, deliveries and early alarms
    assert len(lines) == 2 + 2 * of_outputs
    assert words[0][words[0].index("--allow-principal") + 1] == "User:CN=agents, O='x'"
    assert sum("prefixed" in line for line in words[2:]) == of_outputs


@pytest.mark.parametrize("prefix", ["", "kappa."])
def test_no_right_reaches_topics_of_others_that_begin_alike(prefix: str) -> None:
    settings = load(version="v2", topics={"prefix": prefix})
    ours = {settings.topic(kind) for kind in OUTPUTS} | {f"{prefix}{kind}" for kind in (*OUTPUTS, *INPUTS, "late")}
    theirs = [
        f"{prefix}{name}" for name in ("late-payments", "early-access", "scores_of_games", "logs-of-web", "ruleset")
    ]

    def reached(right: Right, topic: str) -> bool:
        return topic.startswith(right.topic) if right.prefixed else topic == right.topic

    for own in rights(settings).values():
        assert not [one for one in theirs for right in own if reached(right, one)]
    assert all(any(reached(right, one) for right in rights(settings)["jobs"]) for one in ours)


def test_a_name_without_a_type_is_a_user() -> None:
    assert commands(load(), {"agents": ["agents"]}) == commands(load(), {"agents": ["User:agents"]})


def test_command_prints_them_and_wants_a_user() -> None:
    answer = CliRunner().invoke(main.app, ["topics", "acls", "--jobs", "User:jobs"])
    assert answer.exit_code == 0 and "--operation Write" in answer.stdout and "--topic statistics" in answer.stdout
    assert CliRunner().invoke(main.app, ["topics", "acls"]).exit_code != 0


@pytest.mark.parametrize(("replication", "least"), [(1, None), (2, None), (3, "2"), (5, "2")])
def test_topics_of_three_copies_need_two_for_an_acknowledgement(replication: int, least: str | None) -> None:
    assert {
        t.config.get("min.insync.replicas") for t in required_topics(load(topics={"replication": replication}))
    } == {least}


def test_of_bounds_and_rules_the_last_one_of_each_is_kept_and_of_other_topics_everything_for_a_time() -> None:
    of = {t.name: t.config for t in required_topics(load(version="b", topics={"input_retention_hours": 2}))}
    policies = {name: config["cleanup.policy"] for name, config in of.items()}
    assert {name for name, policy in policies.items() if policy != "delete"} == {"bounds.b", "rules"}
    assert policies["bounds.b"] == "compact,delete"
    assert (policies["rules"], of["rules"]["min.compaction.lag.ms"]) == ("compact", of["telemetry"]["retention.ms"])
    assert of["rules"]["retention.ms"] == "-1"


def test_history_keeps_every_rule() -> None:
    (rules,) = (t for t in required_topics(load(topics={"timestamps": "create"})) if t.name == "rules")
    assert (rules.config["cleanup.policy"], rules.config["retention.ms"]) == ("delete", "-1")


def test_what_python_unpacks_has_room_for_the_longest_record_and_not_for_much_more() -> None:
    most = {t.name: int(t.config["max.message.bytes"]) for t in required_topics(load(version="b"))}
    assert labels.MOST_BYTES < most["labels"] < 1.3 * labels.MOST_BYTES
    assert 16 * rule_log.MOST_BYTES < most["rules"] < most["labels"]
    assert {most[kind] for kind in ("telemetry", "logs", "changes", "statistics.b")} == {2 << 20}
