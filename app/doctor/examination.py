"""Runs all checks of a deployment, each bounded in time, none of which can end another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from app.core.settings import Settings
from app.doctor import deployment, early_lane, log, machine, search
from app.doctor.finding import Finding, danger
from pipelines.errors import KappaError

LIMIT_SECONDS = 30.0

Check = Callable[[Settings], list[Finding]]


def checks_of(file: Path | None = None) -> dict[str, Check]:
    """All checks by name. `file` is the one that the settings were read from.

    Of findings that are as bad by their status the first are about results and records that are lost, then about servers that do
    not work, then about this machine.
    """
    plain: tuple[Check, ...] = (
        *deployment.CHECKS,
        log.kafka,
        search.elasticsearch,
        early_lane.early_alarms,
        *machine.CHECKS,
    )
    return {check.__name__: check for check in plain} | {"secret files": partial(machine.secret_files, file=file)}


def examine(
    settings: Settings, checks: Mapping[str, Check] | None = None, limit_seconds: float = LIMIT_SECONDS
) -> list[Finding]:
    """Run checks at the same time, and wait for each no longer than a limit.

    Parameters
    ----------
    settings
        Those of the deployment.
    checks
        By name; all of them by default.
    limit_seconds
        How long all of them may take together.

    Returns
    -------
    list of Finding
        The most dangerous first. A check that fails or takes too long is a danger itself.
    """
    found: dict[str, list[Finding]] = {}

    def run(name: str, check: Check) -> None:
        try:
            found[name] = check(settings)
        except Exception as error:  # whatever it is, the others go on
            line = (str(error).splitlines() or [""])[0]
            text = line if isinstance(error, KappaError) else f"{type(error).__name__}: {line[:200]}"
            found[name] = [danger(name, text, "an answer", "this check could not be made")]

    wanted = checks_of() if checks is None else checks
    # Daemons: one that hangs does not hold up the end of the process.
    threads = {name: threading.Thread(target=run, args=(name, check), daemon=True) for name, check in wanted.items()}
    for thread in threads.values():
        thread.start()
    ends = threading.Event()
    left = threading.Timer(limit_seconds, ends.set)
    left.daemon = True
    left.start()
    for name, thread in threads.items():
        while thread.is_alive() and not ends.is_set():
            thread.join(0.1)
        if name not in found:
            text = f"no answer in {limit_seconds:.0f} s"
            found[name] = [danger(name, text, "an answer", "look after the server or the disk that it asks")]
    left.cancel()
    everything = [finding for name in wanted for finding in found[name]]
    return sorted(everything, key=lambda finding: finding.status)
