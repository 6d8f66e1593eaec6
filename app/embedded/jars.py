"""The jars of Kafka, Elasticsearch and Spark's Kafka connector: fetched once, and verified by their hashes.

    python -m app.embedded.jars [FOLDER]            fetch what is missing or damaged (default: .kappa/jars)
    python -m app.embedded.jars --lock [FOLDER]     write app/embedded/jars.toml again, after a change of versions in app/embedded/ivy.xml

pyspark ships Ivy, which resolves the four class paths of `ivy.xml` side by side into FOLDER/<conf>/. `jars.toml` holds
the sha256 of each jar, and its Maven group for the bill of materials: nothing else is ever put on a class path. A stamp with
sizes and times makes the check quick.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.core import private_files
from app.core.errors import StackError
from app.core.file_lock import file_lock
from app.core.report import Report
from app.embedded.java import server_java
from app.embedded.java_compiler import ensure_compiled
from app.embedded.java_network import network_options
from app.embedded.jvm import last_meaningful_line, pyspark_jar

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / ".kappa"  # of a checkout
IVY_FILE = Path(__file__).with_name("ivy.xml")
MANIFEST = Path(__file__).with_name("jars.toml")
CONFS = ("spark", "kafka", "elasticsearch", "netty")

_LOCK_WAIT_SECONDS = 900.0
_FETCH_SECONDS = 900.0
_PROGRESS_SECONDS = 10.0

Hashes = dict[str, dict[str, str]]  # conf -> file name -> sha256 in hex


@dataclass(frozen=True)
class Jars:
    """The class paths, each in the order of the manifest."""

    folder: Path
    spark: tuple[Path, ...]
    kafka: tuple[Path, ...]
    elasticsearch: tuple[Path, ...]
    netty: tuple[Path, ...]

    @classmethod
    def of(cls, folder: Path) -> "Jars":
        """Where the jars of the manifest are, or will be, below `folder`; nothing is checked."""
        paths = {conf: tuple(folder / conf / name for name in names) for conf, names in manifest().items()}
        return cls(folder=folder, **paths)


def manifest() -> Hashes:
    """The committed hashes."""
    return {conf: {name: jar["sha256"] for name, jar in jars.items()} for conf, jars in described().items()}


def described() -> dict[str, dict[str, dict[str, str]]]:
    """The manifest as it is: by conf and file name, the jar's `sha256` and Maven `group`."""
    found: dict[str, dict[str, dict[str, str]]] = tomllib.loads(MANIFEST.read_text())
    return found


def ensure_jars(folder: Path, report: Report, *, ivy_settings: Path | None = None) -> Jars:
    """Fetch the jars that are missing in `folder` or do not match their hashes.

    Quick where the stamp agrees with sizes and times of the files.
    `ivy_settings` names an Ivy settings file, for a mirror. Two processes may call it at once: one waits.
    StackError where a jar cannot be had, or is still another one than the manifest's after it was fetched again.
    """
    folder = folder.resolve()
    if _stamp_agrees(folder):
        return Jars.of(folder)
    with file_lock(folder / ".lock", _LOCK_WAIT_SECONDS) as held:
        if not held:
            msg = f"{folder}: another process has been fetching jars for {_LOCK_WAIT_SECONDS:.0f} s; try again later"
            raise StackError(msg)
        if not _stamp_agrees(folder):
            _mend(folder, report, ivy_settings)
    return Jars.of(folder)


def wrong_jars(folder: Path) -> list[str]:
    """Names (conf/file) of the jars that are missing or differ from the manifest. Reads every byte."""
    return [
        f"{conf}/{name}"
        for conf, names in manifest().items()
        for name, wanted in names.items()
        if _sha256(folder / conf / name) != wanted
    ]


def _mend(folder: Path, report: Report, ivy_settings: Path | None) -> None:
    """Fetch the wrong jars; the second time without Ivy's cache, which may hold the damaged ones."""
    wrong, trouble = wrong_jars(folder), ""
    for attempt in range(2):
        if not wrong:
            break
        confs = sorted({name.split("/")[0] for name in wrong})
        _report_damaged(folder, wrong, report)
        for name in wrong:
            (folder / name).unlink(missing_ok=True)
        if attempt:
            for conf in confs:
                shutil.rmtree(_cache(folder, conf), ignore_errors=True)
        trouble = _fetch(folder, confs, report, ivy_settings)
        wrong = wrong_jars(folder)
    if wrong:
        raise _not_mended(folder, wrong, trouble)
    # What is verified is not kept twice; an interrupted fetch, on the other hand, goes on from its cache.
    for conf in CONFS:
        shutil.rmtree(_cache(folder, conf), ignore_errors=True)
    _write_stamp(folder)


def _report_damaged(folder: Path, wrong: list[str], report: Report) -> None:
    damaged = [name for name in wrong if (folder / name).exists()]
    if damaged:
        report(f"jars: {len(damaged)} damaged ({', '.join(damaged[:3])}), fetching again")


def _not_mended(folder: Path, wrong: list[str], trouble: str) -> StackError:
    present = [name for name in wrong if (folder / name).exists()]
    for name in present:
        (folder / name).unlink(missing_ok=True)
    if present:
        what = f"{present[0]} is not the one that {MANIFEST.name} names, even when fetched again: ask who serves it"
    else:
        what = f"{len(wrong)} jars could not be fetched, the first {wrong[0]}: {trouble or 'Ivy gave no reason'}"
    return StackError(f"jars in {folder}: {what}; an Ivy settings file may name a mirror")


def _fetch(folder: Path, confs: list[str], report: Report, ivy_settings: Path | None) -> str:
    """Run Ivy for all confs at once. Returns its errors in a line, empty where there was none."""
    started = time.monotonic()
    wanted = sum(len(names) for conf, names in manifest().items() if conf in confs)
    report(f"fetching {wanted} jars for {', '.join(confs)} into {folder} (all: 100 MB, 1 to 2 minutes)")
    options = network_options(folder / "ivy")
    running = {conf: _start_ivy(folder, conf, options, ivy_settings) for conf in confs}
    try:
        _wait(folder, running, started, report)
    finally:
        for ivy in running.values():
            ivy.kill()
            ivy.wait()
    failed = [conf for conf, ivy in running.items() if ivy.returncode]
    report(f"fetching jars took {time.monotonic() - started:.0f} s")
    return "; ".join(f"{conf}: {_reason(_ivy_log(folder, conf))}" for conf in failed)


def _start_ivy(folder: Path, conf: str, options: Iterable[str], ivy_settings: Path | None) -> "subprocess.Popen[bytes]":
    settings = ["-settings", str(ivy_settings)] if ivy_settings else []
    command = [
        *(str(server_java()), "-Xmx256m", "-XX:-UsePerfData", *options),
        *("-jar", str(pyspark_jar("ivy-*.jar")), *settings, "-ivy", str(IVY_FILE), "-cache", str(_cache(folder, conf))),
        # "Always": a half-written jar of the same time as the right one would otherwise be left as it is.
        *("-confs", conf, "-types", "jar", "bundle", "-overwriteMode", "always"),
        *("-retrieve", str(folder / "[conf]" / "[artifact]-[revision].[ext]")),
    ]
    with _ivy_log(folder, conf).open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def _wait(folder: Path, running: dict[str, "subprocess.Popen[bytes]"], started: float, report: Report) -> None:
    """Wait until all have ended; report their progress every few seconds."""
    reported = started
    for conf, ivy in running.items():
        while True:
            with suppress(subprocess.TimeoutExpired):
                ivy.wait(1.0)
                break
            now = time.monotonic()
            if now - started > _FETCH_SECONDS:
                msg = f"fetching jars took more than {_FETCH_SECONDS:.0f} s: see {_ivy_log(folder, conf)}"
                raise StackError(msg)
            if now - reported >= _PROGRESS_SECONDS:
                reported = now
                report(_progress(folder, running, now - started))


def _progress(folder: Path, confs: Iterable[str], seconds: float) -> str:
    sizes = [jar.stat().st_size for conf in confs for jar in _cache(folder, conf).glob("**/*.jar")]
    return f"fetching jars: {len(sizes)} so far, {sum(sizes) / 1e6:.0f} MB, {seconds:.0f} s"


def _reason(log: Path) -> str:
    """The first error in Ivy's log, which says why; its last line only says that there was one."""
    with suppress(OSError):
        for line in log.read_text(errors="replace").splitlines():
            if "error" in line.lower() and "::" not in line:
                return line.strip()[:300]
    return last_meaningful_line(log)


def _cache(folder: Path, conf: str) -> Path:
    return folder / "ivy" / conf


def _ivy_log(folder: Path, conf: str) -> Path:
    return folder / "ivy" / f"{conf}.log"


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _stamp(folder: Path) -> dict[str, object]:
    """The stamp of the jars as they are now: the manifest's hash, size and time of each jar."""
    files = {}
    for conf, names in manifest().items():
        for name in names:
            facts = (folder / conf / name).stat()
            files[f"{conf}/{name}"] = [facts.st_size, facts.st_mtime_ns]
    return {"manifest": hashlib.sha256(MANIFEST.read_bytes()).hexdigest(), "files": files}


def _stamp_agrees(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "verified.json").read_text()) == _stamp(folder))
    except (OSError, ValueError):
        return False


def _write_stamp(folder: Path) -> None:
    path = folder / "verified.json"
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(_stamp(folder), indent=1))
    draft.replace(path)


def lock(folder: Path, report: Report) -> None:
    """Fetch whatever `ivy.xml` now resolves to into an empty `folder` and write the manifest from it."""
    folder = folder.resolve()
    trouble = _fetch(folder, list(CONFS), report, None)
    if trouble:
        msg = f"jars in {folder}: {trouble}; {MANIFEST.name} stays as it was"
        raise StackError(msg)
    lines = [
        "# Each jar by class path: its SHA-256 and its Maven group. Written by `python -m app.embedded.jars --lock`.\n"
    ]
    for conf in CONFS:
        lines.append(f"\n[{conf}]\n")
        groups = _groups(folder, conf)
        for jar in sorted((folder / conf).glob("*.jar")):
            lines.append(f'"{jar.name}" = {{ sha256 = "{_sha256(jar)}", group = "{groups[jar.name]}" }}\n')
    MANIFEST.write_text("".join(lines))


def _groups(folder: Path, conf: str) -> dict[str, str]:
    """The Maven group of each jar of a class path, as Ivy's report of its resolution has it."""
    report = ET.parse(_cache(folder, conf) / f"kappa-jars-{conf}.xml")
    return {
        f"{artifact.get('name')}-{revision.get('name')}.{artifact.get('ext')}": module.get("organisation", "")
        for module in report.iter("module")
        for revision in module.iter("revision")
        for artifact in revision.iter("artifact")
    }


def main(arguments: list[str]) -> int:
    """The command line that `make setup` calls."""

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    parser = argparse.ArgumentParser(
        prog="python -m app.embedded.jars",
        description="Fetch the jars of Kafka, Elasticsearch and Spark that are missing or damaged.",
    )
    parser.add_argument("folder", type=Path, nargs="?", default=HOME / "jars", help="where the jars lie")
    parser.add_argument("--lock", action="store_true", help="write jars.toml again, after a change of ivy.xml")
    asked = parser.parse_args(arguments)
    try:
        if asked.lock:
            lock(asked.folder, say)
        else:
            if asked.folder == HOME / "jars":
                private_files.tighten(HOME)
            ensure_jars(asked.folder, say)
            ensure_compiled(asked.folder, say)
    except StackError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
