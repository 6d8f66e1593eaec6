"""Every regular expression of the product, found in its source."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from app.core.settings import PROJECT
from models.records import log_levels
from models.templates import matcher
from models.templates.masks import MASKS
from models.templates.pattern_program import Mask, Table, table_of
from pipelines.inputs import shippers, syslog

USED = re.compile(r"\b([A-Z_]{1,40})\.([a-z]{1,20})\(")
MOST = 1 << 30  # characters
PACKAGES = ("app", "dashboards", "models", "pipelines", "replay")
OF_RE = ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
# Spark's functions and columns, with the place of the pattern among the arguments
OF_SPARK = {
    "rlike": 0,
    "regexp_extract": 1,
    "regexp_extract_all": 1,
    "regexp_replace": 1,
    "regexp_count": 1,
    "regexp_instr": 1,
    "regexp_like": 1,
    "regexp_substr": 1,
}
IN_JAVA = re.compile(r"Pattern\.compile\(|\.matches\(|\.replaceAll\(|\.replaceFirst\(|\.split\(")

# Patterns that are made while the program runs, and what they are made of.
MADE_LATER = {
    "app/collector/log_tail.py": "the patterns of pipelines/inputs/shippers.py, which are handed to Java",
    "app/core/secrets.py": "escaped parts of a channel's address, one after the other in a text of bounded length",
    "models/incidents/members.py": "an escaped host's name between two assertions of one character",
    "models/rules/rule.py": "an operator's own pattern, see docs/control.md; a glob is made linear by fnmatch",
    "replay/savepoints/periodic.py": "the escaped name of a version, before a moment of fixed length",
    "app/cli/settings_page.py": "names of settings, applied to their own descriptions when the page is made",
}
# Calls of Java that take a pattern. Each is made of one of the texts below, but for what separates words.
OF_JAVA = {
    "LineLevel.java": [
        *(f"Pattern.compile({name});" for name in ("named", "word", "inJson")),
        '.split(" ");',
        "Pattern.compile(beforeDigits);",
    ],
    "MemberPaths.java": [r'.split("\\."), 0);'],
    "PatternGroups.java": ["Pattern.compile(pattern);"],
    "ServiceName.java": [
        *(f"Pattern.compile({name});" for name in ("ofContainer", "before", "behind", "run")),
        ".replaceAll(NOTHING);",
        '.replaceAll("$1")).replaceAll(NOTHING);',
        ".replaceAll(NOTHING);",
    ],
}
HANDED_TO_JAVA = {
    "models/records/log_levels.py": (log_levels.NAMED, log_levels.WORD, log_levels.IN_JSON, log_levels.BEFORE_DIGITS),
    "pipelines/inputs/shippers.py": tuple(text for text in shippers.SERVICE_PATTERNS if isinstance(text, str)),
    "pipelines/inputs/syslog.py": (syslog.RFC3164, syslog.RFC5424),
}


@dataclass(frozen=True)
class FoundPattern:
    """A pattern in the source: where, how Java and Python write it, and whether Java or Python applies it; the mask that it is of."""

    place: str
    text: str
    flags: int
    java: bool
    how: str = "finditer"  # the method of a pattern that is applied: whatever finds matches anywhere counts as this one
    mask: Mask | None = None

    def applied(self, text: str) -> None:
        """Apply the pattern to a text as the source does, in Python."""
        if self.mask is not None:
            matcher.apply_masks(table_of_mask(self.mask), np.frombuffer(text.encode("utf-32-le"), np.uint32))
            return
        found = getattr(self.python, self.how)(text)
        if self.how == "finditer":
            for _ in found:
                pass

    def seconds(self, text: str) -> float:
        """What applying it to a text takes of the processor."""
        started = time.process_time()
        self.applied(text)
        return time.process_time() - started

    @property
    def python(self) -> re.Pattern[str]:
        """The pattern for Python's matcher, which has no classes of Unicode, and another word for the end of the text."""
        return re.compile(self.text.replace(r"\p{C}", r"[\x00-\x1f]").replace(r"\z", r"\Z"), self.flags)


@cache
def every() -> list[FoundPattern]:
    """All patterns. Raises AssertionError for one that can neither be evaluated nor is listed."""
    found = [each for package in PACKAGES for file in sorted((PROJECT / package).rglob("*.py")) for each in _of(file)]
    masks = [FoundPattern(f"mask {i}", mask[0], re.ASCII, java=True, mask=mask) for i, mask in enumerate(MASKS)]
    handed = [FoundPattern(file, text, 0, java=True) for file, texts in HANDED_TO_JAVA.items() for text in texts]
    return [*dict.fromkeys([*found, *handed]), *masks]


@cache
def table_of_mask(mask: Mask) -> Table:
    """The table of a mask alone, for a text of any length."""
    return table_of([mask], MOST, MOST)


def of_java() -> dict[str, list[str]]:
    """The lines of our Java classes that take a pattern, by file."""
    found: dict[str, list[str]] = {}
    for file in sorted((PROJECT / "pipelines" / "jvm").glob("*.java")):
        for line in file.read_text().splitlines():
            for match in IN_JAVA.finditer(line):
                found.setdefault(file.name, []).append(line[match.start() :])
    return found


def _of(file: Path) -> Iterator[FoundPattern]:
    text = file.read_text()
    if not any(word in text for word in ("import re", "pattern=", *OF_SPARK)):
        return
    name = str(file.relative_to(PROJECT))
    uses: dict[str, set[str]] = {}
    for pattern, method in USED.findall(text):
        uses.setdefault(pattern, set()).add(method)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield from _of_call(name, node, uses)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "rlike '" in node.value.lower():
            msg = f"{name}:{node.lineno}: a pattern within SQL cannot be found by the tests"
            raise AssertionError(msg)


def _of_call(name: str, node: ast.Call, uses: dict[str, set[str]]) -> Iterator[FoundPattern]:
    place = f"{name}:{node.lineno}"
    for keyword in node.keywords:
        if keyword.arg == "pattern":
            yield from _evaluated(name, place, keyword.value, 0, java=False)
    if not isinstance(node.func, ast.Attribute):
        return
    word = node.func.attr
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and word in OF_RE:
        given = [*node.args[1:], *(k.value for k in node.keywords)]
        flags = [_value(name, part) for part in given if "re." in ast.unparse(part)]
        how = _how({word} if word != "compile" else uses.get(_assigned(name, node), set()))
        for each in _evaluated(name, place, node.args[0], sum(f for f in flags if isinstance(f, int)), java=False):
            yield replace(each, how=how)
    elif word in OF_SPARK:
        yield from _evaluated(name, place, node.args[OF_SPARK[word]], 0, java=True)


def _assigned(name: str, node: ast.Call) -> str:
    """The name that a pattern is given where it is compiled, if that is so."""
    before = (PROJECT / name).read_text().splitlines()[node.lineno - 1]
    return before.split("=", maxsplit=1)[0].strip()


def _how(methods: set[str]) -> str:
    """The method that does most: one that is tied to the beginning only where no other is used."""
    known = methods & set(OF_RE)
    if known == {"fullmatch"}:
        return "fullmatch"
    return "match" if known and known <= {"match", "fullmatch"} else "finditer"


def _evaluated(name: str, place: str, node: ast.expr, flags: int, *, java: bool) -> Iterator[FoundPattern]:
    text = _value(name, node)
    if isinstance(text, str):
        yield FoundPattern(place, text, int(flags), java)
    elif name not in MADE_LATER:
        msg = f"{place}: the pattern {ast.unparse(node)} is made while the program runs: say in MADE_LATER of what"
        raise AssertionError(msg)


def _value(name: str, node: ast.expr) -> Any:
    """What an expression is in its module; None where it needs a function's own names."""
    module = importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    try:
        return eval(compile(ast.Expression(node), name, "eval"), dict(vars(module)))
    except NameError:
        return None
