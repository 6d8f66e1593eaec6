"""Shifts in the mix of a service's log templates: lines are gathered to blocks, which are scored, learnt and reported.

A template with an open episode about its rate is left out of the mix, so that nothing is reported twice. So is a muted
template of a service that is not muted.

While an episode about a mix is open, the mix is neither learnt nor does it fade: what it is compared with stays. It ends where no block could
be judged for long, because too few lines come or none of the templates that are known; the mix is learnt again then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.detection import reasons
from models.detection.control import Control
from models.detection.count_detector import CountScores
from models.detection.episodes import Episode
from models.detection.limits import TEMPLATES, Limits
from models.detection.shard_state import COUNT_COLUMNS, ShardState
from models.records.records import EpisodeEvent
from models.stats import template_mixture
from models.stats.template_mixture import Blocks, MixturePrediction

MIX = "mix"
PREFIX = "service/"
OF_MIX = slice(COUNT_COLUMNS.index(template_mixture.COLUMNS[0]), COUNT_COLUMNS.index(template_mixture.COLUMNS[-1]) + 1)
SUM, LINES, PENDING, FRESH = (
    OF_MIX.start + at
    for at in (template_mixture.SUM, template_mixture.LINES, template_mixture.PENDING, template_mixture.FRESH)
)
MOST_NAMED = 3  # templates in a sentence


@dataclass(frozen=True)
class JudgedBlocks:
    """Blocks that ended with a window: their services in `contexts`, `(size,)`, and the `rows` of their templates in `counts`, `(m,)`.

    `open` says which services have an open episode about their mix, and `seconds` is the time since their last block, `(size,)`.
    """

    now: int
    contexts: Ints
    rows: Ints
    blocks: Blocks
    belief: MixturePrediction
    open: Bools
    seconds: Floats

    def templates_of_block(self, at: int) -> Ints:
        """Positions in `rows` of the templates that block `at` is judged by, the most surprising first."""
        found = np.flatnonzero((self.blocks.place == at) & self.belief.counted)
        return found[np.argsort(-self.belief.nats[found], kind="stable")]


class MixtureDetector:
    """Scores, learns and reports the mixes of templates of the services of a shard."""

    def __init__(self, state: ShardState, p: DetectorParameters, control: Control, limits: Limits) -> None:
        self._state, self._p, self._control, self._limits = state, p, control, limits

    def step(self, now: int, lines: CountScores) -> list[EpisodeEvent]:
        """Add the lines of a window to the blocks; score, learn and report the services whose block is full."""
        events = self._give_up(now)
        if not len(lines.rows):
            return events
        of_template = self._state.counts.owner[2, lines.rows] == 1
        of_template &= ~np.isin(self._state.counts.owner[1, lines.rows], self._control.planned_rows("contexts"))
        unsure = self._limits.uncertain_rows(TEMPLATES)
        if len(unsure):
            of_template &= ~np.isin(self._state.counts.owner[0, lines.rows], unsure)
        if not of_template.any():
            return events
        rows, reported = lines.rows[of_template], self._reported()
        muted = self._muted(rows)
        full = self._gather(now, rows, lines.value[of_template], muted)
        if not full.any():
            return events
        chosen = full[self._state.counts.owner[1, rows]]
        left_out = [*reported, *rows[muted].tolist()]
        judged = self._judge(now, full, rows[chosen], left_out, settled=~lines.belief.warming[of_template][chosen])
        self._learn(judged)
        return events + [event for at in self._blocks_to_report(judged) for event in self._update_episode(judged, at)]

    def _reported(self) -> list[int]:
        """Rows of templates with an open episode. The share of one whose new rate was adopted is learnt from the beginning."""
        found, counts = [], self._state.counts
        for name, episode in self._state.episodes.open.items():
            row = counts.index.get(name)
            if row is not None:
                found.append(row)
                if episode.adopted:
                    counts.matrix[[SUM, LINES], row] = 0.0
        return found

    def _muted(self, rows: Ints) -> Bools:
        """Which of these templates, `(m,)`, are muted though their service is not."""
        counts, contexts = self._control.applied_to("counts"), self._control.applied_to("contexts")
        if counts is None or contexts is None:
            return np.zeros(len(rows), dtype=bool)
        # nothing is reported of a muted service: its templates are learnt as ever
        found: Bools = counts.muted[rows] & ~contexts.muted[self._state.counts.owner[1, rows]]
        return found

    def _gather(self, now: int, rows: Ints, lines: Floats, muted: Bools) -> Bools:
        """Add lines to their blocks; answers which services have a full one, or one that is too old, `(n_contexts,)`.

        Lines of muted templates do not fill a block: where they are most of the lines, it would have too few of the others.
        """
        state, begun = self._state, self._state.context_column("mix_begun")
        place = state.counts.owner[1, rows]
        state.counts.matrix[PENDING, rows] += lines
        pending = np.where(muted, 0.0, state.counts.matrix[PENDING, rows])
        waiting = np.bincount(place, weights=pending, minlength=len(state.contexts))
        begun[:] = np.where((begun == 0) & (waiting > 0), now - 1000 * self._p.window_seconds, begun)
        full: Bools = (waiting >= template_mixture.LEAST_LINES) | (
            (waiting > 0) & (now - begun >= template_mixture.LONGEST_MS)
        )
        return full

    def _judge(self, now: int, full: Bools, rows: Ints, left_out: list[int], *, settled: Bools) -> JudgedBlocks:
        state, contexts = self._state, np.flatnonzero(full)
        seconds = (now - state.context_column("mix_seen")[contexts]) / 1000.0
        place = np.searchsorted(contexts, state.counts.owner[1, rows])
        s = state.counts.matrix[OF_MIX, rows]
        open_ = np.isin(contexts, list(self._open_episodes().values()))
        fading = np.where(open_, 0.0, seconds)
        blocks = Blocks(len(contexts), place, s[template_mixture.PENDING], np.isin(rows, left_out), settled, fading)
        return JudgedBlocks(now, contexts, rows, blocks, template_mixture.predict(s, blocks, self._p), open_, seconds)

    def _learn(self, judged: JudgedBlocks) -> None:
        """Learn the blocks, and accumulate their evidence against chance."""
        state, p, contexts, b = self._state, self._p, judged.contexts, judged.belief
        page, blocks = (state.context_column(name) for name in ("mix_page", "mix_blocks"))
        since, begun = (state.context_column(name) for name in ("mix_since", "mix_begun"))
        step = np.minimum(b.score, template_mixture.most_block_nats(p)) - p.allowance_nats
        page[contexts] = np.maximum(page[contexts] + np.where(b.judged, step, 0.0), 0.0)
        high = page[contexts] > 0
        since[contexts] = np.where(high, np.where(since[contexts] > 0, since[contexts], begun[contexts]), 0.0)
        blocks[contexts] = np.where(high, blocks[contexts] + b.judged, 0.0)
        begun[contexts] = 0.0
        state.context_column("mix_seen")[contexts[b.judged | ~judged.open]] = judged.now
        s = state.counts.matrix[OF_MIX, judged.rows]
        template_mixture.learn(s, judged.blocks, b, self._weight(judged), p)
        s[template_mixture.FRESH] = np.where(
            high[judged.blocks.place], s[template_mixture.FRESH] + judged.blocks.lines * b.counted, 0.0
        )
        s[template_mixture.PENDING] = 0.0
        state.counts.matrix[OF_MIX, judged.rows] = s.astype(np.float32)

    def _weight(self, judged: JudgedBlocks) -> Floats:
        """Share of each template's lines that is learnt, `(m,)`: little of a surprising block, nothing in an episode."""
        place = judged.blocks.place
        strange = np.exp(np.minimum(np.nan_to_num(judged.belief.score), 50.0))
        weight = 1 / (1 + self._p.outlier_share * strange)
        weight[judged.open] = 0.0
        found: Floats = weight[place]
        for table, rows in (("counts", judged.rows), ("contexts", judged.contexts[place])):
            applied = self._control.applied_to(table)
            if applied is not None:
                found *= ~applied.dont_learn[rows]
        return found

    def _blocks_to_report(self, judged: JudgedBlocks) -> list[int]:
        """Blocks with enough evidence to open an episode, or with an open one."""
        contexts = judged.contexts
        page = self._state.context_column("mix_page")[contexts]
        page -= self._control.labels.demanded_nats("contexts", MIX, contexts, prefix=PREFIX)
        concerned = (page >= self._p.count_nats) | judged.open
        found: list[int] = np.flatnonzero(judged.belief.judged & concerned).tolist()
        return found

    def _open_episodes(self) -> dict[str, int]:
        """The open episodes of mixes, in order of their names, and the services' rows."""
        index, episodes = self._state.contexts.index, self._state.episodes.open
        names = sorted(name for name, episode in episodes.items() if episode.cause == MIX)
        return {name: index[name.removeprefix(PREFIX)] for name in names}

    def _update_episode(self, judged: JudgedBlocks, at: int) -> list[EpisodeEvent]:
        name = PREFIX + self._state.contexts.names[int(judged.contexts[at])]
        episode = self._state.episodes.get(name)
        if episode is None:
            return [self._open(name, judged, at)]
        return self._continue(episode, judged, at) if episode.cause == MIX and not episode.over else []

    def _open(self, name: str, judged: JudgedBlocks, at: int) -> EpisodeEvent:
        context, score = int(judged.contexts[at]), float(judged.belief.score[at])
        start = int(self._state.context_column("mix_since")[context])
        evidence = max(score, float(self._state.context_column("mix_page")[context]))
        nan = float("nan")
        episode = Episode(name, MIX, "anomaly", start, score, evidence, nan, nan, nan, nan, "%", "", part="mix")
        self._describe(episode, judged, at)
        return self._state.episodes.begin(episode, judged.now)

    def _continue(self, episode: Episode, judged: JudgedBlocks, at: int) -> list[EpisodeEvent]:
        p, context, score = self._p, int(judged.contexts[at]), float(judged.belief.score[at])
        if episode.add_surprise(score, p.allowance_nats, float(judged.seconds[at]) / p.window_seconds):
            self._describe(episode, judged, at)
        episode.count_normal(judged.now, normal=score < p.clear_nats)
        if episode.normal_windows >= p.clear_windows or not self._state.context_column("mix_page")[context]:
            self._begin_from_scratch([context])
            return [self._state.episodes.close(episode.series, judged.now)]
        if self._is_to_be_adopted(episode, judged.now, context) and not self._control.is_kept_from_learning(
            "contexts", context
        ):
            return [self._adopt(episode, judged, at)]
        return [episode.event("update", judged.now)] if episode.update_due(judged.now) else []

    def _is_to_be_adopted(self, episode: Episode, now: int, context: int) -> bool:
        """Whether an episode is to be adopted as normal: expected by a label, or lasting for several blocks."""
        blocks = self._state.context_column("mix_blocks")[context]
        enough = (
            now - episode.start >= 1000 * self._p.adoption_seconds(self._p.persistence_minutes)
            and blocks >= self._p.clear_windows
        )
        return episode.expected or bool(enough and not episode.normal_windows)

    def _adopt(self, episode: Episode, judged: JudgedBlocks, at: int) -> EpisodeEvent:
        """Adopt the mix since the episode began as normal; the episode becomes a change and closes with the next window."""
        self._describe(episode, judged, at, changed=True)
        episode.kind, episode.adopted, episode.over = "change", True, judged.now + 1
        episode.before, episode.after = episode.typical, episode.value
        rows = judged.rows[judged.templates_of_block(at)]
        matrix = self._state.counts.matrix
        fresh = matrix[FRESH, rows]
        matrix[SUM, rows], matrix[LINES, rows] = fresh, np.float32(fresh.sum())
        self._begin_from_scratch([int(judged.contexts[at])])
        return episode.event("update", judged.now)

    def _describe(self, episode: Episode, judged: JudgedBlocks, at: int, *, changed: bool = False) -> None:
        """Describe the mix since the episode began, and what is expected, by the templates with the largest surprise."""
        state, b, found = self._state, judged.belief, judged.templates_of_block(at)
        fresh = state.counts.matrix[FRESH, judged.rows[found]]
        seen = 100 * fresh / max(float(fresh.sum()), 1.0)
        blocks = max(float(state.context_column("mix_blocks")[judged.contexts[at]]), 1.0)
        lower, upper = b.bounds(found, float(fresh.sum()) / blocks, blocks, self._p.interval_probability)
        named = max(int(np.sum(b.nats[found[:MOST_NAMED]] >= self._p.clear_nats)), 1)
        parts = [
            (
                self._level_and_text(int(judged.rows[found[i]])),
                float(seen[i]),
                100 * float(lower[i]),
                100 * float(upper[i]),
            )
            for i in range(named)
        ]
        series = parse(episode.series)
        episode.value, episode.lower, episode.upper = parts[0][1:]
        episode.typical = 100 * float(b.share[found[0]])
        episode.template = self._text(int(judged.rows[found[0]]))
        episode.reason = reasons.new_mix(series, parts) if changed else reasons.mix_off(series, parts)

    def _text(self, row: int) -> str:
        identity = parse(self._state.counts.names[row]).template_id
        return self._state.texts.get(identity, identity)

    def _level_and_text(self, row: int) -> str:
        """The level and text of a template."""
        level = parse(self._state.counts.names[row]).level.upper()
        return f"{level} {self._text(row)}".strip()

    def _begin_from_scratch(self, contexts: Sequence[int]) -> None:
        """Forget the evidence against the mixes of services."""
        for name in ("mix_page", "mix_since", "mix_blocks"):
            self._state.context_column(name)[contexts] = 0.0
        of = np.isin(self._state.counts.owner[1], contexts)
        self._state.counts.matrix[FRESH, of] = 0.0

    def _give_up(self, now: int) -> list[EpisodeEvent]:
        """Close the episodes of services of which no block could be judged for long."""
        oldest = now - 1000 * self._p.adoption_seconds(self._p.patience_minutes) - template_mixture.LONGEST_MS
        seen = self._state.context_column("mix_seen")
        gone = {name: row for name, row in self._open_episodes().items() if seen[row] < oldest}
        if gone:
            self._begin_from_scratch(list(gone.values()))
        return [self._state.episodes.close(name, now) for name in gone]
