"""Virtual environments of the peers below `build/peers`, and the connector of Flink: each by version and hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from app.core.settings import PROJECT
from app.embedded.java import server_java
from app.embedded.java_network import network_options
from app.embedded.jvm import pyspark_jar
from benchmarks.deployment import say

ROOT = PROJECT / "build" / "peers"
CONNECTOR = ("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
CONNECTOR_SHA256 = "5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616"


class NotInstalledError(Exception):
    """A peer cannot be installed here, and why."""


def environment(name: str) -> Path:
    """The Python of a peer: `requirements/NAME.txt` installed into an environment of its own. Raises NotInstalledError."""
    wanted = Path(__file__).parent / "requirements" / f"{name}.txt"
    folder = ROOT / name
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    if stamp.is_file() and stamp.read_text() == wanted.read_text():
        return python
    say(f"installing {name} into {folder}")
    venv.create(folder, clear=True, with_pip=False, symlinks=True)
    uv = Path(sys.executable).parent / "uv"
    done = subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotInstalledError(last_line(done.stderr))
    stamp.write_text(wanted.read_text())
    return python


def connector() -> Path:
    """Flink's connector of Kafka, by the Ivy that comes with pyspark. Raises NotInstalledError."""
    jar = ROOT / "jars" / f"{CONNECTOR[1]}-{CONNECTOR[2]}.jar"
    if not is_the_connector(jar):
        ivy = [str(server_java()), *network_options(ROOT / "ivy"), "-jar", str(pyspark_jar("ivy-*.jar"))]
        where = ["-cache", str(ROOT / "ivy"), "-retrieve", str(jar.parent / "[artifact]-[revision].[ext]")]
        what = ["-dependency", *CONNECTOR, "-confs", "default", "-types", "jar", "-notransitive"]
        done = subprocess.run([*ivy, *what, *where], capture_output=True, text=True, check=False)
        if not is_the_connector(jar):
            raise NotInstalledError(last_line(done.stdout + done.stderr))
    return jar


def is_the_connector(jar: Path) -> bool:
    """Whether a file is the connector that was chosen, to the byte."""
    return jar.is_file() and hashlib.sha256(jar.read_bytes()).hexdigest() == CONNECTOR_SHA256


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no word of why")
