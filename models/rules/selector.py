"""Which series a rule is about: a glob or a regular expression for each part of a series' name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping

from models.core.series import KINDS, Series, parse

SELECTED = ("host", "service", "metric", "level", "template", "kind")
REGEX = "re:"


class Selector:
    """Patterns by part; all must match, and a series that lacks a part does not match a pattern for it.

    A pattern is a glob (`*`, `?`, `[abc]`), or after `re:` a regular expression, for the whole of the part. Case matters. A
    glob for a metric that names no labels matches whatever the labels are. A pattern for a template is held against its id
    and against the beginning of its text.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        """Raises ValueError for a pattern that is none, or a kind that there is not."""
        self._patterns = {part: compiled(part, text) for part, text in patterns.items()}
        self._any_labels = "{" not in patterns.get("metric", "{") and not patterns["metric"].startswith(REGEX)
        kind = self._patterns.get("kind")
        if kind is not None and not any(kind.fullmatch(known) for known in KINDS):
            msg = f"kind is {patterns['kind']!r}, which no series is; there are {', '.join(KINDS)}"
            raise ValueError(msg)
        self._known: dict[tuple[str, str], bool] = {}

    def matches(self, name: str, text: str | None = None) -> bool:
        """Whether a series is meant; `text` is the template's, where it has one."""
        series = parse(name)
        return all(self._part(part, series, text) for part in self._patterns)

    def _part(self, part: str, series: Series, text: str | None) -> bool:
        if part == "template":
            return bool(series.template_id) and (
                self._fits(part, series.template_id) or (text is not None and self._fits(part, text))
            )
        value: str = getattr(series, part)
        if part == "metric" and self._any_labels:
            value = value.split("{", 1)[0]
        return bool(value) and self._fits(part, value)

    def _fits(self, part: str, value: str) -> bool:
        """Whether a pattern matches. Parts are shared by many series, so answers are kept."""
        found = self._known.get((part, value))
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[part, value] = self._patterns[part].fullmatch(value) is not None
        return found


MOST_KNOWN = 20_000  # answers kept by a selector


def compiled(part: str, text: str) -> re.Pattern[str]:
    """A pattern for a part. Raises ValueError for one that is none."""
    try:
        return re.compile(text.removeprefix(REGEX) if text.startswith(REGEX) else fnmatch.translate(text))
    except re.error as error:
        msg = f"{part} is {text!r}, which is no regular expression: {error}"
        raise ValueError(msg) from error
