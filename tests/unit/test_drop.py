"""A version that is half dropped counts as none: what is left of it is not gone on with, and is dropped by the same command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.core.settings import Settings
from app.versions import locks, replay_manifest, serving
from app.versions.pinned_configuration import configuration_of, pin_configuration
from app.versions.replay_manifest import ReplayManifest, Slice, SliceResult
from app.versions.serving import Serving
from pipelines.errors import InputError, ServiceUnavailable
from replay import drop, other_homes, run
from replay.savepoints import savepoint_folder
from replay.slices import RequestedRange


class Topics:
    """What is asked of Kafka, which has no topic of the version."""

    def list_topics(self) -> list[str]:
        return []

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def delete_topics(self, names: list[str]) -> None:
        self.deleted += names


def half_replayed(settings: Settings) -> None:
    first, second = (Slice(after, until, {}, {}) for after, until in ((None, 10_000), (10_000, 20_000)))
    made = ReplayManifest(
        "v2",
        "0.1.0",
        {},
        configuration_of(settings),
        {},
        None,
        Slice(None, 20_000, {}, {}),
        (first, second),
        (SliceResult({}, {}, 1.0),),
    )
    replay_manifest.write(settings, made)


def test_a_version_of_which_not_all_could_be_dropped_is_dropped_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, version="v2")
    half_replayed(settings)
    pin_configuration(settings)
    folders = [replay_manifest.folder_of(settings), settings.checkpoint("detect").parent]
    there = {"topics": ["scores.v2"], "indices": ["kappa-scores-v2-2026.01.05"], "folders": [*map(str, folders)]}
    kafka: Any = Topics()
    elastic: Any = None

    def refuse(client: object, version: str) -> None:
        msg = f"Elasticsearch: cannot drop the indices of {version} (403)"
        raise ServiceUnavailable(msg)

    with monkeypatch.context() as refusing:
        refusing.setattr(drop, "drop_version", refuse)
        with pytest.raises(ServiceUnavailable):
            drop.delete_resources(there, kafka, elastic, "v2")
    assert kafka.deleted == [], "records stay as long as there are documents of them"
    assert replay_manifest.replayed_versions(tmp_path) == []
    monkeypatch.setattr(other_homes, "filled_topics", lambda _: ["scores.v2"])
    with pytest.raises(InputError, match=r"scores.v2 hold records of version v2.*`kappa replay drop v2`"):
        run.plan(settings, RequestedRange())

    drop.check_own(settings, there, shown=False)
    monkeypatch.setattr(drop, "drop_version", lambda client, version: [])
    drop.delete_resources(there, kafka, elastic, "v2")
    assert kafka.deleted == ["scores.v2"]
    assert not any(folder.exists() for folder in folders)


def test_a_version_that_is_promoted_while_another_operator_drops_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, version="v2")
    half_replayed(settings)

    @contextmanager
    def once_promoted(*_: object) -> Iterator[None]:
        serving.write(tmp_path, Serving().then("v2", 10_000))
        yield

    monkeypatch.setattr(locks, "only_here", once_promoted)
    with pytest.raises(InputError, match="version v2 serves; wanted one that never did"):
        drop.drop(settings, yes=True)
    assert replay_manifest.read(settings) is not None


def test_savepoints_that_a_version_has_taken_by_itself_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, version="v2")
    half_replayed(settings)
    names = ("auto-v2-20260105T120000Z", "auto-v22-20260105T120000Z", "auto-live-20260105T120000Z", "before-upgrade")
    for name in names:
        (tmp_path / "savepoints" / name).mkdir(parents=True)
    monkeypatch.setattr(drop, "indices_with_alias", lambda *_: [])
    monkeypatch.setattr(drop, "drop_version", lambda *_: [])
    kafka: Any = Topics()
    elastic: Any = None
    there = drop.find_resources(settings, kafka, elastic)
    assert there["folders"] == [str(replay_manifest.folder_of(settings)), str(tmp_path / "savepoints" / names[0])]
    drop.delete_resources(there, kafka, elastic, "v2")
    assert savepoint_folder.list_names(tmp_path) == sorted(names[1:])
