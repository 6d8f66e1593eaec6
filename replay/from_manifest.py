"""What the manifest of an earlier replay gives to a new one: range, configuration, and the savepoint that it began from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.core.errors import SettingsError
from app.core.settings import Settings, checked
from app.versions.serving import models_of
from pipelines.errors import InputError
from pipelines.state import savepoint_format
from pipelines.windowing import WindowingConfig
from replay.run import FORMAT
from replay.savepoints import savepoint_folder
from replay.slices import Asked, Slice, nested, offsets_given


def settings_by(settings: Settings, file: Path, manifest: Mapping[str, Any]) -> Settings:
    """Settings with what the earlier run depended on. Raises InputError where that is no manifest of this release."""
    try:
        if manifest["format"] != FORMAT:
            msg = f"format {manifest['format']!r}, wanted {FORMAT}"
            raise ValueError(msg)
        Slice.of(manifest["whole"])
        if manifest["savepoint"] is not None:
            _ = manifest["savepoint"]["name"], manifest["savepoint"]["hash"]
        return checked(configured(settings, manifest["configuration"]))
    except KeyError as error:
        raise InputError(no_manifest(file, f"it has no {error}")) from error
    except (AttributeError, TypeError, ValueError, SettingsError) as error:
        raise InputError(no_manifest(file, str(error))) from error


def no_manifest(file: Path, why: str) -> str:
    return f"replay: --manifest {file} cannot be followed: {why}; wanted manifest.json of an earlier replay"


def configured(settings: Settings, configuration: Mapping[str, Any]) -> Settings:
    """Settings with what a run depended on."""
    return settings.model_copy(
        update={
            **models_of(configuration),
            "windowing": WindowingConfig(**configuration["windowing"]),
            "topics": settings.topics.model_copy(update=dict(configuration["topics"])),
            "spark": settings.spark.model_copy(update=dict(configuration["spark"])),
        }
    )


def range_by(settings: Settings, manifest: Mapping[str, Any]) -> Asked:
    """The range of the earlier run. Raises InputError where it is of other topics."""
    whole = Slice.of(manifest["whole"])
    begins, ends = (offsets_given(settings, nested(side), "--manifest") for side in (whole.begins, whole.ends))
    return Asked(whole.after, whole.until, None if whole.after is not None else begins, ends)


def savepoint_by(settings: Settings, manifest: Mapping[str, Any]) -> Path | None:
    """The savepoint that the earlier run began from. Raises InputError where it is not that any more."""
    kept = manifest["savepoint"]
    if kept is None:
        return None
    folder = savepoint_folder.find(settings.home, kept["name"])
    found = savepoint_format.read_manifest(folder)["hash"]
    if found != kept["hash"]:
        msg = f"savepoint {kept['name']} has hash {found[:12]}, the manifest names {kept['hash'][:12]}; wanted the same one"
        raise InputError(msg)
    return folder
