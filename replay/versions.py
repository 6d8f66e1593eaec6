"""Removes a version: its topics, indices, checkpoints and replay."""

from __future__ import annotations

import shutil

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.connection import admin_client
from app.runtime import jobs
from app.search.connection import elasticsearch_connection
from app.search.mappings import drop_version, holders
from app.versions import locks, serving
from app.versions.replay_manifest import folder_of
from models.records.index_names import INDEX_KINDS, alias_of
from pipelines.errors import InputError


def drop(settings: Settings, *, yes: bool) -> dict[str, list[str]]:
    """Remove the topics, indices and folders of the settings' version; without `yes` only say which they are.

    Raises InputError for version `live`, for one that serves or served, for one whose jobs run, or that is replayed now, and for one of
    which there is nothing.
    """
    version = settings.version
    if version == "live":
        msg = (
            "version live cannot be dropped: the live jobs write it; promote another one first, or stop using this home"
        )
        raise InputError(msg)
    served = serving.read(settings.home)
    if version in served.versions:
        does = "serves" if version == served.version else "served for a time, and its results of that time are shown"
        msg = f"version {version} {does}; wanted one that never did: `kappa replay list` shows when versions served"
        raise InputError(msg)
    if not yes:
        return found(settings, yes=False)
    with locks.only_here(settings, jobs.NAMES):
        return found(settings, yes=True)


def found(settings: Settings, *, yes: bool) -> dict[str, list[str]]:
    """What there is of a version; with `yes` it is removed. Raises InputError where there is nothing."""
    version = settings.version
    client = admin_client(settings)
    elastic = elasticsearch_connection(settings).connect()
    try:
        wanted = [settings.topic(kind) for kind in topics.OUTPUTS]
        there = sorted(set(client.list_topics()) & set(wanted))
        indices = sorted({name for kind in INDEX_KINDS for name in holders(elastic, alias_of(kind, version))})
        folders = [folder for folder in (folder_of(settings), settings.checkpoint("detect").parent) if folder.is_dir()]
        gone = {"topics": there, "indices": indices, "folders": [str(folder) for folder in folders]}
        if not any(gone.values()):
            msg = f"there is nothing of version {version}: no topic, index or folder; see `kappa replay list`"
            raise InputError(msg)
        if yes:
            if there:
                client.delete_topics(there)
            drop_version(elastic, version)
            for folder in folders:
                shutil.rmtree(folder)
        return gone
    finally:
        client.close()
        elastic.close()
