"""The one table of `make accuracy`: each measure with its collection left out of the choice, with it, beside baselines and publications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

HOSTS = {
    "auc_pr": "AUC-PR",
    "best_f1": "best F1",
    "vus_pr": "VUS-PR",
    "event_recall": "events found",
    "precision": "precision",
    "false_per_day": "false a day",
}
# collection -> measures that are shown, by the first of which baselines and publications are ranked; the rest is in --json
MEASURES: dict[str, dict[str, str]] = {
    "nab": {
        "standard": "standard",
        "reward_low_FP_rate": "low FP",
        "reward_low_FN_rate": "low FN",
        "windows_found": "windows found",
        "false_rows": "false rows",
        "split": "split",
    },
    "wsd": {
        "f1": "F1 of events",
        "precision": "precision",
        "recall": "recall",
        "false_per_week": "false a curve and week",
        "best_pa7_f1": "best F1, 7 rows",
    },
    "smd": HOSTS,
    "asd": HOSTS,
    "tcpd": {"f1": "F1", "covering": "covering", "precision": "precision", "recall": "recall"},
    "logs": {"ga": "grouping accuracy", "fga": "F1 of groups"},
    "nezha": {
        "in_time": "faults in time, of 17",
        "found": "found at all",
        "first": "faulty pod first",
        "far_per_day": "far from any, a day",
        "per_stop": "incidents a stop",
        "incidents": "incidents",
    },
    "petshop": {
        "latency_top1": "latency: first",
        "latency_top3": "among three",
        "latency_specificity": "specificity",
        "availability_top1": "availability: first",
        "availability_top3": "among three",
        "availability_specificity": "specificity",
    },
    "sockshop": {"top1": "service first", "avg5": "Avg@5", "m_top1": "metric first", "m_avg5": "Avg@5"},
    "nezha causes": {"top1": "pod first", "top3": "among three"},
}
LOWER_IS_BETTER = ("false_rows", "false_per_week", "false_per_day", "far_per_day", "incidents", "per_stop")
TENTH = 0.1
FITTED, WORSE = "!", "<"
NOTES = (
    f"{FITTED} left out and with differ by more than a tenth    {WORSE} worse than the baseline    "
    "figure: of 1, mean of what is most important (benchmarks.judgement), with the spread of a block bootstrap"
)
Row = Mapping[str, float]


@dataclass
class Measured:
    """What was measured of a collection: rows of measures by name.

    Attributes
    ----------
    shipped, left_out
        With the shipped configuration, and with the one that the other collections choose; None where none was chosen.
    configuration
        That configuration.
    naive, others, published
        Baselines and other models that were run, and what others published, by who.
    copies
        The figure of perturbed copies by kind.
    """

    shipped: Row = field(default_factory=dict)
    left_out: Row | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    naive: dict[str, Row] = field(default_factory=dict)
    others: dict[str, Row] = field(default_factory=dict)
    published: Mapping[str, Row] = field(default_factory=dict)
    copies: dict[str, float] = field(default_factory=dict)


def table_of(collections: Mapping[str, Measured], *, everyone: bool = False) -> Table:
    """One table, a section for each collection; with `everyone` all baselines, other models and publications."""
    view = Table(caption=NOTES, caption_justify="left")
    for head in ("", "left out", "with", "naive", "best published"):
        view.add_column(head)
    for name, found in collections.items():
        measures = MEASURES[name]
        key = next(iter(measures))
        naive, published = best_by(key, found.naive), best_by(key, found.published)
        view.add_section()
        chosen = ", ".join(f"{k} {v}" for k, v in found.configuration.items()) or "as shipped"
        heads = (
            chosen if found.left_out is not None else "nothing to choose",
            f"{found.shipped.get('seconds', 0):.0f} s",
        )
        view.add_row(f"[bold]{name}", *heads, naive or "", published or "")
        for measure, words in figure_first(measures, found):
            view.add_row(words, *cells(measure, found, found.naive.get(naive, {}), found.published.get(published, {})))
        for kind, value in found.copies.items():
            view.add_row(f"figure, {kind}", "", f"{value:.3f}")
        for who, row in [*found.naive.items(), *found.others.items(), *found.published.items()] if everyone else ():
            view.add_row(who, "", "  ".join(f"{row[one]:.3g}" for one in measures if one in row))
    return view


def figure_first(measures: Mapping[str, str], found: Measured) -> Iterable[tuple[str, str]]:
    """Measures with what they are called, after the one figure where there is one."""
    return [*([("figure", "figure")] if "figure" in found.shipped else []), *measures.items()]


def best_by(measure: str, rows: Mapping[str, Row]) -> str:
    """Who has the best value; empty where there is no one."""
    known = {who: row[measure] for who, row in rows.items() if measure in row}
    sign = -1 if measure in LOWER_IS_BETTER else 1
    return max(known, key=lambda who: sign * known[who]) if known else ""


def cells(measure: str, found: Measured, naive: Row, published: Row) -> tuple[str, str, str, str]:
    """The cells of a measure: left out, with, naive, published, with their marks."""
    own, left = found.shipped.get(measure), None if found.left_out is None else found.left_out.get(measure)
    mark_left = f" {FITTED}" if own is not None and left is not None and differs(own, left) else ""
    beaten = own is not None and measure in naive and worse(measure, own, naive[measure])
    spread = f" ± {found.shipped['spread']:.3f}" if measure == "figure" and "spread" in found.shipped else ""
    return (
        text(left) + mark_left,
        text(own) + spread + (f" {WORSE}" if beaten else ""),
        text(naive.get(measure)),
        text(published.get(measure)),
    )


def differs(shipped: float, left_out: float) -> bool:
    """Whether the two differ by more than a tenth of the greater."""
    return abs(shipped - left_out) > TENTH * max(abs(shipped), abs(left_out))


def worse(measure: str, own: float, other: float) -> bool:
    """Whether the own value is the worse one."""
    return own > other if measure in LOWER_IS_BETTER else own < other


def text(value: float | None) -> str:
    """A number with four digits at most; nothing where there is none."""
    return "" if value is None else f"{value:.4g}" if abs(value) >= 1 else f"{value:.3f}"
