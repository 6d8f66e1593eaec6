"""`kappa templates`: a row per line in order, whatever else is in the file."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.main import app
from app.cli.template_files import COLUMNS
from models.templates.extraction import template_id
from pipelines.errors import InputError

LINES = [
    "2026-01-05 10:00:03,123 INFO [main] org.acme.Thing: took 12 ms",
    "2026-01-05 10:00:04,001 INFO [main] org.acme.Thing: took 7 ms",
    "Jan  5 10:00:03 web-1 sshd[123]: session opened for user ann by (uid=0)",
    "",
    'a "quoted, text", and more',
    "a form\x0cfeed and a \x85 are no ends of lines",
]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["templates", *arguments])


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def written(folder: Path, lines: list[str], end: str = "\n") -> Path:
    file = folder / "some.log"
    file.write_bytes("".join(line + end for line in lines).encode())
    return file


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_line_has_its_row_in_order(tmp_path: Path, end: str) -> None:
    out = tmp_path / "out.csv"
    assert run(str(written(tmp_path, LINES, end)), "--out", str(out)).exit_code == 0
    with out.open(newline="") as file:
        header, *found = list(csv.reader(file))
    assert tuple(header) == COLUMNS
    assert [int(row[0]) for row in found] == [number for number, line in enumerate(LINES, 1) if line]
    assert [row[2] for row in found[:3]] == ["took <*>", "took <*>", "session opened for user <*> by (uid=<*>)"]
    assert [row[1] for row in found] == [template_id(row[2]) for row in found]


def test_without_a_file_to_write_the_rows_are_on_stdout(tmp_path: Path) -> None:
    answer = run(str(written(tmp_path, LINES[:3])))
    assert [row[:1] for row in rows(answer.stdout)] == [["line"], ["1"], ["2"], ["3"]]


def test_a_line_has_the_same_id_in_any_order_and_any_part_of_the_file(tmp_path: Path) -> None:
    lines = [line for line in LINES[:5] if line]
    whole = dict(zip(lines, (row[1] for row in rows(run(str(written(tmp_path, lines))).stdout)[1:]), strict=True))
    part = random.Random(3).sample(lines, 3)
    found = rows(run(str(written(tmp_path, part))).stdout)[1:]
    assert [row[1] for row in found] == [whole[line] for line in part]


def test_json_counts_lines_by_template(tmp_path: Path) -> None:
    answer = json.loads(run(str(written(tmp_path, LINES)), "--json").stdout)
    assert answer["lines"] == len(LINES) - 1, "an empty line has no template"
    assert answer["templates"][0] == {"template_id": template_id("took <*>"), "template": "took <*>", "lines": 2}
    assert sum(template["lines"] for template in answer["templates"]) == len(LINES) - 1


def test_a_line_with_colours_has_the_template_that_it_has_without(tmp_path: Path) -> None:
    lines = ["10:00:03 \x1b[1;31mERROR\x1b[0m [main] a.b.Thing: took \x1b[m12 ms\x1b[K", "\x1b[32mtook 7 ms"]
    (found,) = json.loads(run(str(written(tmp_path, lines)), "--json").stdout)["templates"]
    assert (found["template"], found["lines"]) == ("took <*>", 2)


def test_bytes_that_are_no_text_are_no_error(tmp_path: Path) -> None:
    file = tmp_path / "bytes.log"
    file.write_bytes(b"took \xff\xfe 12 ms\nlast line without an end")
    assert len(json.loads(run(str(file), "--json").stdout)["templates"]) == 2


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    missing = run(str(tmp_path / "none.log"))
    assert isinstance(missing.exception, InputError)
    assert "none.log" in str(missing.exception)
    nowhere = run(str(written(tmp_path, LINES)), "--out", str(tmp_path / "none" / "out.csv"))
    assert isinstance(nowhere.exception, InputError)
    assert "cannot write" in str(nowhere.exception)
    itself = written(tmp_path, LINES)
    assert isinstance(run(str(itself), "--out", str(itself)).exception, InputError)
    assert itself.read_text().startswith(LINES[0])


def test_a_mark_of_utf_8_is_no_part_of_the_first_line_and_what_is_compressed_is_refused(tmp_path: Path) -> None:
    marked, packed = tmp_path / "marked.log", tmp_path / "packed.log.gz"
    marked.write_bytes(b"\xef\xbb\xbfjob 1 done\njob 2 done\n")
    packed.write_bytes(gzip.compress(b"job 1 done\n"))
    found = CliRunner().invoke(app, ["templates", str(marked), "--json"])
    assert [one["lines"] for one in json.loads(found.stdout)["templates"]] == [2]
    refused = CliRunner().invoke(app, ["templates", str(packed)])
    assert "compressed with gzip" in str(refused.exception)


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_other_compressed_logs_are_refused_too(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "packed.log").write_bytes(pack(b"job 1 done\n"))
    assert "unpack it first" in str(run(str(tmp_path / "packed.log")).exception)


def test_a_log_that_begins_as_the_name_of_a_form_is_a_log(tmp_path: Path) -> None:
    assert json.loads(run(str(written(tmp_path, ["PKCS11 module loaded"])), "--json").stdout)["lines"] == 1


def test_a_pipe_is_read_from_its_first_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(
        target=(tmp_path / "pipe").write_text, args=["".join(f"job {i} done\n" for i in range(9_000))]
    )
    writer.start()
    assert json.loads(run(str(tmp_path / "pipe"), "--json").stdout)["lines"] == 9_000
    writer.join()


@pytest.mark.parametrize("before", ["=", "+", "-", "@", "\t=", "\uff1d", "'=", "'@", "'''@"])
def test_no_template_is_a_formula_for_a_spreadsheet(tmp_path: Path, before: str) -> None:
    line = f"{before}cmd of a sender"
    file = written(tmp_path, [line, "a-b=c", "it's"])
    texts = {one["template_id"]: one["template"] for one in json.loads(run(str(file), "--json").stdout)["templates"]}
    (_, identity, cell), *others = rows(run(str(file)).stdout)[1:]
    assert cell.startswith("'") and cell[1:] == texts[identity], "who knows the rule has the text again"
    assert [other[2] for other in others] == ["a-b=c", "it's"]
