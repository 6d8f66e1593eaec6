"""Sentences about episodes for a person: what was seen, what was expected.

Since when, and how sure that is, are fields of the episode and no part of its sentence: whoever shows it does so in the time zone of
who reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.core.series import Series
from models.core.wording import MOST_FURTHER, compare_shown, distinguishable, duration, number
from models.records.records import Overflow

MOST_CHARACTERS = 160
Shares = Sequence[
    tuple[str, float, float, float]
]  # texts of templates, shares, and the least and most expected, percent
BY_FEATURE = {
    "log level": "an unusual level",
    "step": "an unusual step",
    "fast mean": "an unusual mean of late",
    "roughness": "an unusual roughness",
    "rhythm": "unusual at this hour of the day",
    "local": "an unusual step in a calm hour",
    "spread within": "an unusual spread within the window",
}
PART_OF_FEATURE = {
    "log level": "level",
    "step": "step",
    "fast mean": "mean",
    "roughness": "roughness",
    "rhythm": "rhythm",
    "local": "local",
    "spread within": "spread",
}


def between(low: str, high: str) -> str:
    """An interval, of numbers as they are shown."""
    return low if low == high else f"{low} to {high}"


def held(value: float, lower: float, upper: float, unit: str = "", strange: str = "") -> str:
    """A value and what was expected of it. Where it is `strange` otherwise, and not outside of the interval, that comes first."""
    text, low, high = distinguishable(value, lower, upper)
    if lower <= value <= upper:
        return (
            f"{text}{unit}{f': {strange}, though' if strange else ','} within the expected {between(low, high)}{unit}"
        )
    return f"{text}{unit}, expected {between(low, high)}{unit}{f': {strange}' if strange else ''}"


def place(series: Series) -> str:
    """`HOST/SERVICE`, or the host of a series without a service."""
    return f"{series.host}/{series.service}" if series.service else series.host


def subject(series: Series) -> str:
    """A metric by its name, after that of its service where it has one."""
    return f"{series.service} {series.metric}" if series.service else series.metric


def percent(probability: float) -> str:
    """A probability in percent, never rounded to 0 or 100."""
    if not 0.01 <= probability <= 0.999:
        return "less than 1 %" if probability < 0.01 else "more than 99.9 %"
    return f"{100 * probability:.1f} %" if probability > 0.99 else f"{100 * probability:.0f} %"


def value_off(series: Series, value: float, lower: float, upper: float, unit: str, feature: str) -> str:
    """A value that is improbable by one of its features, mostly outside its interval."""
    return f"{subject(series)} {held(value, lower, upper, unit, BY_FEATURE[feature])}"


def peers_off(series: Series, value: float, peers: int, median: float, *, lower: float, upper: float) -> str:
    """A value that is too far from those of the other hosts of its role."""
    own, usual, low, high = distinguishable(value, median, lower, upper)
    return (
        f"{subject(series)} {own}, the other {peers:,} hosts with {series.service} have {usual} ({between(low, high)})"
    )


def rough(series: Series, moves: float, usual: float, unit: str) -> str:
    """Values that move too much, or too little, from window to window."""
    now, before = distinguishable(moves, usual)
    return f"{subject(series)} moves by {now}{unit} from window to window, usually by {before}{unit}"


def mean_off(series: Series, value: float, lower: float, upper: float, unit: str) -> str:
    """A fast mean, mostly outside its interval."""
    strange = BY_FEATURE["fast mean"] if lower <= value <= upper else ""
    return f"{subject(series)} averages {held(value, lower, upper, unit, strange)}"


def stuck(series: Series, value: float, seconds: float, unit: str) -> str:
    """A value that is repeated exactly."""
    return f"{subject(series)} stuck at {number(value)}{unit} for {duration(seconds)}, it normally varies"


def new_level(
    series: Series, value: float, old: float, *, lower: float, upper: float, unit: str, of: str = "new level"
) -> str:
    """A change of level that was adopted; `of` says what kind of level it is."""
    now, before, low, high = distinguishable(value, old, lower, upper)
    return f"{subject(series)} {of} {now}{unit}, was {before}{unit} ({between(low, high)})"


def new_spread(series: Series, spread: float, old: float, unit: str) -> str:
    """A change of spread that was adopted."""
    now, before = distinguishable(spread, old)
    return f"{subject(series)} spreads by {now}{unit}, was {before}{unit}"


def over_limit(over: Overflow, what: str, shard: int) -> str:
    """A host, or a shard of the fleet, that has more of `what` than it may."""
    owner = f"host {over.host}" if over.host else f"shard {shard}"
    if over.wanted <= over.most:  # `extract` counts long names several times, and has bounds for a part of the hosts
        why = "with long names" if over.host else "with long names, or of hosts that are summed together"
        return f"{owner} has {over.wanted:,} {what} {why}: more than there is room for; {over.left_out:,} are left out"
    times = f"{over.wanted / over.most:.3g} times the {over.most:,} that"
    may = "a host may have" if over.host else "there may be in a shard"
    return f"{owner} has {over.wanted:,} {what}, {times} {may}; {over.left_out:,} are left out"


def head(series: Series) -> str:
    """How a sentence about lines begins: with the service, where there is one."""
    return f"{series.service}: " if series.service else ""


def lines_of(series: Series, template: str | None, unit: str = "") -> str:
    """What is counted: lines of a level, or of a template."""
    if template is not None or series.template_id:
        return f"lines{unit} of {short(template or series.template_id)!r}"
    return f"{series.level.upper()} lines{unit}" if series.level else f"lines{unit}"


def count_off(
    series: Series, template: str | None, per_minute: float, lower: float, upper: float, *, seconds: float
) -> str:
    """Too many or too few lines; the numbers are lines a minute."""
    text, low, high = distinguishable(per_minute, lower, upper)
    within = "within the expected" if lower <= per_minute <= upper else "expected"
    if per_minute == 0:
        return f"{head(series)}no {lines_of(series, template)} for {duration(seconds)}, {within} {between(low, high)} lines/min"
    return f"{head(series)}{text} {lines_of(series, template, '/min')}, {within} {between(low, high)}"


def more_often(series: Series, template: str | None, times: float, seconds: float) -> str:
    """Lines that have come so many times as often as usual, for so many seconds."""
    often = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
    return f"{head(series)}{lines_of(series, template)} come {often} times as often as usual for {duration(seconds)}"


def overdue(series: Series, template: str | None, seconds: float, every: float) -> str:
    """Lines that have not come in time: for so many seconds, where they come every so many."""
    return f"{head(series)}no {lines_of(series, template)} for {duration(seconds)}, they come every {duration(every)}"


def ended(series: Series, template: str | None, every: float) -> str:
    """Lines that came at regular times, and do so no longer."""
    return f"{head(series)}{lines_of(series, template)} no longer come every {duration(every)}"


def mix_off(series: Series, parts: Shares) -> str:
    """Templates with an improbable share of a service's lines."""
    texts = []
    for place, (text, *numbers) in enumerate(parts):
        share, low, high = shares(*numbers)
        within = "within the expected" if numbers[1] <= numbers[0] <= numbers[2] else "expected"
        of = "" if place else f" of {lines_in(series)}"
        texts.append(f"{short(text)!r} is {share} %{of}, {within} {between(low, high)} %")
    return "; ".join(texts)


def new_mix(series: Series, parts: Shares) -> str:
    """A change of those shares that was adopted."""
    texts = []
    for text, *numbers in parts:
        share, low, high = shares(*numbers)
        texts.append(f"{short(text)!r} {share} %, was {between(low, high)} %")
    return f"new mix of {lines_in(series)}: {'; '.join(texts)}"


def shares(share: float, lower: float, upper: float) -> list[str]:
    """Percentages as `distinguishable`, of which no more than hundredths are given unless they are needed."""
    given = share, lower, upper
    for decimals in range(2, 2 + MOST_FURTHER):
        rounded = [round(one, decimals) for one in given]
        if all(
            compare_shown(share, one) == compare_shown(rounded[0], text)
            for one, text in zip(given[1:], rounded[1:], strict=True)
        ):
            break
    return distinguishable(*rounded)


def lines_in(series: Series) -> str:
    """All lines of a service, or of a host that names none."""
    return f"{series.service}'s lines" if series.service else f"the lines of {series.host}"


def silent(what: str, seconds: float, usual: float, delay: float = 0.0) -> str:
    """A host or metric that has stopped reporting; before, it did in the share `usual` of windows.

    Silences that were reported are not learnt, so these windows are those outside of them.

    `delay` is by how many seconds records of the host are late that are refused; negative if they are ahead of time, 0 if there are none.
    """
    late = f"{duration(delay)} late, by its clock or on the way"
    ahead = f"{duration(-delay)} ahead of time, by its clock"
    refused = f"; what it sends is refused: {late if delay > 0 else ahead}" if delay else ""
    return (
        f"{what} silent for {duration(seconds)}, it reported in {percent(usual)} of windows outside of outages{refused}"
    )


def new_template(series: Series, template: str | None) -> str:
    """A template that was never seen in its service."""
    return f"never-seen template in {place(series)}: {short(template or series.template_id)}"


def short(text: str) -> str:
    """A text cut to at most `MOST_CHARACTERS`."""
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3] + "..."
