"""The options of `kappa replay` as a request to `replay.start`, and its progress on a terminal."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import TextColumn

from app.cli.connection import connected
from app.cli.output import progress_bar, report
from app.core.settings import Settings, load
from app.core.timestamps import iso, milliseconds, wall_clock
from app.versions import replay_manifest
from app.versions.replay_manifest import ReplayManifest
from pipelines.errors import InputError
from pipelines.windowing import MILLIS, next_window_end
from replay import from_manifest
from replay.known_rules import with_known_rules
from replay.run import OnProgress, ReplayProgress, with_lateness
from replay.slices import RequestedRange, parse_offsets
from replay.start import ReplayRequest, make_plan, start

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}  # seconds

Options = Mapping[str, str | None]  # the options that say where to begin and to end, by name


def run(
    config: Path | None,
    version: str,
    given: Options,
    *,
    lateness: int | None,
    include_late: bool,
    rules_as_known_now: bool,
    partitions: int | None,
    index: bool,
    dry_run: bool,
) -> dict[str, Any]:
    """Run a replay as the command line asks for it, or only resolve it. Raises InputError for what cannot be run."""
    check_given(given)
    settings, request = requested(load(config, version=version), given)
    request = dataclasses.replace(request, include_late=include_late, partitions=partitions, index=index)
    settings = connected(settings, ("kafka", "elasticsearch") if index else ("kafka",))
    if lateness is not None:
        settings = with_lateness(settings, lateness)
    if rules_as_known_now:
        if given["manifest"] is not None:
            msg = "replay: --manifest has rules of its own; leave --rules-as-known-now out"
            raise InputError(msg)
        settings = with_known_rules(settings)
    if dry_run:
        return dry(settings, request)
    with saying_what_is_left(settings):
        return start(settings, request, progress(), report)


@contextmanager
def saying_what_is_left(settings: Settings) -> Iterator[None]:
    """Where a signal ends the block, say how far the run has come, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        left = replay_manifest.read(settings)
        if left is not None:
            report(f"stopped: version {settings.version} has {done_of(left)}; the same command goes on from there")
        raise


def done_of(manifest: ReplayManifest) -> str:
    """What a run has done, for people."""
    if manifest.complete:
        return "all its results" + ("" if manifest.indexed else ", which are not indexed yet")
    return f"the results of {len(manifest.results)} of {len(manifest.slices)} slices"


def check_given(given: Mapping[str, str | None]) -> None:
    """Raise InputError for two beginnings or two ends."""
    begins = [name for name in ("from_time", "from_offsets", "savepoint", "manifest") if given[name] is not None]
    ends = [name for name in ("to_time", "to_offsets", "manifest") if given[name] is not None]
    for names in (begins, ends):
        if len(names) > 1:
            both = " and ".join(option(name) for name in names)
            msg = f"replay: {both} cannot be given together; wanted one of them"
            raise InputError(msg)


def dry(settings: Settings, request: ReplayRequest) -> dict[str, Any]:
    """What would be read."""
    whole = make_plan(settings, request, report).whole
    return {"version": settings.version, "dry_run": True, "events": whole.events, **whole.record()}


def requested(settings: Settings, given: Mapping[str, str | None]) -> tuple[Settings, ReplayRequest]:
    """The options as a request, and the settings; with `--manifest` both are those of the earlier run."""
    if given["manifest"] is not None:
        file = Path(given["manifest"])
        settings, earlier = from_manifest.read_request(settings, file, read_json("--manifest", given["manifest"]))
        whole = dataclasses.replace(
            from_manifest.requested_range(settings, earlier.whole), quarantine_until=earlier.quarantine
        )
        return settings, ReplayRequest(whole, from_manifest.starting_savepoint(settings, earlier))
    begin = None if given["savepoint"] is None else from_manifest.savepoint_named(settings, given["savepoint"])
    return settings, ReplayRequest(range_given(settings, given), begin)


def range_given(settings: Settings, given: Mapping[str, str | None]) -> RequestedRange:
    """Times and offsets on the command line. Times back from now are those of the version's first start, so that the same arguments go on with it."""
    earlier = replay_manifest.read(settings)
    asked = wall_clock() if earlier is None or earlier.asked_ms is None else earlier.asked_ms
    from_offsets, to_offsets = (
        None
        if (text := given[name]) is None
        else parse_offsets(settings, read_json(option(name), text), f"replay: {option(name)}")
        for name in ("from_offsets", "to_offsets")
    )
    from_time, to_time = (
        None if (text := given[name]) is None else moment_of(option(name), text, asked)
        for name in ("from_time", "to_time")
    )
    first_window = None if from_time is None else next_window_end(settings.windowing, from_time)
    return RequestedRange(first_window, to_time, from_offsets, to_offsets, asked_ms=asked)


def option(name: str) -> str:
    """How an option is written."""
    return "--" + name.replace("_", "-")


def read_json(option: str, text: str) -> dict[str, Any]:
    """JSON given as such, or in a file. Raises InputError."""
    given = text
    if not text.lstrip().startswith("{"):
        try:
            given = Path(text).read_text()
        except OSError as error:
            msg = f"replay: {option}: no file {text!r} ({error.strerror}); wanted JSON, or a file of JSON"
            raise InputError(msg) from error
        except UnicodeDecodeError as error:
            msg = f"replay: {option}: {text!r} is no text in UTF-8; wanted JSON, or a file of JSON"
            raise InputError(msg) from error
    try:
        found = json.loads(given)
    except (ValueError, RecursionError) as error:
        msg = f"replay: {option}: {error}; wanted a JSON object"
        raise InputError(msg) from error
    if not isinstance(found, dict):
        msg = f"replay: {option}: got {type(found).__name__}, wanted a JSON object"
        raise InputError(msg)
    return found


def moment_of(option: str, text: str, now: int) -> int:
    """Epoch milliseconds of ISO 8601 with a zone, or of a time back from now (epoch ms) such as `14d`, to 1970 at most."""
    back = re.fullmatch(r"-?(\d{1,9})([smhd])", text)
    if back:
        return max(0, now - int(back[1]) * UNITS[back[2]] * MILLIS)
    return milliseconds(f"replay: {option}", text, ", or 14d, 2h, 30m back from now")


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[OnProgress]:
    """Slices, up to which event time, events and events a second: a bar on stderr where that is a terminal, else a line for each stage.

    The rate is that of this run: events of an earlier one, which it goes on with, do not count.
    """
    began, earlier = clock(), None
    with progress_bar(TextColumn("events {task.fields[rate]}")) as bar:
        task = bar.add_task("replay", total=None, rate="")

        def on_progress(at: ReplayProgress) -> None:
            nonlocal earlier
            seconds = max(0.001, clock() - began)
            earlier = at.events if earlier is None else earlier
            doing = f"slice {min(at.done + 1, at.slices)} of {at.slices}, to {iso(at.until)}: {at.doing}"
            rate = f"{(at.events - earlier) / seconds:,.0f}/s" if at.events > earlier else ""
            bar.update(task, description=doing, total=at.all_events, completed=at.events, rate=rate)
            if bar.disable:
                report(f"{doing}; {at.events:,} of {at.all_events:,} events {rate}".rstrip())

        yield on_progress
