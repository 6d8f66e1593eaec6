"""The manifest of an earlier replay as the request of a new one: range, configuration, and the savepoint that it began from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.core.errors import SettingsError
from app.core.settings import Settings, checked
from app.kafka.partitions import by_topic
from app.versions import replay_manifest
from app.versions.pinned_configuration import model_settings
from app.versions.replay_manifest import ReplayManifest, SavepointReference, Slice
from pipelines.errors import InputError
from pipelines.state import savepoint_format
from pipelines.windowing import WindowingConfig
from replay.savepoints import savepoint_folder
from replay.slices import RequestedRange, offsets_given


def parsed(settings: Settings, file: Path, record: Mapping[str, Any]) -> tuple[Settings, ReplayManifest]:
    """The manifest in a file that a user names, and the settings with the configuration in it.

    Raises InputError where it is no manifest of this release.
    """
    try:
        manifest = ReplayManifest.of(record)
        return checked(configured(settings, manifest.configuration)), manifest
    except KeyError as error:
        raise InputError(no_manifest(file, f"it has no {error}")) from error
    except (AttributeError, TypeError, ValueError, SettingsError) as error:
        raise InputError(no_manifest(file, str(error))) from error


def no_manifest(file: Path, why: str) -> str:
    return f"replay: --manifest {file} cannot be followed: {why}; wanted manifest.json of an earlier replay"


def configured(settings: Settings, configuration: Mapping[str, Any]) -> Settings:
    """Settings with the configuration that a run depended on."""
    return settings.model_copy(
        update={
            **model_settings(configuration),
            "windowing": WindowingConfig(**configuration["windowing"]),
            "topics": settings.topics.model_copy(update=dict(configuration["topics"])),
            "spark": settings.spark.model_copy(update=dict(configuration["spark"])),
        }
    )


def range_of(settings: Settings, whole: Slice) -> RequestedRange:
    """The range of an earlier run. Raises InputError where it is of other topics."""
    begins, ends = (offsets_given(settings, by_topic(side), "--manifest") for side in (whole.begins, whole.ends))
    return RequestedRange(whole.after, whole.until, None if whole.after is not None else begins, ends)


def savepoint_of(settings: Settings, earlier: ReplayManifest) -> Path | None:
    """The folder of the savepoint that an earlier run began from; where it is gone, the one that the run has kept.

    Raises InputError where there is neither, or its content has changed since.
    """
    return None if earlier.savepoint is None else begun_from(settings, earlier.version, earlier.savepoint)


def savepoint_named(settings: Settings, name: str) -> Path:
    """The folder of a savepoint of a name; where it is gone, and the version's replay began from it, the one that the replay has kept."""
    earlier = replay_manifest.read(settings)
    kept = None if earlier is None else earlier.savepoint
    if kept is None or kept.name != name:
        return savepoint_folder.find(settings.home, name)
    return begun_from(settings, settings.version, kept)


def begun_from(settings: Settings, version: str, kept: SavepointReference) -> Path:
    """As `savepoint_of`, of the replay of a version."""
    there = savepoint_folder.savepoints_folder(settings.home) / kept.name
    own = replay_manifest.begin_folder(settings.model_copy(update={"version": version}))
    folder = own if own.is_dir() and not there.is_dir() else savepoint_folder.find(settings.home, kept.name)
    found = savepoint_format.read_manifest(folder)["hash"]
    if found != kept.hash:
        msg = f"savepoint {kept.name} has hash {found[:12]}, the manifest names {kept.hash[:12]}; wanted the same one"
        raise InputError(msg)
    return folder
