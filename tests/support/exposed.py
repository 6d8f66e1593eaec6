"""What a running `kappa` shows to others of its machine: sockets, command lines, files."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import psutil

MOST_BYTES = 64 << 20


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it has started."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def open_to_others(processes: list[psutil.Process]) -> list[str]:
    """Sockets on which a process listens for other machines."""
    listening = [
        (process.name(), connection.laddr)
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN or (connection.type == 2 and not connection.raddr)
    ]
    assert listening, "nothing listens, so nothing was looked at"
    return [
        f"{name} {ip}:{port}"
        for name, (ip, port) in listening
        if not ip_address(ip.removeprefix("::ffff:")).is_loopback
    ]


def named_on_command_lines(processes: list[psutil.Process], secret: str) -> list[str]:
    """Processes that say a secret to everybody who lists processes."""
    lines = [command_line(process) for process in processes]
    return [line.partition(" ")[0] for line in lines if secret in line]


def command_line(process: psutil.Process) -> str:
    """What everybody who lists processes sees of one; empty for one that has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):  # a zombie too, as the shell of Spark's launcher is for a while
        return " ".join(process.cmdline())
    return ""


def files(folder: Path) -> list[Path]:
    """All files and folders, jars and links apart."""
    return [path for path in folder.rglob("*") if not path.is_symlink() and path.suffix != ".jar"]


def open_files(folder: Path) -> list[str]:
    """Files and folders that others may read or write."""
    return [
        f"{path} {path.stat().st_mode & 0o777:o}"
        for path in [folder, *files(folder)]
        if path.exists() and path.stat().st_mode & 0o077
    ]


def files_with(folder: Path, secret: str) -> list[Path]:
    """Files that hold a secret."""
    found = [path for path in files(folder) if path.is_file() and path.stat().st_size < MOST_BYTES]
    return [path for path in found if secret.encode() in path.read_bytes()]
