"""Rules checked against known series: what each matches, which contradict each other, which have no effect."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.core.series import parse
from models.records.records import INFO
from models.rules.route import Route
from models.rules.rule import NUMBERS, Rule, SeriesParts

EXAMPLES = 3
# Kinds of series that a key has an effect on; the other keys have one on all.
METRICS, LOGS = ("gauge", "counter"), ("logs", "template")
CONCERNED = {
    "alarm_chance": METRICS,
    "direction": (*METRICS, *LOGS),
    "least_deviation": (*METRICS, *LOGS),
    "least_relative_deviation": (*METRICS, *LOGS),
    "half_life_days": (*METRICS, *LOGS),
    "warm_up_minutes": (*METRICS, *LOGS),
    "dont_learn": (*METRICS, *LOGS),
}


@dataclass(frozen=True)
class ExplainedRule:
    """A rule in words: title, effects, when it holds, how many series of how many hosts it matches, and examples."""

    title: str
    does: str
    when: str
    matches: int
    hosts: int
    examples: tuple[str, ...]


def explain(rules: Sequence[Rule], series: Mapping[str, str | None]) -> tuple[list[ExplainedRule], list[str]]:
    """Explain rules, and warn of those without effect and of contradictions.

    Parameters
    ----------
    rules
        In the order of the file.
    series
        Names of known series, each with the text of its template or None. Their hosts and services are added as series.

    Returns
    -------
    list of Explained, list of str
        One explanation for each rule, and warnings as sentences.
    """
    known = dict(series) | dict.fromkeys(host_and_service_names(series))
    parts = SeriesParts([parse(name) for name in known], list(known.values()))
    matched = [set(itertools.compress(known, rule.selector.mask(parts).tolist())) for rule in rules]
    found = [explain_rule(rule, number, matched[number]) for number, rule in enumerate(rules)]
    warnings: list[str] = []
    for number, rule in enumerate(rules):
        warnings += warn_of_idle_keys(rule, rule.title(number), matched[number], bool(known))
    for one, other in itertools.combinations(range(len(rules)), 2):
        warnings += warn_of_conflicts(rules, one, other, matched[one] & matched[other])
    return found, warnings


def host_and_service_names(series: Mapping[str, str | None]) -> set[str]:
    """Names of the series that stand for the hosts and services of `series`."""
    parts = [name.split("/") for name in series]
    return {f"host/{p[1]}" for p in parts} | {f"service/{p[1]}/{p[2]}" for p in parts if len(p) > 2 and p[2]}


def explain_rule(rule: Rule, number: int, matched: set[str]) -> ExplainedRule:
    """The explanation of a rule that matches these series."""
    examples = tuple(sorted(matched)[:EXAMPLES])
    hosts = len({name.split("/")[1] for name in matched})
    return ExplainedRule(
        rule.title(number), describe_effects(rule), describe_times(rule), len(matched), hosts, examples
    )


def describe_selection(rule: Rule | Route) -> str:
    """Which series a rule selects, or which incidents a route, in words."""
    if isinstance(rule, Rule):
        parts = [f"{part}={text}" if text else f"no {part}" for part, text in rule.selected.items()]
        return " ".join(parts) or "all"
    given: dict[str, str | None] = {"host": rule.host, "service": rule.service}
    given |= {f"labels.{name}": text for name, text in rule.labels.items()}
    parts = [f"{part}={text}" for part, text in given.items() if text is not None]
    parts += [f"kinds={','.join(rule.kinds)}"] if rule.kinds else []
    parts += [f"severity={rule.severity}"] if rule.severity != INFO else []
    return " ".join(["incidents", *parts])


def describe_effects(rule: Rule | Route) -> str:
    """The effects of a rule, or where a route leads, in words."""
    if isinstance(rule, Route):
        further = f", after {rule.escalate_minutes:g} minutes {', '.join(rule.escalate_to)}" if rule.escalate_to else ""
        return f"channels {', '.join(rule.channels) or 'none'}{further}"
    return ", ".join(name if value is True else f"{name} {value}" for name, value in rule.given_effects.items())


def describe_times(rule: Rule | Route) -> str:
    """When a rule holds, in words; all times are event times."""
    if isinstance(rule, Route):
        rule = rule.times
    if rule.reset is not None:
        return f"once, with the first window after {rule.reset}"
    words = [f"from {rule.since}"] if rule.since else []
    words += [f"to {rule.until}"] if rule.until else []
    if rule.has_calendar:
        words += [f"{' '.join(rule.days) or 'every day'} {rule.hours or '00:00-24:00'} {rule.zone}"]
    return ", ".join(words) or "always"


def warn_of_idle_keys(rule: Rule, title: str, matched: set[str], known: bool) -> list[str]:
    """Warnings of keys of a rule that have no effect on any series it matches."""
    if known and not matched:
        return [f"{title} matches no series that is known"]
    found = []
    for name in rule.given_effects:
        kinds = CONCERNED.get(name)
        if kinds and matched and not any(parse(series).kind in kinds for series in matched):
            found.append(f"{title}: {name} does nothing for what it matches; it is for {', '.join(kinds)}")
    return found


def warn_of_conflicts(rules: Sequence[Rule], one: int, other: int, both: set[str]) -> list[str]:
    """Warnings of values in which two rules differ for the same series at the same time; calendars count as overlapping."""
    first, second = rules[one], rules[other]
    apart = first.span[1] <= second.span[0] or second.span[1] <= first.span[0]
    if not both or apart:
        return []
    found = []
    for name in ("direction", *NUMBERS):
        a, b = getattr(first, name), getattr(second, name)
        if a is not None and b is not None and a != b:
            titles = first.title(one), second.title(other)
            what = f"{titles[0]} says {name} {a}, {titles[1]} says {b}, of {len(both)} series such as {min(both)}"
            found.append(f"{what}: the later one, {titles[1]}, counts")
    return found
