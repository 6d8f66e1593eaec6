"""Topics, indices and aliases belong to the whole deployment: a command with another home than the jobs have leaves them as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaProducer

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options, open_admin
from app.runtime.run import running
from app.search.mappings import drop_version, ensure_templates
from app.versions import lost_checkpoints, replay_manifest, serving, start_position
from app.versions.pinned_configuration import configuration_of, pin_configuration, read_pinned
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, Slice, SliceResult
from models.records.index_names import INDEX_KINDS
from pipelines.errors import InputError
from replay import other_homes, promote, run
from replay.drop import drop
from replay.slices import RequestedRange

pytestmark = [pytest.mark.stack]

DAY = "2026.11.21"


@dataclass
class TwoHomes:
    """A version whose topics and indices hold results: `own` has the home of its jobs, `other` the home of somebody's shell."""

    own: Settings
    other: Settings
    client: Elasticsearch

    @property
    def topics(self) -> set[str]:
        return {self.own.topic(kind) for kind in topics.OUTPUTS}

    def topics_there(self) -> set[str]:
        with open_admin(self.own) as admin:
            return self.topics & set(admin.list_topics())

    def indices_there(self) -> set[str]:
        return set(self.client.indices.get(index=f"kappa-*-{self.own.version}-*"))

    def show(self, query: dict[str, object] | None = None) -> None:
        """Give the index of incidents the live alias."""
        index = f"kappa-incidents-{self.own.version}-{DAY}"
        self.client.indices.put_alias(index=index, name="kappa-incidents", filter=query)


def settings_of(stack: Addresses, prefix: str, version: str, home: Path) -> Settings:
    return load(
        None,
        version=version,
        home=home,
        topics={"prefix": f"{prefix}-", "telemetry_partitions": 1, "logs_partitions": 1, "partitions": 2},
        kafka={"bootstrap_servers": stack.kafka},
        elasticsearch={"url": stack.elasticsearch},
    )


def append(settings: Settings, kind: str) -> None:
    producer = KafkaProducer(**client_options(settings))
    producer.send(settings.topic(kind), b"{}", partition=1).get(timeout=30)
    producer.close()


@pytest.fixture
def homes(stack: Addresses, unique: str, tmp_path: Path) -> Iterator[TwoHomes]:
    own, other = (settings_of(stack, unique, f"v{unique}", tmp_path / name) for name in ("jobs", "shell"))
    topics.create(own)
    pin_configuration(own)
    append(own, "scores")
    assert stack.elasticsearch is not None
    with Elasticsearch(stack.elasticsearch) as client:
        ensure_templates(client, own.version, live=False)
        for kind in INDEX_KINDS:
            client.index(index=f"kappa-{kind}-{own.version}-{DAY}", document={"@timestamp": 0})
        yield TwoHomes(own, other, client)
        drop_version(client, own.version)


def replayed(settings: Settings) -> None:
    """A complete replay in the settings' home."""
    part, result = Slice(None, 10_000, {}, {}), SliceResult({}, {kind: {"digest": ""} for kind in RESULT_KINDS}, 1.0)
    manifest = ReplayManifest(
        version=settings.version,
        code_version="0.1.0",
        state_formats={},
        configuration=configuration_of(settings),
        topics={},
        savepoint=None,
        whole=part,
        slices=(part,),
        results=(result,),
    )
    replay_manifest.write(settings, manifest)


# --- drop


def test_a_version_of_another_home_is_not_dropped_until_it_is_made_one_of_this_home(homes: TwoHomes) -> None:
    for yes in (False, True):
        with pytest.raises(InputError, match=r"neither replayed nor run in this home.*KAPPA_HOME.*mkdir -p") as refused:
            drop(homes.other, yes=yes)
        assert "\n" not in str(refused.value)
    assert homes.topics_there() == homes.topics
    assert len(homes.indices_there()) == len(INDEX_KINDS)
    named = re.search(r"`mkdir -p ([^`]+)`", str(refused.value))
    assert named is not None
    Path(named[1]).mkdir(parents=True)  # who has lost the home of its jobs does as it says
    gone = drop(homes.other, yes=True)
    assert set(gone["topics"]) == homes.topics
    assert gone["folders"] == [named[1]]
    assert not homes.topics_there() and not homes.indices_there()


def test_a_version_is_dropped_with_the_home_of_its_jobs_though_its_topics_are_gone(homes: TwoHomes) -> None:
    with open_admin(homes.own) as admin:
        admin.delete_topics(sorted(homes.topics))
    checkpoints = homes.own.checkpoint("detect").parent
    aside, of_another = (checkpoints.with_name(f"{checkpoints.name}{end}") for end in (".replaced-12", ".replaced-by"))
    for folder in (aside, of_another):
        folder.mkdir()
    gone = drop(homes.own, yes=True)
    assert gone["topics"] == [] and len(gone["indices"]) == len(INDEX_KINDS)
    assert gone["folders"] == [str(checkpoints), str(aside)]
    assert of_another.exists() and not aside.exists() and not checkpoints.exists()
    with pytest.raises(InputError, match="there is nothing of version"):
        drop(homes.own, yes=True)


@pytest.mark.parametrize("query", [None, {"range": {"novelty.window_end": {"lte": 5, "format": "epoch_millis"}}}])
def test_what_readers_are_shown_is_not_dropped_whatever_this_home_says_of_who_serves(
    homes: TwoHomes, query: dict[str, object] | None
) -> None:
    homes.show(query)
    for settings in (homes.own, homes.other):
        with pytest.raises(InputError, match=r"is what readers are shown.*`kappa replay promote live`"):
            drop(settings, yes=True)
    assert homes.topics_there() == homes.topics
    homes.client.indices.delete_alias(index=f"kappa-incidents-{homes.own.version}-{DAY}", name="kappa-incidents")
    assert set(drop(homes.own, yes=True)["topics"]) == homes.topics


# --- jobs


def test_jobs_of_a_version_of_another_home_are_refused_and_leave_this_home_as_it_is(homes: TwoHomes) -> None:
    scores = homes.own.topic("scores")
    refused = pytest.raises(InputError, match=f"{scores} hold results of version .*topics.prefix.*--take-over")
    for _ in range(2):  # the first attempt does not make the version one of this home
        with refused as found, running(homes.other, ["detect"]):
            pass
        assert "\n" not in str(found.value)
    assert read_pinned(homes.other) is None
    lost_checkpoints.check_home(homes.other, ["detect"], take_over=True)
    for job in (
        "extract",
        "correlate",
        "index",
    ):  # nobody has made what they write, or it is written twice without harm
        lost_checkpoints.check_home(homes.other, [job])
    fresh = homes.other.model_copy(update={"version": f"{homes.other.version}b"})
    lost_checkpoints.check_home(fresh, ["detect"])  # it has no topics yet
    lost_checkpoints.check_home(homes.own, ["detect"])


def test_a_home_that_was_lost_goes_on_once_the_version_is_set_back_in_it(homes: TwoHomes) -> None:
    start_position.set_back(homes.other, None)
    lost_checkpoints.check_home(homes.other, ["extract", "detect", "correlate"])


# --- a new replay


def test_a_version_of_another_home_is_not_replayed_here(homes: TwoHomes) -> None:
    scores = homes.own.topic("scores")
    with pytest.raises(InputError, match=f"replay: {scores} hold records of version .*KAPPA_HOME") as refused:
        run.plan(homes.other, RequestedRange())
    assert "\n" not in str(refused.value)
    fresh = homes.other.model_copy(update={"version": f"{homes.other.version}b"})
    topics.create(fresh)  # topics without a record hold nobody's results
    for settings in (homes.own, fresh):
        with pytest.raises(InputError, match=r"the inputs hold no record|has no record in what is read"):
            run.plan(settings, RequestedRange())


# --- promotion


def live_of(settings: Settings) -> Settings:
    return settings.model_copy(update={"version": "live"})


def test_nothing_is_promoted_where_live_has_results_and_this_home_knows_nothing_of_it(homes: TwoHomes) -> None:
    replayed(homes.other)
    topics.create(live_of(homes.own))
    append(live_of(homes.own), "statistics")
    with pytest.raises(InputError, match=r"serves, as .*this home, .*KAPPA_HOME") as refused:
        promote.plan(live_of(homes.other), homes.other.version)
    assert "\n" not in str(refused.value)
    assert other_homes.filled_topics(live_of(homes.other)) == [live_of(homes.own).topic("statistics")]
    assert not serving.file_of(homes.other.home).exists()


def test_nothing_is_promoted_nor_are_aliases_set_where_readers_are_shown_a_version_of_another_home(
    homes: TwoHomes,
) -> None:
    homes.show()
    candidate = homes.other.model_copy(update={"version": f"{homes.other.version}b"})
    replayed(candidate)
    for version in (candidate.version, "live"):
        with pytest.raises(InputError, match=r"serves, as readers are shown it.*`kappa replay promote "):
            promote.plan(live_of(homes.other), version)
    shown = other_homes.shown_versions(homes.client)
    assert shown[homes.own.version] is True
    assert candidate.version not in shown


def test_a_version_that_served_for_a_time_does_not_count_as_serving(homes: TwoHomes) -> None:
    homes.show({"range": {"novelty.window_end": {"lte": 5, "format": "epoch_millis"}}})
    assert other_homes.shown_versions(homes.client)[homes.own.version] is False


def test_who_has_lost_the_home_lets_the_version_serve_that_readers_are_shown_and_that_runs_here(
    homes: TwoHomes,
) -> None:
    """Live had served before it, and its topics still hold records."""
    homes.show()
    topics.create(live_of(homes.own))
    append(live_of(homes.own), "statistics")
    pin_configuration(homes.other)
    homes.other.checkpoint("detect").mkdir(parents=True)
    assert promote.plan(live_of(homes.other), homes.other.version).first
