"""Templates of a service that are one template become one series: rows get its id, and what was learnt of the others is added up.

`extract` makes a template of a line alone, so words that vary without a sign of it are a template each. Here, where all that a service
has written is known, they are merged (`models.templates.merging`): in the order of windows, and in a window in that of the names of
series. Each service of a host is by itself, so results do not depend on what else is in the shard.

When templates are merged, the one that they become has their history: the sum of their rates and shares, the longest of their lives,
their open episode and labels. Nothing is new, and no novelty begins, because templates have been merged.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import groupby

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection import reasons
from models.detection.episodes import Episode
from models.detection.mixture_detector import OF_MIX
from models.detection.service_templates import ServiceTemplates
from models.detection.shard_state import OF_RISE, NewTemplate, ShardState, context_of, host_of
from models.records.records import EpisodeEvent
from models.stats import gamma_poisson as poisson
from models.stats import rate_rise, template_mixture
from models.templates.extraction import template_id
from models.templates.merging import Merge

FIRST = "template/"  # names of templates begin so
MOST_COMPARED = 100  # new templates of a host and window that are compared with the others; more are taken in only
MOST_REMEMBERED = 16 << 20  # characters of names of merged templates, to be quick: it does not change an answer
OF_ALIAS = 250  # characters that one counts for besides: what is kept beside its names


class TemplateMerging:
    """Gives rows of merged templates the series that they are part of, and combines series when their templates are merged."""

    def __init__(self, state: ShardState, p: DetectorParameters) -> None:
        self._state, self._p = state, p
        # Series and text of the template by the name that `extract` gave.
        self._aliases: dict[str, tuple[str, str]] = {}
        self._aliased: dict[str, list[str]] = {}  # names in `_aliases` by context
        self._remembered = 0  # characters of all since they were last forgotten
        self._fresh: dict[tuple[str, str], list[str]] = {}  # context and text that came with this window: series
        self._gone: set[str] = set()  # series that have become part of others in this window

    def step(self, rows: Windows) -> tuple[Windows, list[EpisodeEvent]]:
        """Take in the templates of a window, before anything else is done with it.

        Parameters
        ----------
        rows
            The rows of the window as `extract` made them.

        Returns
        -------
        rows
            With the series and texts of merged templates, and one row for each.
        list of episode events
            What was closed because its series became part of one that has an open episode.
        """
        self._fresh, self._gone = {}, set()
        templates = rows.span(FIRST)
        names, index = rows.series[templates].tolist(), self._state.counts.index
        if index.keys() >= set(names):
            return rows, []
        if self._remembered > MOST_REMEMBERED:
            self.note_forgotten()
        events, found = list[EpisodeEvent](), list[tuple[str, str | None]]()
        compared: Counter[str] = Counter()
        # One service after the other: what is cached of a template is there when it is looked up.
        for context, own in groupby(
            zip(names, rows.template[templates].tolist(), strict=True), lambda row: context_of(row[0])
        ):
            of_context = list(own)
            events += self._take_in(context, of_context, compared)
            found += [self._found(context, name, text) for name, text in of_context]
        if self._gone:
            self._remove_gone()
        return (rows if [name for name, _ in found] == names else _renamed(rows, templates.start, found)), events

    @property
    def has_moved(self) -> bool:
        """Whether series have moved in the tables in this window."""
        return bool(self._gone)

    def settle(self) -> None:
        """Forget the templates that came with this window and have no series, because there is no room for it or it is planned."""
        index, dropped = self._state.counts.index, dict[str, set[str]]()
        for (context, text), names in self._fresh.items():
            if not any(name in index for name in names):
                dropped.setdefault(context, set()).add(text)
        for context, texts in dropped.items():
            own = self._state.templates[context]
            own.keep([one for text, one in own.ids.items() if text not in texts])
            if not own.ids:
                del self._state.templates[context]
            self._forget_aliases(context)

    def note_forgotten(self) -> None:
        """Note that series were forgotten."""
        self._aliases, self._aliased, self._remembered = {}, {}, 0

    def _take_in(
        self, context: str, rows: Iterable[tuple[str, str | None]], compared: Counter[str]
    ) -> list[EpisodeEvent]:
        """Take in templates of a service that have no series, by the names that `extract` gave and their texts, in this order.

        `compared` counts by host those that were compared with others in this window.
        """
        index = self._state.counts.index
        unknown = [(name, text) for name, text in rows if text and name not in index and name not in self._aliases]
        events: list[EpisodeEvent] = []
        for name, text in unknown:
            host = host_of(name)
            own = self._state.templates.setdefault(context, ServiceTemplates())
            before = len(own.merger)
            merge = own.merger.add(text, merge=compared[host] < MOST_COMPARED)
            compared[host] += merge is not None or len(own.merger) > before
            if text in own.merger and text not in own.ids:
                own.ids[sys.intern(text)] = sys.intern(name.rsplit("/", 1)[1])  # as other hosts have them
                self._fresh[context, text] = []
            if merge is not None:
                events += self._apply(context, own, merge)
            if not own.ids:
                del self._state.templates[context]
        return events

    def _found(self, context: str, name: str, text: str | None) -> tuple[str, str | None]:
        """The series and text of a row."""
        if not text or (name in self._state.counts.index and name not in self._gone):
            return name, text
        known = self._aliases.get(name)
        if known is not None:
            return known
        own = self._state.templates.get(context)
        merged = text if own is None else own.merger.text_of(text)
        found = name if own is None or merged == text else f"{name.rsplit('/', 1)[0]}/{own.ids[merged]}"
        if (context, merged) in self._fresh:
            self._fresh[context, merged].append(found)
        if found != name:
            self._aliases[name] = found, merged
            self._remembered += len(name) + len(found) + OF_ALIAS
            self._aliased.setdefault(context, []).append(name)
        return found, merged

    def _forget_aliases(self, context: str) -> None:
        for name in self._aliased.pop(context, ()):
            del self._aliases[name]

    def _apply(self, context: str, own: ServiceTemplates, merge: Merge) -> list[EpisodeEvent]:
        """Combine the series of templates that have become one, by level. Answers what was closed."""
        self._forget_aliases(context)
        for text in merge.before:
            self._fresh.pop((context, text), None)
        before = {own.ids.pop(text) for text in merge.before if text in own.ids}
        if merge.after not in own.ids:
            own.ids[merge.after] = template_id(merge.after)
            self._fresh[context, merge.after] = []
        after = own.ids[merge.after]
        events: list[EpisodeEvent] = []
        for prefix, ids in self._known(context, before | {after}).items():
            if ids - {after}:
                names = [f"{prefix}/{one}" for one in sorted(ids)]
                events += self._combine(names, f"{prefix}/{after}")
                self._fresh.pop((context, merge.after), None)
                self._state.texts[after] = reasons.short(merge.after)
        return events

    def _known(self, context: str, ids: set[str]) -> dict[str, set[str]]:
        """Which templates of a service have a series, by the beginning of its name."""
        state, found = self._state, dict[str, set[str]]()
        row = state.contexts.index.get(context, -1)
        of_context = np.flatnonzero((state.counts.owner[1] == row) & (state.counts.owner[2] == 1))
        for name in [state.counts.names[at] for at in of_context.tolist()]:
            prefix, own = name.rsplit("/", 1)
            if own in ids and name not in self._gone:
                found.setdefault(prefix, set()).add(own)
        return dict(sorted(found.items()))

    def _combine(self, names: Sequence[str], target: str) -> list[EpisodeEvent]:
        """Make the series `names` the series `target`, which may be one of them. Answers what was closed."""
        state = self._state
        counts = state.counts
        rows = [counts.index[name] for name in names]
        s, owners = counts.matrix[:, rows], counts.owner[:, rows[0]].tolist()
        kept, events = self._one_episode(names, target)
        row = counts.index[target] if target in counts.index else counts.add(target, owners)
        counts.matrix[: OF_MIX.start, row] = poisson.combine_states(s[: OF_MIX.start], self._p, kept)
        counts.matrix[OF_MIX, row] = template_mixture.combine_states(s[OF_MIX]).astype(np.float32)
        counts.matrix[OF_RISE, row] = rate_rise.combine_states(s[OF_RISE], counts.matrix[poisson.ROWS, row])
        templates = state.context_column("templates")
        templates[owners[1]] = max(templates[owners[1]] - len(names) + 1, 1.0)
        self._one_trial(names, target)
        self._one_control([name for name in names if name != target], target)
        self._gone = (self._gone | set(names)) - {target}
        return events

    def _one_episode(self, names: Sequence[str], target: str) -> tuple[int | None, list[EpisodeEvent]]:
        """Keep the strongest open episode, for the target, and close the others.

        Answers the place in `names` of the series that it was open on, or None, and the closing of others that were published.
        """
        state, hidden = self._state, self._state.control.unpublished
        found = [(at, state.episodes.open.pop(name)) for at, name in enumerate(names) if name in state.episodes]
        if not found:
            return None, []
        kept = max(found, key=lambda one: _strength(one[1]))
        events = []
        for at, episode in found:
            episode.move(target)
            if at != kept[0] and names[at] not in hidden:
                events.append(episode.event("close", state.last))
        muted = names[kept[0]] in hidden
        hidden.difference_update(names)
        if muted:
            hidden.add(target)
        state.episodes.open[target] = kept[1]
        return kept[0], events

    def _one_trial(self, names: Sequence[str], target: str) -> None:
        """A template that is made of new ones alone is on trial as they are; one that is made of a known one is not."""
        trials = [self._state.trials.pop(name, None) for name in names]
        new = [trial for trial in trials if trial is not None]
        if len(new) < len(trials):
            return
        oldest = min(new, key=lambda trial: (trial.first, -trial.surprise))
        returns = sum(trial.returns + (trial.first > oldest.first) for trial in new)
        self._state.trials[target] = NewTemplate(
            target, oldest.surprise, oldest.first, min(returns, oldest.windows), oldest.windows
        )

    def _one_control(self, names: Sequence[str], target: str) -> None:
        """Episodes and labels that are remembered: the last one, and the greatest demand on each pattern."""
        known = self._state.control
        for name in names:
            last = known.published.pop(name, None)
            if last is not None:
                known.published[target] = max(last, known.published.get(target, last), key=lambda one: one[1])
            for pattern, demand in known.demands.pop(name, {}).items():
                own = known.demands.setdefault(target, {})
                own[pattern] = max(demand, own.get(pattern, demand))
        known.changes += 1

    def _remove_gone(self) -> None:
        """Remove the series that have become part of others, and texts that are of no series."""
        state = self._state
        state.counts.keep(np.array([name not in self._gone for name in state.counts.names], dtype=bool))
        ids = {name.rsplit("/", 1)[1] for name in state.counts.names}
        state.texts = {one: text for one, text in state.texts.items() if one in ids}
        state.renamed = True


def _strength(episode: Episode) -> tuple[bool, float, int]:
    """Of several episodes that become one, the greatest is kept."""
    return not episode.over, float(np.nan_to_num(episode.evidence)), -episode.start


def _renamed(rows: Windows, first: int, found: Sequence[tuple[str, str | None]]) -> Windows:
    """Rows from `first` on with the series and texts that were found, and one row for each series; names stay sorted."""
    groups: dict[str, list[int]] = {}
    for at, (name, _) in enumerate(found):
        groups.setdefault(name, []).append(first + at)
    series = sorted(groups)
    one_of = np.array([groups[name][0] for name in series], dtype=np.int64)
    last = first + len(found)
    taken = np.concatenate([np.arange(first), one_of, np.arange(last, len(rows))])
    columns = {field.name: getattr(rows, field.name)[taken] for field in fields(rows)}
    for at, name in enumerate(series, first):
        members = groups[name]
        columns["series"][at], columns["template"][at] = name, found[members[0] - first][1]
        if len(members) > 1:
            columns["n"][at] = rows.n[members].sum()
            samples = [sample for sample in rows.sample[members].tolist() if sample is not None]
            columns["sample"][at] = min(samples, key=str.encode, default=None)
    return Windows(**columns)
