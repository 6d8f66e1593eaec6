"""Times, ages, numbers and names as people on call read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from models.core.printable import printable
from models.core.series import parse
from models.core.wording import distinguishable
from models.core.wording import number as short

# A row of a frame, or anything else that is read by column names.
Row = Mapping[str, Any] | pd.Series

TIME_FORMAT = "%Y-%m-%d %H:%M:%S %Z"
UNITS = (("days", 86_400), ("h", 3_600), ("min", 60))
# Text about a novelty besides its reason: see `explanation_text`.
SURE = 0.5
MANY = 1.5  # a day: from here on people count per day
DAYS_A_YEAR, MOST_YEARS = 365.25, 10_000
MOST_TEXT = 4_000  # characters of a text in a sentence
JOINER = "\N{WORD JOINER}"
# What becomes a link, or of `:smile:` a picture, even where it is escaped.
ADDRESS = re.compile(r"(:(?=//)|:(?=[a-z+-][\w+-]*:)|www(?=\.)|.(?=@))", re.IGNORECASE)
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def age_text(age: timedelta) -> str:
    """An age in the largest unit that fits."""
    seconds = age.total_seconds()
    return f"{duration(age)} old" if seconds >= 0 else f"{-seconds:.0f} s ahead of this machine's clock"


def duration(length: timedelta) -> str:
    """A length of time in the largest unit of which there are two."""
    seconds = length.total_seconds()
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def local_text(time: datetime, zone: ZoneInfo) -> str:
    """A time as people there write it, with its zone."""
    return time.astimezone(zone).strftime(TIME_FORMAT)


def clock(time: datetime, zone: ZoneInfo) -> str:
    """A time that is mostly of the last days: the date is left out where it is today's, the year where it is this one."""
    local, today = time.astimezone(zone), datetime.now(tz=zone)
    if local.date() == today.date():
        return local.strftime("%H:%M:%S")
    return local.strftime("%a %d %b, %H:%M" if local.year == today.year else "%a %d %b %Y, %H:%M")


def number(value: Any, unit: str | None = None) -> str:
    """A number with its unit; a dash for what is not known."""
    if value is None or pd.isna(value):
        return "–"
    return with_unit(short(float(value)), unit)


def with_unit(text: str, unit: str | None) -> str:
    """`3 lines/min`, but `3/s`."""
    return f"{text}{' ' if unit and unit[0].isalpha() else ''}{unit or ''}"


def plain(text: Any) -> str:
    """A text as it is, where Markdown is read: names, templates and messages come from anybody.

    Every sign of ASCII punctuation is escaped, which Markdown allows for each; control characters, line breaks and characters
    that turn the direction of writing become U+FFFD, white space becomes single spaces. Addresses would become links, and names
    between colons pictures, even when they are escaped: a character that is not seen keeps them apart.
    """
    return PUNCTUATION.sub(r"\\\1", ADDRESS.sub(rf"\1{JOINER}", one_line(text)))


def code(text: Any) -> str:
    """A name as a code span, where Markdown is read, whatever signs it holds."""
    found = one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", found)), default=0))
    return f"{fence}{found}{fence}" if found and len(fence) == 1 else f"{fence} {found} {fence}"


def one_line(text: Any) -> str:
    """The beginning of a text in one line, without characters that are not seen."""
    found = printable(" ".join(str(text).split()), "\N{REPLACEMENT CHARACTER}")
    return found if len(found) <= MOST_TEXT else f"{found[:MOST_TEXT]} …"


def make_visible(value: Any) -> Any:
    """A value whose texts, also in lists and objects, are one line each, without invisible characters."""
    match value:
        case str():
            return one_line(value)
        case list():
            return [make_visible(one) for one in value]
        case dict():
            return {name: make_visible(one) for name, one in value.items()}
    return value


def map_texts(rows: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Rows whose columns of texts, or of lists of them, are changed value by value."""
    texts = rows.select_dtypes(["object", "string"])
    return rows.assign(**{str(name): texts[name].map(change) for name in texts})


def plural(count: int, thing: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{count:,} {thing}{'' if count == 1 or thing.endswith('series') else 's'}"


def first_names(names: list[str] | tuple[str, ...], most: int = 3, count: float | None = None) -> str:
    """The first names, and how many more there are of `count` in all, for where Markdown is read."""
    return join_names(names, most, count, plain)


def join_names(names: Sequence[str], most: int, count: float | None, shown: Callable[[Any], str]) -> str:
    """As `first_names`, with names formatted by `shown`. Without `count`, or with one below their number, the names are all there are."""
    first, known = names[:most], len(names) if count is None or pd.isna(count) else max(len(names), int(count))
    more = f" and {known - len(first):,} more" if 0 < len(first) < known else ""
    return ", ".join(map(shown, first)) + more


def series_text(series: str) -> str:
    """A series' name for people: what it measures, then where."""
    try:
        parts = parse(series)
    except ValueError:
        return series
    where = " · ".join(part for part in (parts.host, parts.service) if part)
    if parts.kind == "logs":
        return f"{parts.level} lines · {where}"
    if parts.kind == "template":
        return f"{parts.level} template {parts.template_id[:8]} · {where}"
    return f"{parts.metric or f'whole {parts.kind}'} · {where}"


def log_location(series: str) -> str:
    """Where log lines are written, and of which level; the name itself if it is not that of a series of log lines."""
    try:
        parts = parse(series)
    except ValueError:
        return series
    return " · ".join(part for part in (parts.host, parts.service, parts.level) if part)


def axis_title(series: str) -> str:
    """The title of the value's axis: what it is, with its unit where that is known."""
    kind, _, rest = series.partition("/")
    if kind in ("logs", "template"):
        return "lines a minute"
    try:
        return parse(series).metric + (" (per second)" if kind == "counter" else "")
    except ValueError:
        return rest


def novelty_subject(novelties: pd.DataFrame) -> pd.Series[str]:
    """What a novelty is about: a metric, a template, lines of a level; else a whole service or host."""
    lines = novelties["level"].dropna() + " lines"
    whole = "whole " + novelties["series"].str.partition("/")[0]
    found: pd.Series[str] = novelties["metric"].fillna(novelties["template"]).fillna(lines).fillna(whole).astype(str)
    return found


def percent(share: float) -> str:
    """A share of what has many parts, none of which is nothing."""
    return f"{share:.0%}" if share >= 0.01 else "under 1%"


def expectation_text(row: Row) -> str:
    """Observed and expected values, unless its reason has them already; empty if the novelty is not about a number."""
    if row.get("value") is None or pd.isna(row["value"]):
        return ""
    unit = row.get("unit")
    low, high = (row.get(name) for name in ("lower", "upper"))
    reason = row.get("reason") or ""
    if low is None or high is None or pd.isna(low) or pd.isna(high) or ", was " in reason:
        return ""
    seen, lower, upper = distinguishable(float(row["value"]), float(low), float(high))
    own = [f"seen {with_unit(seen, unit)}", f"expected {lower} to {with_unit(upper, unit)}"]
    phrases = [] if "expected " in reason else own
    if not pd.isna(row.get("typical")):
        phrases.append(f"typically {number(row['typical'], unit)}")
    return ", ".join(phrases)


def explanation_text(row: Row) -> str:
    """Before and after where its reason does not say them, the part of the model that found it, its certainty, and whether it is provisional.

    Empty where the document does not say.
    """
    phrases = []
    before, after = row.get("before"), row.get("after")
    known = before is not None and after is not None and not pd.isna(before) and not pd.isna(after)
    if known and ", was " not in (row.get("reason") or ""):
        phrases.append(f"was {number(before, row.get('unit'))}, is {number(after, row.get('unit'))} now")
    if row.get("part"):
        phrases.append(f"found by: {row['part']}")
    certainty = row.get("certainty")
    if certainty is not None and not pd.isna(certainty) and certainty > SURE:
        phrases.append(f"{min(float(certainty), 0.999):.1%} sure")
    if row.get("provisional") is True:
        phrases.append("may pass or last")
    return ", ".join(phrases)


def frequency_text(per_day: float) -> str:
    """A number of events a day as people say it: several a day, or one in so many days, months or years."""
    if per_day >= MANY:
        return f"{per_day:.2g} a day"
    if per_day * MOST_YEARS * DAYS_A_YEAR < 1.0:
        return f"less than one in {MOST_YEARS:,} years"
    days = 1.0 / per_day
    for size, unit in ((DAYS_A_YEAR, "years"), (DAYS_A_YEAR / 12, "months"), (1.0, "days")):
        if round(days / size) >= 2:
            return f"one in {float(f'{days / size:.2g}'):,.0f} {unit}"
    return "one a day"


def scope_text(about: Mapping[str, Any]) -> str:
    """The scope of an incident, and how often chance causes one like it; empty if its document lacks them."""
    phrases = []
    if about.get("scope") == "fleet" and about.get("population"):
        phrases.append(
            f"the whole fleet: {about['affected']:,} of {about['population']:,} hosts that could do the same"
        )
    elif about.get("affected"):
        phrases.append(plural(int(about["affected"]), "host"))
    per_day = about.get("false_alarms_per_day")
    if per_day is not None:
        phrases.append(f"chance makes {frequency_text(float(per_day))} in the whole fleet")
    return " · ".join(phrases)
