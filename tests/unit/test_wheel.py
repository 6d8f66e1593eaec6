"""The wheel holds all that runs: installed without a checkout, in an empty folder with an empty home, commands do their work."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

from app.core.settings import PROJECT

pytestmark = pytest.mark.slow

PARTS = ("app", "dashboards", "models", "pipelines", "replay")
BESIDE = ("pyproject.toml", "README.md", "LICENSE")
LOG = "".join(f"2026-01-05 10:00:{second:02d} ERROR timeout after {second * 37} ms\n" for second in range(30))


class Installed:
    """A virtual environment with the wheel, and beside it the packages that it needs, but nothing of the checkout."""

    def __init__(self, folder: Path) -> None:
        source = folder / "source"
        for part in PARTS:
            shutil.copytree(PROJECT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in BESIDE:
            shutil.copy(PROJECT / name, source)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(source)]
        subprocess.run([*pip, *build], check=True, timeout=300)
        shutil.rmtree(source)
        (wheel,) = folder.glob("*.whl")
        venv.create(folder / "venv", with_pip=False)
        python = folder / "venv" / "bin" / "python"
        into = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
        subprocess.run([*pip, *into], check=True, timeout=300)
        # A path alone: what makes the checkout importable, a .pth file in there, is not read.
        (self.site,) = (folder / "venv").glob("lib/python3*/site-packages")
        (self.site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        # The machine code of the same sources, which is part of no wheel: to compile it again would take a minute.
        for code in (PROJECT / "models").rglob("*.nb[ci]"):
            shutil.copy(code, self.site / code.relative_to(PROJECT))
        self.command = python.with_name("kappa")
        self.home, self.here = folder / "home", folder / "empty"
        self.home.mkdir()
        self.here.mkdir()

    def kappa(self, *arguments: str, seconds: float = 300.0, **more: str) -> str:
        """What a command answers, with nothing in its environment but what is given."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **more}
        done = subprocess.run(
            [self.command, *arguments],
            cwd=self.here,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_every_file_of_the_packages_is_in_the_wheel(installed: Installed) -> None:
    wanted = {
        file.relative_to(PROJECT)
        for part in PARTS
        for file in (PROJECT / part).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    made = {Path("dashboards/kibana.ndjson")}  # by `kappa kibana export`
    assert {file for file in wanted if not (installed.site / file).exists()} == made


def test_the_program_is_that_of_the_wheel_and_keeps_its_data_in_the_home_of_its_user(installed: Installed) -> None:
    assert installed.kappa("--version").startswith("kappa ")
    shown = json.loads(installed.kappa("config", "show", "--json"))
    assert shown["home"] == str(installed.home / ".local" / "share" / "kappa")
    assert installed.kappa("config", "check")


def test_templates_and_scores_come_out_of_files(installed: Installed) -> None:
    (installed.here / "app.log").write_text(LOG)
    found = json.loads(installed.kappa("templates", "app.log", "--json"))
    assert (found["lines"], found["templates"][0]["template"]) == (30, "timeout after <*>")
    rows = "".join(f"{minute},{minute % 7 + (500 if minute == 350 else 0)}\n" for minute in range(400))
    (installed.here / "m.csv").write_text("timestamp,value\n" + rows)
    scores = installed.kappa("score", "m.csv", "--value", "value", "--period", "60")
    assert len(scores.splitlines()) >= 400


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jars of others, which this checkout has fetched, and none of ours."""
    folder = tmp_path_factory.mktemp("jars")
    for entry in (PROJECT / ".kappa" / "jars").resolve().iterdir():
        if entry.name != "own":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.stack
def test_the_java_classes_are_compiled_from_the_sources_of_the_wheel(installed: Installed, jars: Path) -> None:
    answer = installed.kappa("config", "spark", KAPPA_JAR_FOLDER=str(jars))
    (jar,) = (jars / "own").glob("kappa-*.jar")
    assert str(jar) in answer
    pinned = tomllib.loads((installed.site / "app" / "embedded" / "own_jar.toml").read_text())
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == pinned["sha256"]


@pytest.mark.long
@pytest.mark.stack
@pytest.mark.timeout(1000)
def test_the_demonstration_ends_in_a_message_that_was_delivered(installed: Installed, jars: Path) -> None:
    """All that `make wheel-demo` does but for fetching packages and jars."""
    answer = installed.kappa(
        "demo", "--minutes", "15", "--until-notified", "--json", seconds=960.0, KAPPA_JAR_FOLDER=str(jars)
    )
    found = json.loads(answer)
    assert found["notifications"] > 0 and found["incidents"] > 0 and found["dropped_by_watermark"] == 0
