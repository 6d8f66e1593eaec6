"""Programs that tests run against: those that are installed, else those of the distribution's packages, unpacked beside the jars.

Packages are fetched with `apt-get download` and unpacked with `dpkg -x`, which takes no rights and installs nothing; once for all
tests, in some seconds. Where that cannot be done, the test is skipped, and says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from app.core.settings import PROJECT

FOLDER = PROJECT / ".kappa" / "packages"
SECONDS = 60.0
QUICKLY = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")
PACKAGES = {
    "rsyslogd": ("rsyslog", "rsyslog-kafka", "libestr0", "libfastjson4", "liblognorm5", "librdkafka1"),
    "collectd": ("collectd-core", "libyajl2", "librdkafka1"),
    "prometheus": ("prometheus",),
    "promtool": ("prometheus",),
    "prometheus-alertmanager": ("prometheus-alertmanager",),
}
# What a program takes for the folder of its package, wherever that was unpacked, and the same, as long, from the folder in which it is started.
FIXED = {"prometheus-alertmanager": (b"/usr/share/prometheus/", b"usr//share/prometheus/")}
PARTS = {
    "rsyslogd": ("usr/lib/*/rsyslog/omkafka.so",),
    "collectd": ("usr/lib/collectd/write_kafka.so", "usr/lib/*/libyajl.so.2"),
}  # files beside the program, all of which are needed


@dataclass(frozen=True)
class DistributionProgram:
    """A program, and the folder that stands for `/` in its package. In that folder it has to be started."""

    path: Path
    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which it finds the libraries of its packages."""
        folders = ":".join(map(str, self.root.glob("usr/lib/*-linux-gnu")))
        return dict(os.environ) if self.root == Path("/") else {**os.environ, "LD_LIBRARY_PATH": folders}

    def part(self, pattern: str) -> Path:
        """A file or folder of its packages."""
        return next(self.root.glob(pattern))


def program(name: str) -> DistributionProgram:
    """A program by its name. Skips the test where it is not installed and cannot be fetched."""
    found = installed(name) or unpacked(PACKAGES[name], name)
    if isinstance(found, str):
        pytest.skip(f"{name} is not installed, and {found}: apt-get install {' '.join(PACKAGES[name])}")
    return found


def installed(name: str) -> DistributionProgram | None:
    """A program of this machine, if all of it is there."""
    found, root = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"), Path("/")
    whole = all(any(root.glob(part)) for part in PARTS.get(name, ()))
    return DistributionProgram(Path(found), root) if found and whole else None


@cache
def unpacked(packages: Sequence[str], name: str) -> DistributionProgram | str:
    """A program of packages that are fetched if they are not there yet, or why they could not be."""
    root = FOLDER / packages[0]
    problem = "" if root.is_dir() else fetched(packages, root)
    found = within(root, name)
    return DistributionProgram(found[0], root) if found else problem or f"{root} is without it"


def within(root: Path, name: str) -> list[Path]:
    """Where a program is in its unpacked package."""
    return [root / place / name for place in ("usr/bin", "usr/sbin") if (root / place / name).exists()]


def fetched(packages: Sequence[str], root: Path) -> str:
    """Fetch packages and unpack them into a folder; answers what went wrong."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return "there is no apt-get that could fetch it"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        try:
            run(["apt-get", *QUICKLY, "download", *packages], folder)
            for package in sorted(Path(folder).glob("*.deb")):
                run(["dpkg", "-x", str(package), "root"], folder)
            let_move(Path(folder) / "root")
        except subprocess.TimeoutExpired:
            return f"could not be fetched within {SECONDS:g} s"
        except subprocess.CalledProcessError as error:
            return f"could not be fetched ({error.stderr.strip().splitlines()[0]})"
        if not root.exists():  # another process may have been faster
            (Path(folder) / "root").rename(root)
    return ""


def let_move(root: Path) -> None:
    """Have the programs of FIXED find their packages in the folder in which they are started: Alertmanager reads the template of its messages."""
    for name, (there, here) in FIXED.items():
        for file in within(root, name):
            assert len(there) == len(here)
            file.write_bytes(file.read_bytes().replace(there, here))


def run(command: Sequence[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS)
