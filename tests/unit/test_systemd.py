"""Units of systemd: systemd accepts them and finds little exposed, and they call commands and settings that there are."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from app.cli import main, settings_page
from app.core.settings import PROJECT

FOLDER = PROJECT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
INSTALLED = "/opt/kappa/bin/kappa"
MOST_EXPOSED = "17"  # tenths, of 100: what the network and Java's compiler need is left
analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, of systemd 250 or newer"
)


def systemd_analyze(*arguments: str) -> str:
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> list[str]:
    """The units with a program that there is, and of the template the one of a job."""
    for file in UNITS:
        name = file.name.replace("@.", "@detect.")
        (tmp_path / name).write_text(file.read_text().replace(INSTALLED, sys.executable))
    return sorted(map(str, tmp_path.iterdir()))


@analyze
def test_systemd_has_nothing_to_say_about_the_units(installed: list[str]) -> None:
    assert systemd_analyze("verify", "--man=no", *installed) == ""


@analyze
def test_systemd_notices_a_setting_that_it_does_not_know(installed: list[str]) -> None:
    file = Path(installed[0])
    file.write_text(file.read_text().replace("ProtectHome", "ProtectHouse"))
    assert "ProtectHouse" in systemd_analyze("verify", "--man=no", str(file))


@analyze
def test_little_of_the_machine_is_exposed(installed: list[str]) -> None:
    for file in installed:
        systemd_analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", file)


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_units_call_commands_options_and_settings_that_there_are(file: Path) -> None:
    text = file.read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
    program, command, *arguments = shlex.split(start)
    commands = get_command(main.app).commands  # type: ignore[attr-defined]
    options = {name for one in commands[command].params for name in one.opts}
    assert program == INSTALLED and {one for one in arguments if one.startswith("--")} <= options
    variables = {one.variable for group in settings_page.entries().values() for one in group}
    assert set(re.findall(r"\bKAPPA_[A-Z_]*[A-Z]", text)) <= variables
    assert re.findall(r"^(User=kappa|DynamicUser=yes)$", text, re.M), "never root"


def test_the_page_about_reliability_has_the_times_of_the_unit_of_jobs() -> None:
    page = (PROJECT / "docs" / "reliability.md").read_text()
    times = re.findall(r"^((?:RestartSec|TimeoutStopSec)=\d+)$", (FOLDER / "kappa@.service").read_text(), re.M)
    assert len(times) == 2
    assert [one for one in times if f"`{one}`" not in page] == []


def test_every_unit_is_documented() -> None:
    page = (PROJECT / "docs" / "systemd.md").read_text()
    assert [file.name for file in FOLDER.iterdir() if f"`{file.name}`" not in page] == []
