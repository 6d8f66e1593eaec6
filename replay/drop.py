"""Removes a version: its topics, indices, checkpoints, replay, and the savepoints that it has taken by itself."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from elasticsearch import Elasticsearch
from kafka import KafkaAdminClient

from app.core.atomic_files import sync_to_disk
from app.core.settings import CONFIGURATION, Settings
from app.core.timestamps import wall_clock
from app.kafka import topics
from app.kafka.connection import open_admin
from app.runtime import jobs
from app.search.connection import elasticsearch_connection
from app.search.mappings import drop_version, indices_with_alias
from app.versions import locks, serving
from app.versions.replay_manifest import FILE, folder_of
from app.versions.start_position import folders_aside
from models.records.index_names import INDEX_KINDS, alias_of
from pipelines.errors import InputError
from replay import other_homes
from replay.savepoints import savepoint_folder
from replay.savepoints.periodic import automatic_names


def drop(settings: Settings, *, yes: bool) -> dict[str, list[str]]:
    """Remove the topics, indices and folders of the settings' version; without `yes` only say which they are.

    Raises InputError for version `live`, for one that serves or served, for one whose jobs run, or that is replayed now, for one of
    which there is nothing, and for one of which this home has nothing.
    """
    version = settings.version
    if version == "live":
        msg = (
            "version live cannot be dropped: it serves, or served before the first promotion, and its results are shown"
        )
        raise InputError(msg)
    check_never_served(settings)
    with ExitStack() as stack:
        if yes:
            stack.enter_context(locks.only_here(settings, [*jobs.NAMES, locks.REPLAY]))
            check_never_served(settings)  # it may have been promoted meanwhile
        client = stack.enter_context(open_admin(settings))
        elastic = stack.enter_context(closing(elasticsearch_connection(settings).connect()))
        there = find_resources(settings, client, elastic)
        check_own(settings, there, shown=version in other_homes.shown_versions(elastic))
        if yes:
            delete_resources(there, client, elastic, version)
        return there


def check_never_served(settings: Settings) -> None:
    """Raise InputError for a version that serves or served."""
    version, served = settings.version, serving.read(settings.home)
    if version in served.versions:
        does = "serves" if version == served.version else "served for a time, and its results of that time are shown"
        msg = f"version {version} {does}; wanted one that never did: `kappa replay list` shows when versions served"
        raise InputError(msg)


def find_resources(settings: Settings, client: KafkaAdminClient, elastic: Elasticsearch) -> dict[str, list[str]]:
    """Names of the `topics`, `indices` and `folders` of a version. Raises InputError where there is none."""
    version = settings.version
    wanted = {settings.topic(kind) for kind in topics.OUTPUTS}
    indices = {name for kind in INDEX_KINDS for name in indices_with_alias(elastic, alias_of(kind, version))}
    own = [savepoint_folder.savepoints_folder(settings.home) / name for name in automatic_names(settings, wall_clock())]
    folders = [folder_of(settings), settings.checkpoint("detect").parent, *folders_aside(settings), *own]
    there = {
        "topics": sorted(wanted & set(client.list_topics())),
        "indices": sorted(indices),
        "folders": [str(folder) for folder in folders if folder.is_dir()],
    }
    if not any(there.values()):
        msg = f"there is nothing of version {version}: no topic, index or folder; see `kappa replay list`"
        raise InputError(msg)
    return there


def check_own(settings: Settings, there: Mapping[str, list[str]], *, shown: bool) -> None:
    """Raise InputError for a version that belongs to another home: readers are `shown` it, or there are no folders of it here."""
    version, home = settings.version, settings.home
    elsewhere = f"drop it with {other_homes.OF_JOBS}, this one is {home}"
    if shown:
        serves = serving.read(home).version
        msg = (
            f"version {version} is what readers are shown: its indices have the aliases of the versions that serve or served; {elsewhere}; "
            f"if that home is lost, `kappa replay promote {serves}` gives the aliases to what serves here"
        )
        raise InputError(msg)
    if not there["folders"]:
        msg = (
            f"version {version} has {len(there['topics'])} topics and {len(there['indices'])} indices, and was neither replayed nor run in "
            f"this home; {elsewhere}; if that home is lost, `mkdir -p {folder_of(settings)}` makes it one of this home, then drop it"
        )
        raise InputError(msg)


def delete_resources(
    what: dict[str, list[str]], client: KafkaAdminClient, elastic: Elasticsearch, version: str
) -> None:
    """Delete the resources of a version that `find_resources` has found.

    The files by which the home knows the version go first, its folders last: where this is interrupted, no replay goes on
    with the version or begins it among what is left, and the same command removes the rest.
    """
    folders = [Path(folder) for folder in what["folders"]]
    for folder in folders:
        for name in (FILE, CONFIGURATION):
            (folder / name).unlink(missing_ok=True)
        sync_to_disk(folder)
    drop_version(elastic, version)
    if what["topics"]:
        client.delete_topics(what["topics"])
    for folder in folders:
        shutil.rmtree(folder)
