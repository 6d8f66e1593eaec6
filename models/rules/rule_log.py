"""Rules that are records of the log: what a record says, and which rules are in effect after some of them.

A record under the name of a rule replaces that rule; one that says `removed` ends it, and so does one that is refused. Rules of the
configuration that a version began with come before those of the log, and are replaced and ended by their names in the same way. Nothing
here looks at a clock: what is in effect follows from the last record under each name, because after a compaction there is no other. So
rules of the log are in the order of their names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from models.records.records import RuleRecord
from models.records.schema import fields_of, parsed
from models.rules.route import Route
from models.rules.rule import REGEX, SELECTED, Rule, check_selected, instant, rule_of

MOST_RULES = 256  # of the log that are in effect, or will be
MOST_A_WINDOW = 1_000  # records that are looked at: all shards read each
MOST_BYTES = 4_096  # of a record
MOST_NAME = 100  # characters
HOUR_MS = 3_600_000
MOST_PATTERN, MOST_REGEX = 512, 200
COUNTED = re.compile(r"\{\d")  # `a{1000}` is a thousand steps for each character of a name
UNICODE_CLASS = re.compile(
    r"(?<!\\)(?:\\\\)*\\[pP]"
)  # `\pL` is a thousand ranges: a pattern of them takes 30 ms to read, for each name
MOST_OF_ROUTE = 16  # labels, and channels
OF_ROUTES = "channels"  # what gives it is a route
KEYS = tuple(dict.fromkeys(field.name for kind in (Rule, Route) for field in fields(kind)))
FOR_PEOPLE = ("@timestamp",)  # members beside the fields of a record


class TooManyRules(ValueError):
    """A record that is refused for how many there are: `wanted` with it, of `most`."""

    def __init__(self, message: str, wanted: int, most: int) -> None:
        super().__init__(message)
        self.wanted, self.most = wanted, most


@dataclass(frozen=True)
class LoggedRule:
    """A rule of the log.

    Attributes
    ----------
    name
        Its name.
    rule
        The keys of `Rule` or `Route` that its record gives, as canonical JSON; empty for a rule of the configuration that has ended.
    since
        When the window begins in which it was appended, epoch ms.
    offset
        Offset of its record.
    """

    name: str
    rule: str
    since: int
    offset: int

    def effective_record(self) -> Rule | Route:
        """As it takes effect: from when it came where it does not say since when; what was to be reset before is reset then."""
        found = rule_from(json.loads(self.rule), self.since)
        if isinstance(found, Route) or found.reset_ms is None or found.reset_ms >= self.since:
            return found
        return replace(found, reset=moment(self.since))


class RuleLog:
    """The rules that are in effect by what the log says so far.

    Parameters
    ----------
    pinned
        Rules of the configuration, or routes of the settings.
    begin
        Records with smaller offsets are not taken: `pinned` has what they say.
    known
        Where to go on from.
    """

    def __init__(self, pinned: Sequence[Rule | Route] = (), begin: int = 0, known: Iterable[LoggedRule] = ()) -> None:
        self._pinned, self._begin = tuple(pinned), begin
        self._named = {rule.name for rule in pinned if rule.name}
        self._window, self._taken = -1, 0  # when the last window begins, and how many of its records were given
        self.known = {one.name: one for one in known if one.offset >= begin}

    def take(self, name: str, text: str | None, offset: int, since: int) -> bool:
        """Take in a record.

        Parameters
        ----------
        name
            What it is under: its key in the topic.
        text
            Its JSON; None for a record that is no rule, after which there is none of this name.
        offset
            Its offset in the topic.
        since
            When the window begins in which it was appended, epoch ms.

        Returns
        -------
        bool
            Whether it changes what is in effect.

        Raises
        ------
        ValueError
            It is no rule, and there is none of this name any more; as `TooManyRules` there would be more than `MOST_RULES`, or its window
            has had `MOST_A_WINDOW`: nothing has changed then.
        """
        self._window, self._taken = since, self._taken + 1 if since == self._window else 1
        if self._taken > MOST_A_WINDOW:
            msg = (
                f"more than {MOST_A_WINDOW} records about rules in a window, of which no more are read; append it again"
            )
            raise TooManyRules(msg, self._taken, MOST_A_WINDOW)
        if offset < self._begin:
            return False
        try:
            record = None if text is None else record_under(name, text, since)
        except ValueError:
            self.known.pop(name, None)
            raise
        if record is None or (record.removed and name not in self._named):
            return self.known.pop(name, None) is not None
        rule = "" if record.removed else rule_json(keys_of(record))
        before = self.known.get(name)
        if before is not None and before.rule == rule:
            return False
        if before is None and len(self.known) >= MOST_RULES:
            msg = f"there are {MOST_RULES} rules of the log, which is the most; remove one, or wait until one has ended"
            raise TooManyRules(msg, len(self.known) + 1, MOST_RULES)
        self.known[name] = LoggedRule(name, rule, since, offset)
        return True

    def forget(self, now: int) -> bool:
        """Forget rules that ended before a window that begins at `now`, epoch ms. Answers whether there were any."""
        over = [name for name, one in self.known.items() if one.rule and has_ended(one.effective_record(), now)]
        for name in over:
            one = self.known.pop(name)
            if name in self._named:  # it has replaced one of the configuration, which must not come back
                self.known[name] = replace(one, rule="")
        return bool(over)

    def rules_of_log(self) -> list[LoggedRule]:
        """The rules and routes of the log, in the order of their names."""
        return sorted((one for one in self.known.values() if one.rule), key=lambda one: one.name)

    def rules(self) -> tuple[Rule, ...]:
        """The rules in effect about series: those of the configuration, then those of the log, in the order of their names."""
        pinned = (rule for rule in self._pinned if rule.name not in self.known)
        found = (*pinned, *(one.effective_record() for one in self.rules_of_log()))
        return tuple(rule for rule in found if isinstance(rule, Rule))


def has_ended(rule: Rule | Route, now: int) -> bool:
    """Whether a rule holds in no window that begins at `now` (epoch ms) or later."""
    return rule.span[1] <= now if isinstance(rule, Route) or rule.reset_ms is None else rule.reset_ms < now


def is_route(rule: str) -> bool:
    """Whether the keys of a rule, as JSON, are those of a route."""
    return f'"{OF_ROUTES}":' in rule and OF_ROUTES in json.loads(rule)


def record_of(text: str) -> RuleRecord:
    """The record that a JSON text is. Raises ValueError for anything else, and for a member that no record has."""
    source = parse_strict_json(text)
    unknown = source.keys() - fields_of(RuleRecord).keys() - set(FOR_PEOPLE)
    if unknown:
        msg = f"no key {sorted(unknown)[0]!r} in a rule"
        raise ValueError(msg)
    return check_record(parsed(RuleRecord, source))


def record_under(name: str, text: str, since: int) -> RuleRecord:
    """The record that a JSON text under a name is. Raises ValueError for one that cannot take effect from then on (epoch ms)."""
    record = record_of(text)
    if record.name != name:
        msg = "a rule whose key is not its name"
        raise ValueError(msg)
    if not record.removed:
        rule_from(keys_of(record), since)
    return record


def check_record(record: RuleRecord) -> RuleRecord:
    """The same record. Raises ValueError for a kind, name or pattern that it cannot have."""
    if record.record != RuleRecord.KIND:
        msg = f"record is {record.record!r}; wanted {RuleRecord.KIND}"
        raise ValueError(msg)
    if not 0 < len(record.name) <= MOST_NAME or not record.name.isprintable() or record.name != record.name.strip():
        msg = f"name is {record.name[:MOST_NAME]!r}; wanted 1 to {MOST_NAME} printable characters, no space at the ends"
        raise ValueError(msg)
    for part in SELECTED:
        check_pattern(part, getattr(record, part) or "")
    for part, given in {"labels": record.labels, OF_ROUTES: record.channels, "escalate_to": record.escalate_to}.items():
        if len(given or ()) > MOST_OF_ROUTE:
            msg = f"{part} has {len(given or ())} members; wanted at most {MOST_OF_ROUTE}"
            raise ValueError(msg)
    for part, pattern in record.labels.items():
        check_pattern(f"labels.{part}", pattern)
    if record.since is not None:
        instant("since", record.since)
    if not record.removed:
        rule = rule_from(keys_of(record), 0)
        if isinstance(rule, Rule):
            check_selected(rule.selected)
    return record


def check_pattern(part: str, pattern: str) -> None:
    """Raise ValueError for a pattern that is too long, or that costs too much for each name."""
    most = MOST_REGEX if pattern.startswith(REGEX) else MOST_PATTERN
    if len(pattern) > most:
        msg = f"{part} has {len(pattern)} characters; wanted at most {most}"
        raise ValueError(msg)
    if pattern.startswith(REGEX) and COUNTED.search(pattern):
        msg = f"{part} is {pattern!r}, which counts repetitions; wanted a regular expression without {{n}}"
        raise ValueError(msg)
    if pattern.startswith(REGEX) and UNICODE_CLASS.search(pattern):
        msg = f"{part} is {pattern!r}, with a class of Unicode; wanted a regular expression without \\p"
        raise ValueError(msg)


def parse_strict_json(text: str) -> dict[str, Any]:
    """A JSON object whose members have names of their own and finite numbers. Raises ValueError for anything else."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            msg = "a member is there twice"
            raise ValueError(msg)
        return found

    def refuse(name: str) -> float:
        msg = f"{name} is no number of JSON"
        raise ValueError(msg)

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            refuse(digits[:20])
        return number

    try:
        found = json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_float=finite)
    except RecursionError as error:
        msg = "nested too deeply"
        raise ValueError(msg) from error
    if not isinstance(found, dict):
        msg = f"a {type(found).__name__}; wanted a JSON object"
        raise ValueError(msg)
    return found


def keys_of(record: RuleRecord) -> dict[str, Any]:
    """The keys of a rule that a record gives, those that differ from what they are without it."""
    usual = RuleRecord(name="")
    own = {name: getattr(record, name) for name in KEYS}
    return {name: value for name, value in own.items() if name == "name" or value != getattr(usual, name)}


def rule_json(keys: Mapping[str, Any]) -> str:
    """Keys of a rule as JSON in one order."""
    return json.dumps(keys, sort_keys=True, ensure_ascii=False)


def rule_from(keys: Mapping[str, Any], since: int) -> Rule | Route:
    """The rule with these keys, from `since` on (epoch ms) where they do not say. Raises ValueError for one that cannot be meant.

    With `channels` it is a route.
    """
    begin: dict[str, Any] = {} if "since" in keys or "reset" in keys else {"since": moment(since)}
    kind = Route if OF_ROUTES in keys else Rule
    foreign = keys.keys() - {field.name for field in fields(kind)}
    if foreign and foreign <= set(KEYS):
        own = "channels says where incidents go" if kind is Route else "without channels it is about series"
        msg = f"no key {sorted(foreign)[0]!r} in such a rule: {own}"
        raise ValueError(msg)
    return Route(**begin, **keys) if kind is Route else rule_of({**begin, **keys})


def moment(milliseconds: float) -> datetime:
    """A time from epoch milliseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def milliseconds_of(text: str) -> float:
    """Epoch milliseconds of an instant in a record."""
    return datetime.fromisoformat(text).timestamp() * 1000


def record_text(keys: Mapping[str, Any], **about: str) -> dict[str, Any]:
    """A rule as a record of the topic; `about` may have `comment`, `author` and `incident`."""
    return {"record": RuleRecord.KIND, **keys, **{name: text for name, text in about.items() if text}}


def forgotten_until(since: int, window_ms: int) -> int:
    """Rules that ended before then are forgotten when a record comes in the window that begins at `since`; it moves once an hour. Epoch ms."""
    return (since + window_ms) // HOUR_MS * HOUR_MS - window_ms


# Offset, when the window begins in which it was appended (epoch ms), name, JSON: None for what is no rule.
Placed = tuple[int, int, str, str | None]
OnRefused = Callable[[int, str], None]  # called with the offset and the reason


def rule_in(placed: Placed) -> LoggedRule | None:
    """The rule that a record says, whether it is in effect or has ended; None for what is no rule, and for the end of one."""
    offset, since, name, text = placed
    try:
        record = None if text is None else record_under(name, text, since)
    except ValueError:
        return None
    return None if record is None or record.removed else LoggedRule(name, rule_json(keys_of(record)), since, offset)


def take_all(
    log: RuleLog, records: Iterable[Placed], window_ms: int, on_refused: OnRefused = lambda offset, reason: None
) -> Iterator[Placed]:
    """Take records into a log in the order of their offsets, as windows of this length do.

    Yields each that has changed it. One that is refused comes without its JSON, where there was a rule of its name.
    """
    forgotten = None
    for offset, since, name, text in records:
        if forgotten != (until := forgotten_until(since, window_ms)):
            forgotten = until
            log.forget(until)
        before = log.known.get(name)
        try:
            if log.take(name, text, offset, since):
                yield offset, since, name, text
        except ValueError as error:
            on_refused(offset, str(error))
            if log.known.get(name) != before:
                yield offset, since, name, None
