"""A text file that is written as a whole, in a folder where others write as well."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.core.atomic_files import atomic_text, read_json_object, write_json_durably
from pipelines.errors import InputError
from pipelines.spark_internals import home_without_archive


def test_a_link_that_somebody_else_has_made_leads_the_draft_to_no_other_file(tmp_path: Path) -> None:
    mine, out = tmp_path / "mine", tmp_path / "out.csv"
    mine.write_text("kept")
    (tmp_path / "out.csv.part").symlink_to(mine)
    out.symlink_to(mine)
    with atomic_text(out, "score") as file:
        file.write("a,b\r\n")
    assert (mine.read_text(), out.read_bytes(), out.is_symlink()) == ("kept", b"a,b\r\n", False)


def test_an_error_leaves_what_was_there_and_no_draft(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("before")
    with pytest.raises(ZeroDivisionError), atomic_text(out, "score") as file:
        file.write(str(1 / 0))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("out.csv", "before")]
    with pytest.raises(InputError, match="wanted a file in a folder that is there"), atomic_text(out / "x", "score"):
        pass


def test_writers_with_one_number_of_a_process_leave_a_whole_file(tmp_path: Path) -> None:
    """The processes of containers that share a home have the same numbers, and write its files at their first start."""
    file, value = tmp_path / "configuration.json", {"names": ["a" * 100] * 1000}

    def write(_: int) -> bool:
        write_json_durably(file, value)
        home_without_archive(tmp_path / "spark-home")
        return read_json_object(file) == value

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(write, range(40)))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bin", "configuration.json", "jars", "spark-home"]


def test_a_device_or_a_pipe_is_written_and_never_replaced(tmp_path: Path) -> None:
    pipe, link, read = tmp_path / "pipe", tmp_path / "link", []
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    with atomic_text(link, "score") as file:
        file.write("a,b\n")
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)
    reader.join(timeout=30)
    assert read == ["a,b\n"]


def test_a_file_that_is_named_by_its_descriptor_is_written_in_its_place(tmp_path: Path) -> None:
    redirected = tmp_path / "out.csv"
    with redirected.open("w") as stdout, atomic_text(Path(f"/dev/fd/{stdout.fileno()}"), "score") as file:
        file.write("a,b\n")
    assert redirected.read_text() == "a,b\n"
