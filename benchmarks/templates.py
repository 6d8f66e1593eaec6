"""`python -m benchmarks.templates`: templates of hand-labelled logs, per system; what they withstand; lines a second.

The labelled logs are no part of this project: a folder `data/logs/SYSTEM/SYSTEM_2k.log` with `SYSTEM_2k.log_structured.csv`
beside it, with the columns LineId, Content, EventId and CorrectedEventId.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from app.core.settings import PROJECT
from app.simulator.parameters import COLUMN
from app.simulator.vocabulary import PARAMETER, TEMPLATES
from models.templates.extraction import mask_messages, template_of
from models.templates.masks import MASKS
from models.templates.merging import merge_templates

SHARED = PROJECT.parent / "shared"


@dataclass(frozen=True)
class System:
    """Lines as they are in the file, their messages, and which lines belong together: as published, and as corrected."""

    name: str
    lines: list[str]
    messages: list[str]
    labels: list[str]
    corrected: list[str]


def systems(folder: Path) -> list[System]:
    """Every labelled log of a folder."""
    found = []
    for file in sorted(folder.glob("*/*_2k.log_structured.csv")):
        with file.open(encoding="utf-8", errors="replace", newline="") as rows:
            table = list(csv.DictReader(rows))
        log = file.with_name(file.name.removesuffix("_structured.csv"))
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        columns = {name: [row[name] for row in table] for name in ("LineId", "Content", "EventId", "CorrectedEventId")}
        own = [lines[int(number) - 1] for number in columns["LineId"]]
        found.append(System(file.parent.name, own, columns["Content"], columns["EventId"], columns["CorrectedEventId"]))
    return found


def accuracy(found: Sequence[Hashable], labels: Sequence[Hashable]) -> tuple[float, float]:
    """Grouping accuracy, the share of lines in groups that are found exactly; and the F1 of the groups."""
    pairs, ours, theirs = Counter(zip(found, labels, strict=True)), Counter(found), Counter(labels)
    exact = {pair: n for pair, n in pairs.items() if n == ours[pair[0]] == theirs[pair[1]]}
    return sum(exact.values()) / len(labels), 2 * len(exact) / (len(ours) + len(theirs))


def over(
    every: Iterable[System], of: Callable[[System], tuple[Sequence[Hashable], Sequence[Hashable]]]
) -> dict[str, float]:
    """Mean accuracy over the systems: of gives what is found, and the labels."""
    both = [accuracy(*of(system)) for system in every]
    return {"ga": float(np.mean([ga for ga, _ in both])), "fga": float(np.mean([fga for _, fga in both]))}


def renamed(messages: list[str], seed: int) -> list[str]:
    """Every word of four letters or more that carries no meaning for the masks becomes another, the same one throughout."""
    kept = re.compile("(?i)user|name|account|from|(?:[a-f]{8})")
    choice = random.Random(seed)
    names: dict[str, str] = defaultdict(
        lambda: "".join(choice.choice("klmnprstvz") + choice.choice("iou") for _ in range(4))
    )

    def other(token: str) -> str:
        if re.search(r"[\d/\\@]|\w\.\w", token):
            return token
        return re.sub("[A-Za-z]{4,}", lambda m: m[0] if kept.search(m[0]) else names[m[0]], token)

    return [" ".join(other(token) for token in message.split(" ")) for message in messages]


def renumbered(messages: list[str], seed: int) -> list[str]:
    """Every whole number of five digits or more becomes another, of any length."""
    choice = random.Random(seed)
    number = re.compile(r"(?<![\w.:-])\d{5,}(?![\w:-]|\.\d)")
    return [number.sub(lambda _: str(choice.randrange(10 ** choice.randrange(1, 10))), m) for m in messages]


def sampled(system: System, seed: int, lines: int = 300) -> tuple[list[str], list[str]]:
    """A few lines of a log, in another order."""
    chosen = random.Random(seed).sample(range(len(system.lines)), lines)
    return templates(system.lines[i] for i in chosen), [system.labels[i] for i in chosen]


def withstood(every: list[System]) -> dict[str, dict[str, float]]:
    """Accuracy where the lines are others than those that the masks were made with."""
    return {
        "masks alone, no merging": over(every, lambda s: ([*map(template_of, s.lines)], s.labels)),
        "messages alone, without headers": over(every, lambda s: (templates(s.messages), s.labels)),
        "other words": over(every, lambda s: (templates(renamed(s.messages, 1)), s.labels)),
        "other numbers": over(every, lambda s: (templates(renumbered(s.messages, 2)), s.labels)),
        "300 lines, shuffled": over(every, lambda s: sampled(s, 3)),
        "masks that only the system needs left out": left_out(every),
    }


def templates(lines: Iterable[str]) -> list[str]:
    """The template of each line, once `detect` has seen them all."""
    return merge_templates([template_of(line) for line in lines])


def left_out(every: list[System]) -> dict[str, float]:
    """Leave one system out: each is masked without what improves no other system."""
    without = [
        [accuracy(mask_messages(s.lines, [*MASKS[:i], *MASKS[i + 1 :]]), s.labels)[0] for s in every]
        for i in range(len(MASKS))
    ]
    worth = np.array([accuracy(templates(s.lines), s.labels)[0] for s in every]) - np.array(without)  # (masks, systems)
    needed = worth > 1e-9
    rest = {
        s.name: [m for m, by in zip(MASKS, needed, strict=True) if not by[k] or by.sum() > 1]
        for k, s in enumerate(every)
    }
    return over(every, lambda s: (merge_templates(mask_messages(s.lines, rest[s.name])), s.labels))


def simulated(seed: int, lines: int = 20_000) -> dict[str, float]:
    """Accuracy on lines of the simulator, whose users, topics and methods are plain words."""
    rng = np.random.default_rng(seed)
    weight = np.array([t.weight for t in TEMPLATES])
    chosen = rng.choice(len(TEMPLATES), lines, p=weight / weight.sum()).tolist()
    drawn = rng.integers(0, 2**63, (lines, 8)).tolist()
    found: dict[str, list[str]] = defaultdict(list)  # by service
    wanted: dict[str, list[Hashable]] = defaultdict(list)
    for index, numbers in zip(chosen, drawn, strict=True):
        values = iter(numbers)
        text = PARAMETER.sub(lambda kind: COLUMN[kind[1]]([next(values)])[0], TEMPLATES[index].text)  # noqa: B023
        found[TEMPLATES[index].service].append(text)
        wanted[TEMPLATES[index].service].append(index)
    pairs = [(service, one) for service, texts in found.items() for one in templates(texts)]
    ga, fga = accuracy(pairs, [one for labels in wanted.values() for one in labels])
    return {"ga": ga, "fga": fga}


def per_system(every: list[System]) -> dict[str, dict[str, float]]:
    """Accuracy, numbers of templates, and lines a second of Python on one core, merging included."""
    out = {}
    template_of("")  # the first line loads machine code and makes the table
    for system in every:
        began = time.process_time()
        found = templates(system.lines)
        seconds = time.process_time() - began
        ga, fga = accuracy(found, system.labels)
        corrected, _ = accuracy(found, system.corrected)
        out[system.name] = {
            "ga": ga,
            "fga": fga,
            "corrected_ga": corrected,
            "templates": len(set(found)),
            "true_templates": len(set(system.labels)),
            "lines_per_second": len(found) / seconds,
        }
    return out


def show(systems_: dict[str, dict[str, float]], others: dict[str, dict[str, float]]) -> None:
    """Two tables."""
    console = Console()
    view = Table(title="templates of raw lines, one setting for all", title_justify="left")
    for column in ("system", "ga", "fga", "ga, corrected labels", "templates", "true", "lines/s"):
        view.add_column(column)
    for name, f in systems_.items():
        figures = (f"{f[k]:.4f}" for k in ("ga", "fga", "corrected_ga"))
        view.add_row(
            name, *figures, f"{f['templates']:.0f}", f"{f['true_templates']:.0f}", f"{f['lines_per_second']:,.0f}"
        )
    means = {k: float(np.mean([f[k] for f in systems_.values()])) for k in ("ga", "fga", "corrected_ga")}
    view.add_row("mean", *(f"{means[k]:.4f}" for k in ("ga", "fga", "corrected_ga")), "", "", "")
    console.print(view)
    view = Table(title="means over the systems where things are otherwise", title_justify="left")
    for column in ("", "ga", "fga"):
        view.add_column(column)
    for name, f in others.items():
        view.add_row(name, f"{f['ga']:.4f}", f"{f['fga']:.4f}")
    console.print(view)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.templates", description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder that holds data/logs")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    every = systems(chosen.shared / "data" / "logs")
    if not every:
        parser.error(f"{chosen.shared}: no data/logs/SYSTEM/SYSTEM_2k.log_structured.csv")
    found, others = per_system(every), withstood(every) | {"simulated lines": simulated(1)}
    if chosen.json:
        print(json.dumps({"systems": found, "others": others}, indent=2))
        return
    show(found, others)


if __name__ == "__main__":
    main()
