"""docs/scale.md says what `kappa plan` says, and its model grows as it should."""

from __future__ import annotations

from dataclasses import fields

import pytest

from app.core.settings import PROJECT, TopicSettings, load
from app.runtime import plan
from app.runtime.plan import Load, ceilings, cores_of
from benchmarks import scale

PAGE = (PROJECT / "docs" / "scale.md").read_text().splitlines()
SETTINGS = load()


@pytest.mark.parametrize("table", [scale.costs, scale.loads, scale.limits])
def test_the_page_has_the_tables_that_the_model_gives(table: object) -> None:
    assert callable(table)
    rows = table()
    first = PAGE.index(rows[0])
    assert PAGE[first : first + len(rows)] == rows


def test_the_page_says_what_of_its_first_load_can_be_saved() -> None:
    one, settings = scale.LOADS["5,000 machines"], scale.settings_of()
    fewer = settings.model_copy(update={"spark": settings.spark.model_copy(update={"shuffle_partitions": 4})})
    memory = (plan.plan(one, settings).memory - plan.plan(one, fewer).memory) / 1e9
    rows = (one.series + plan.counts_of(one)) / settings.windowing.window_seconds
    kept = rows * (plan.ROW + plan.SCORE) * 3600 * settings.topics.retention_hours / 1e12
    text = " ".join(PAGE)
    assert f"with 4 it is {memory:.1f} GB less" in text
    assert f"`statistics` and `scores` are {kept:.1f} TB of the disk" in text


def test_cores_of_the_plan_are_those_of_its_parts() -> None:
    for one in scale.LOADS.values():
        parts = cores_of(one, SETTINGS)
        assert plan.plan(one, SETTINGS).cores == pytest.approx(sum(parts.values()))
        assert all(cores >= 0 for cores in parts.values())


def test_longer_lines_need_more_of_extract_and_of_the_broker_and_nothing_else() -> None:
    short, long = (Load(1_000, 10, 50, 1_000.0, length) for length in (120, 500))
    parts = [cores_of(one, SETTINGS) for one in (short, long)]
    assert [name for name in parts[0] if parts[0][name] != parts[1][name]] == ["lines"]
    plans = [plan.plan(one, SETTINGS) for one in (short, long)]
    differ = [
        field.name for field in fields(plan.Plan) if getattr(plans[0], field.name) != getattr(plans[1], field.name)
    ]
    assert differ == ["broker", "cores"]


def test_a_ceiling_is_where_all_tasks_that_there_can_be_are_busy() -> None:
    most = ceilings(scale.settings_of())
    window = scale.settings_of().windowing.window_seconds
    full = Load(series=int(most.rows), hosts=1, lines_per_second=most.lines)
    cores = cores_of(full, scale.settings_of())
    assert cores["rows of detect"] == pytest.approx(scale.SHARDS, rel=1e-6)
    assert cores["lines"] == pytest.approx(plan.INPUT_PARTITIONS)
    assert most.events * plan.AGENT_EVENT_SECONDS == pytest.approx(plan.INPUT_PARTITIONS)
    canonical = ceilings(scale.settings_of(), canonical=True)
    assert canonical.events * plan.EVENT_SECONDS == pytest.approx(plan.INPUT_PARTITIONS)
    assert canonical.lines > most.lines
    assert most.episodes * plan.EPISODE_SECONDS == pytest.approx(window)


def test_no_topic_may_have_more_partitions_than_the_model_says() -> None:
    TopicSettings(telemetry_partitions=plan.INPUT_PARTITIONS, logs_partitions=plan.INPUT_PARTITIONS)
    with pytest.raises(ValueError, match="telemetry_partitions"):
        TopicSettings(telemetry_partitions=plan.INPUT_PARTITIONS + 1)
