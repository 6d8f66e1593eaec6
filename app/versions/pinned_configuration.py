"""The configuration that results depend on: kept when a version starts, and the same for as long as the version lives.

home/checkpoints/VERSION/configuration.json    windowing, detection, correlation, limits, rules, partitions
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.core.atomic_files import read_json_object, write_json_durably
from app.core.report import Report, silent
from app.core.settings import ControlSettings, Settings, dotted_names, toml_text
from app.versions import replay_manifest
from models.core.limits import LimitParameters
from models.core.parameters import DetectorParameters
from models.incidents.parameters import CorrelationParameters
from models.rules.rule import rules_of
from pipelines.errors import InputError, OfAnotherRelease
from pipelines.windowing import WindowingConfig


def configuration_of(settings: Settings) -> dict[str, Any]:
    """The part of the settings that results depend on, as JSON types."""
    detection = dataclasses.asdict(settings.detector)
    detection.pop("limits")  # of a shard: they follow from those of the fleet
    control = {"rules": detection.pop("rules")}
    rules_from = detection.pop("rules_from")
    if rules_from:
        control["rules_from"] = rules_from
    found: dict[str, Any] = json.loads(
        json.dumps(
            {
                "windowing": dataclasses.asdict(settings.windowing),
                "control": control,
                "detection": detection,
                "correlation": dataclasses.asdict(settings.correlation),
                "limits": dataclasses.asdict(settings.limits),
                "topics": {
                    "telemetry_partitions": settings.topics.telemetry_partitions,
                    "logs_partitions": settings.topics.logs_partitions,
                },
                "spark": {"shuffle_partitions": settings.spark.shuffle_partitions},
            }
        )
    )
    return found


def pin_configuration(settings: Settings) -> Path:
    """Keep the configuration of a version at its first start; compare with what was kept at every other.

    Parameters
    ----------
    settings
        Those of the version.

    Returns
    -------
    Path
        The file where the configuration is kept.

    Raises
    ------
    InputError
        The configuration is not the one that the version began with. Results would then be such that no replay can give
        them again.
    """
    check_configuration(settings)
    if read_pinned(settings) is None:
        write_json_durably(settings.configuration_file, configuration_of(settings))
    return settings.configuration_file


def check_configuration(settings: Settings) -> None:
    """Raise InputError where the configuration is not the one that the version began with, by its jobs or its replay.

    Raises OfAnotherRelease where one of the two has a setting that the other one lacks.
    """
    before = pinned_or_replayed(settings)
    if before is None:
        return
    with reading(settings.version):
        different = describe_difference(before, configuration_of(settings))
    if different:
        msg = (
            f"version {settings.version} began with {different}; results would no longer be a replay's: set it back, or use another version "
            f"name (kept in {settings.configuration_file})"
        )
        raise InputError(msg)


def describe_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In which settings, as the file has them, a configuration differs from the one of before; empty where in none.

    Raises ValueError where one of the two has a setting that the other one lacks.
    """
    old, new = (dict(dotted_names(normal(one))) for one in (before, now))
    check_same_keys(old, new)
    different = sorted(key for key in old if old[key] != new[key])
    if not different:
        return ""
    key, more = different[0], f" (and {len(different) - 1} more)" if len(different) > 1 else ""
    return f"{key} = {toml_text(old[key])}, the settings say {toml_text(new[key])}{more}"


def normal(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose rules have the keys that are not at their default. Raises ValueError for a key that this release does not have."""
    control = {"rules_from": 0, "rules": (), **configuration.get("control", {})}
    rules = [
        {key.name: value for key in dataclasses.fields(rule) if (value := getattr(rule, key.name)) != key.default}
        for rule in rules_of(control["rules"])
    ]
    return {**configuration, "control": {**control, "rules": rules}}


def check_same_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise ValueError where one of two configurations, by dotted names, has a key that the other one lacks."""
    for keys, what in ((old.keys() - new.keys(), "is no setting of it"), (new.keys() - old.keys(), "is missing")):
        if keys:
            msg = f"{min(keys)} {what}"
            raise ValueError(msg)


def read_pinned(settings: Settings) -> dict[str, Any] | None:
    """The configuration that is kept beside the checkpoints of the settings' version; None where there is none."""
    return read_json_object(settings.configuration_file)


def pinned_or_replayed(settings: Settings) -> dict[str, Any] | None:
    """The configuration that the settings' version began with, by its jobs, else by its replay; None if it never began."""
    own = read_pinned(settings)
    if own is not None:
        return own
    replayed = replay_manifest.read(settings)
    return None if replayed is None else dict(replayed.configuration)


def started_versions(settings: Settings) -> list[str]:
    """The versions that keep a configuration beside their checkpoints, sorted."""
    file = settings.configuration_file
    return sorted(kept.parent.name for kept in file.parent.parent.glob(f"*/{file.name}"))


def with_pinned_models(settings: Settings, version: str, report: Report = silent) -> Settings:
    """Settings of a version, with the models' parameters, rules and shuffle partitions that it began with.

    Reports where these are not those of the settings. What else a version depends on is left as it is: `pin_configuration`
    compares it when the version's jobs start. Raises OfAnotherRelease where it has parameters that this release does not have.
    """
    own = settings.model_copy(update={"version": version})
    kept = pinned_or_replayed(own)
    if kept is None:
        return own
    with reading(version):
        spark = own.spark.model_copy(update={"shuffle_partitions": kept["spark"]["shuffle_partitions"]})
        begun = own.model_copy(update={**model_settings(kept), "spark": spark})
        different = describe_difference(configuration_of(begun), configuration_of(own))
    if different:
        report(f"version {version} goes on with what it began with: {different}")
    return begun


def as_begun(settings: Settings) -> Settings:
    """Settings with the windowing and the models' parameters that the version began with; its state depends on them.

    Raises OfAnotherRelease as `with_pinned_models` does.
    """
    kept = read_pinned(settings)
    if kept is None:
        return settings
    with reading(settings.version):
        return settings.model_copy(update={"windowing": WindowingConfig(**kept["windowing"]), **model_settings(kept)})


@contextmanager
def reading(version: str) -> Iterator[None]:
    """Raises OfAnotherRelease where the configuration of a version, made into settings in the block, is one of another release."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        msg = (
            f"version {version} began with a configuration that this release does not read ({error}): go on with the release that began it, or "
            "replay the log under another --version, and promote that"
        )
        raise OfAnotherRelease(msg) from error


def model_settings(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the models that a version began with: `detection`, `control`, `correlation` and `limits`."""
    control = kept.get("control", {})
    rules = ControlSettings(rules=rules_of(control.get("rules", ())), rules_from=control.get("rules_from", 0))
    return {
        "detection": DetectorParameters(**kept["detection"]),
        "control": rules,
        "correlation": CorrelationParameters(**kept["correlation"]),
        "limits": LimitParameters(**kept.get("limits", {})),
    }
