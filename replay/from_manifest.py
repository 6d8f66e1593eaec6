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
from replay.slices import RequestedRange, parse_offsets


def read_request(settings: Settings, file: Path, record: Mapping[str, Any]) -> tuple[Settings, ReplayManifest]:
    """Read the manifest of an earlier replay from its JSON; returns the settings with its configuration, and the manifest.

    Raises InputError for what is not a manifest of this release.
    """
    try:
        manifest = ReplayManifest.of(record)
        return checked(with_configuration(settings, manifest.configuration)), manifest
    except KeyError as error:
        raise InputError(no_manifest_message(file, f"it has no {error}")) from error
    except (AttributeError, TypeError, ValueError, SettingsError) as error:
        raise InputError(no_manifest_message(file, str(error))) from error


def no_manifest_message(file: Path, why: str) -> str:
    """The message for a file that is not a manifest of this release."""
    return f"replay: --manifest {file} cannot be followed: {why}; wanted manifest.json of an earlier replay"


def with_configuration(settings: Settings, configuration: Mapping[str, Any]) -> Settings:
    """Settings with the configuration that a run depended on."""
    return settings.model_copy(
        update={
            **model_settings(configuration),
            "windowing": WindowingConfig(**configuration["windowing"]),
            "topics": settings.topics.model_copy(update=dict(configuration["topics"])),
            "spark": settings.spark.model_copy(update=dict(configuration["spark"])),
        }
    )


def requested_range(settings: Settings, whole: Slice) -> RequestedRange:
    """The range of an earlier run. Raises InputError where it is of other topics."""
    begins, ends = (parse_offsets(settings, by_topic(side), "--manifest") for side in (whole.begins, whole.ends))
    return RequestedRange(whole.after, whole.until, None if whole.after is not None else begins, ends)


def starting_savepoint(settings: Settings, earlier: ReplayManifest) -> Path | None:
    """The folder of the savepoint that an earlier run began from; where it is gone, the one that the run has kept.

    Raises InputError where there is neither, or its content has changed since.
    """
    return None if earlier.savepoint is None else find_savepoint(settings, earlier.version, earlier.savepoint)


def savepoint_named(settings: Settings, name: str) -> Path:
    """The folder of a savepoint of a name; where it is gone, and the version's replay began from it, the one that the replay has kept."""
    earlier = replay_manifest.read(settings)
    kept = None if earlier is None else earlier.savepoint
    if kept is None or kept.name != name:
        return savepoint_folder.find(settings.home, name)
    return find_savepoint(settings, settings.version, kept)


def find_savepoint(settings: Settings, version: str, kept: SavepointReference) -> Path:
    """The folder of the savepoint that the replay of a version began from, or of the copy that the replay keeps. Raises InputError without either."""
    there = savepoint_folder.savepoints_folder(settings.home) / kept.name
    own = replay_manifest.begin_folder(settings.model_copy(update={"version": version}))
    folder = own if own.is_dir() and not there.is_dir() else savepoint_folder.find(settings.home, kept.name)
    found = savepoint_format.read_manifest(folder)["hash"]
    if found != kept.hash:
        msg = f"savepoint {kept.name} has hash {found[:12]}, the manifest names {kept.hash[:12]}; wanted the same one"
        raise InputError(msg)
    return folder
