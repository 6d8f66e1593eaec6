"""A change of state or a passing outlier: stories with a true answer, about series whose level and spread are known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from support import numpy_changes
from support.compiled_functions import over
from support.examples import examples

from models.core.sparse_table import Table
from models.core.store import read_part
from models.detection import change_point, compiled_changes
from models.detection.change_candidates import CANDIDATE_COLUMNS, ChangeCandidates
from models.detection.change_point import EXPLANATIONS, CandidateRows, ChangeParameters, Verdict
from models.stats import regression as reg

START, STEP = 1_767_571_200_000, 10_000
P = ChangeParameters()
ASKED = 11.0


class CandidateSeries:
    """Series with a level of 10 and a spread of 1, whose changes are adopted."""

    def __init__(
        self, series: int = 1, level: float = 10.0, spread: float = 1.0, *, episode: bool = False, apart: int = STEP
    ) -> None:
        self.series, self.apart = series, apart  # milliseconds between rows
        self.begin()
        self.level, self.spread = np.full(series, level), np.full(series, spread)
        self.episode, self.row = np.full(series, episode), 0
        self.fast: np.ndarray | None = None  # the fast means before a row, where they are not the level

    def begin(self) -> None:
        """All series become candidates anew."""
        self.table = ChangeCandidates()
        self.table.add(np.arange(self.series))

    def rows_of(self, x: np.ndarray) -> CandidateRows:
        now, n = START + self.apart * self.row * 1.0, len(x)
        ones = np.ones(n)
        return CandidateRows(
            x,
            self.level,
            self.spread,
            self.episode,
            self.episode,
            (now - self.apart) * ones,
            now,
            ones,
            0 * ones,
            600_000.0,
            ASKED * ones,
            self.level if self.fast is None else self.fast,
        )

    def step(self, x: np.ndarray) -> Verdict:
        self.row += 1
        return change_point.step(self.table, np.arange(len(x)), self.rows_of(x), P)

    def observe(self, values: np.ndarray) -> list[tuple[int, str]]:
        """The rows after which changes began, and what they were, of one series."""
        found = []
        for value in values:
            v = self.step(np.array([value]))
            if v.announced[0]:
                found.append((int((v.start[0] - START) // self.apart), EXPLANATIONS[v.what[0]]))
                self.level, self.spread = (v.after, v.spread) if found[-1][1] == "spread" else (v.after, self.spread)
                self.episode = np.zeros(1, bool)  # its episode ends
                self.begin()
        return found


def noise(seed: int, *parts: tuple[float, float, int]) -> np.ndarray:
    """Normal values: levels, spreads, and numbers of rows."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(level, spread, rows) for level, spread, rows in parts])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_candidates_are_weighed_as_in_numpy(seed: int) -> None:
    """Each row begins with the same bits; what is found of it differs in the last bits of single precision at most."""
    rng, n, announced = np.random.default_rng(seed), 40, set()
    candidates, kind = ChangeCandidates(), np.arange(n) % 5
    candidates.add(np.arange(n))
    for k in range(260):
        x = rng.normal(10, 1, n) + np.select([kind == 1, kind == 2, kind == 3], [8.0 * (k > 60), 0.2 * k, 0.0])
        x = np.where((kind == 3) & (k > 130), 10 + 6 * (x - 10), np.where(rng.random(n) < 0.01, 1e15, x))
        places = np.flatnonzero(rng.random(n) < 0.95)
        watch = CandidateSeries(len(places), episode=k % 100 > 40)
        watch.row = k
        worth, common = rng.uniform(0.1, 1, len(places)), rng.uniform(0, 0.02, len(places))
        rows = replace(watch.rows_of(x[places]), worth=worth, common=common)
        table = candidates.read(places)
        wanted = numpy_changes.step(table, rows, P)
        found = change_point.step(candidates, places, rows, P)
        for name, values in vars(wanted).items():
            np.testing.assert_allclose(getattr(found, name), values, rtol=1e-9, atol=1e-9, err_msg=name)
        for name, values in candidates.read(places).items():
            np.testing.assert_allclose(values, table[name], rtol=3e-7, atol=1e-9, err_msg=name)
        announced |= {EXPLANATIONS[one] for one in found.what[found.announced].tolist()}
    assert announced == {"level", "spread"}
    assert len(compiled_changes.weigh.signatures) == 1  # type: ignore[attr-defined]


def test_the_ratio_of_gamma_functions_is_that_of_scipy() -> None:
    x = np.concatenate([np.linspace(0.5, 40, 500), 10.0 ** np.linspace(2, 9, 50)])
    wanted = special.gammaln(x + 0.5) - special.gammaln(x)
    near = x < 100  # beyond, scipy's difference has fewer digits
    found = over(compiled_changes.gamma_ratio, x)
    assert found[near] == pytest.approx(wanted[near], rel=1e-13, abs=2e-14)
    far = x[~near]
    assert found[~near] == pytest.approx(np.log(far) / 2 - 1 / (8 * far) + 1 / (192 * far**3), rel=1e-12)


@examples(30)
@given(st.lists(st.floats(-100, 100), min_size=5, max_size=30), st.floats(-5, 5))
def test_a_line_is_the_regression_of_all_data(values: list[float], slope: float) -> None:
    t = np.arange(len(values), dtype=float)
    x = np.array(values) + slope * t
    r = reg.begin(np.ones(1), 1e-9, 1.0, 1e-9)
    for value in x:
        reg.advance(r)
        reg.learn(r, np.array([value]))
    fit = np.polyfit(t, x, 1)
    assert reg.slope(r)[0] == pytest.approx(fit[0], rel=1e-4, abs=1e-3)
    reg.advance(r)
    place, _, df = reg.predict(r)
    assert place[0] == pytest.approx(np.polyval(fit, len(x)), rel=1e-4, abs=1e-3)
    assert df[0] == 2 + len(x)


@given(st.floats(-1e3, 1e3), st.floats(0.1, 100), st.floats(0.5, 100))
def test_log_density_is_that_of_scipy(t: float, scale: float, df: float) -> None:
    assert reg.log_density(np.array(t), np.array(scale), df) == pytest.approx(stats.t.logpdf(t * scale, df, 0, scale))


def test_the_level_predicts_as_normal_gamma_does() -> None:
    x = np.array([4.0, 6.0, 5.5, 7.0])
    table: Table = {name: np.zeros(1) for name in CANDIDATE_COLUMNS}
    table["level_rows"], table["level_mean"] = np.array([4.0]), np.array([x.mean()])
    table["level_sum"] = np.array([((x - x.mean()) ** 2).sum()])
    place, scale, df = numpy_changes.level_of(table, P)
    k, m, a, b = P.level_rows, 0.0, 1.0, 1.0
    for value in x:  # one by one, by the textbook's recursion
        b += k * (value - m) ** 2 / (2 * (k + 1))
        m, k, a = (k * m + value) / (k + 1), k + 1, a + 0.5
    assert (place[0], df[0]) == (pytest.approx(m), 2 * a)
    assert scale[0] == pytest.approx(np.sqrt(b * (k + 1) / (a * k)))


@pytest.mark.parametrize("size", [3.0, 6.0, 1e3, 1e8])
def test_a_new_level_is_announced_once_with_where_it_began(size: float) -> None:
    found = CandidateSeries().observe(noise(1, (10, 1, 150), (10 + size, 1, 250)))
    assert [what for _, what in found] == ["level"]
    assert abs(found[0][0] - 150) <= 3


def test_a_level_must_last() -> None:
    assert CandidateSeries().observe(noise(2, (10, 1, 50), (20, 1, 50), (10, 1, 200))) == []
    assert CandidateSeries(episode=True).observe(noise(2, (20, 1, 50))) == []


def test_a_level_with_an_open_episode_is_a_change_when_it_has_lasted() -> None:
    watch = CandidateSeries(episode=True)
    found = watch.observe(noise(2, (20, 1, 59)))
    assert found == []
    assert watch.observe(noise(3, (20, 1, 3))) == [(0, "level")]


@pytest.mark.parametrize("size", [8.0, 50.0, 1e4])
def test_passing_outliers_are_no_change(size: float) -> None:
    x = noise(4, (10, 1, 400))
    x[[100, 180, 181, 260]] += size
    assert CandidateSeries().observe(x) == []


@pytest.mark.parametrize("episode", [True, False])
def test_a_ramp_is_no_new_level(episode: bool) -> None:
    x = noise(5, (10, 1, 50), (10, 1, 200)) + 0.3 * np.maximum(np.arange(250) - 50, 0)
    watch = CandidateSeries(episode=episode)
    assert watch.observe(x) == []
    assert EXPLANATIONS[watch.step(np.array([x[-1]])).what[0]] in ("trend", "level")


@pytest.mark.parametrize(("rising_rows", "first", "last"), [(0, 10, 13), (15, 17, 50), (30, 20, 60)])
def test_what_rises_by_the_minute_has_no_new_level_half_way(rising_rows: int, first: int, last: int) -> None:
    """Of 30 series that rise by 20 spreads at once or by and by, and whose episode is open: the rows after the beginning until a new level."""
    way = np.clip((np.arange(90) - 20) / max(rising_rows, 0.01), 0, 1)
    watch, kept = CandidateSeries(30, episode=True, apart=60_000), 0.5 ** (1 / 20)
    values = np.stack([noise(seed, (10, 1, 90)) for seed in range(30)], axis=1) + 20 * way[:, None]
    watch.fast, known = np.full(30, 10.0), np.zeros(30, int)
    for row, x in enumerate(values):
        found = watch.step(x)
        new = found.announced & (found.what == EXPLANATIONS.index("level"))
        known = np.where((known == 0) & new, row - 20, known)
        watch.fast = kept * watch.fast + (1 - kept) * x
    assert first <= known.min() <= known.max() <= last


@pytest.mark.parametrize(("slope", "least", "most"), [(0.0005, 0, 5), (0.001, 0, 10), (0.002, 0, 20), (1.0, 100, 100)])
def test_a_wave_of_hours_is_hardly_ever_a_change_and_a_step_always(slope: float, least: int, most: int) -> None:
    """Of 100 series that move by three spreads in four to sixteen hours, as on a first day, or in half a minute. Without `at_once` all change."""
    rows = np.arange(50 + max(int(3 / slope), 200))
    noises = [noise(seed, (10, 1, len(rows))) for seed in range(100)]
    watch, kept = CandidateSeries(100), 0.5 ** (1 / 120)
    watch.fast, changed = np.full(100, 10.0), np.zeros(100, bool)
    for row, values in zip(rows, np.stack(noises, axis=1), strict=True):
        x = values + min(slope * max(float(row) - 50.0, 0.0), 3.0)
        changed |= watch.step(x).announced
        watch.fast = kept * watch.fast + (1 - kept) * x
    assert least <= changed.sum() <= most


def test_a_line_through_the_rows_of_a_level_is_the_regression_of_them() -> None:
    x = noise(9, (14, 1, 55)) + 0.02 * np.arange(55)
    watch = CandidateSeries()
    watch.observe(x)
    rows, mean, rise = (float(watch.table.columns[f"level_{name}"][0]) for name in ("rows", "mean", "rise"))
    assert rows == 55
    slope, begins = np.polyfit(np.arange(55), x - 10, 1)
    assert 12 * rise / (rows * (rows**2 - 1)) == pytest.approx(slope, rel=1e-4)
    assert mean - 6 * rise / (rows**2 - 1) == pytest.approx(begins - slope / 2, rel=1e-4)


def test_a_ramp_that_stands_still_in_the_end_is_a_level_from_there_on() -> None:
    x = noise(6, (10, 1, 20), (10, 1, 60), (28, 1, 120))
    x[20:80] += 0.3 * np.arange(60)
    row, what = CandidateSeries(episode=True).observe(x)[0]
    assert what == "level"
    assert 55 <= row <= 110


def test_a_new_spread_is_a_change_where_an_episode_is_open() -> None:
    x = noise(7, (10, 1, 20), (10, 8, 200))
    assert [what for _, what in CandidateSeries(episode=True).observe(x)] == ["spread"]
    assert CandidateSeries().observe(x) == []


@pytest.mark.parametrize("seed", range(8))
def test_what_a_series_returns_to_while_its_episode_is_open_is_no_change(seed: int) -> None:
    x = noise(seed, (10, 1, 1), (60, 1, 30), (10, 1, 300))
    assert CandidateSeries(episode=True).observe(x) == []


def test_a_return_to_the_state_before_is_a_level_as_any_other() -> None:
    watch = CandidateSeries()
    found = watch.observe(noise(8, (10, 1, 50), (20, 1, 100), (10, 1, 100)))
    assert [what for _, what in found] == ["level", "level"]
    assert abs(found[1][0] - 150) <= 2
    assert watch.level[0] == pytest.approx(10, abs=0.5)


def test_no_change_is_announced_in_normal_data() -> None:
    rng, watch = np.random.default_rng(10), CandidateSeries(400)
    assert sum(watch.step(rng.normal(10, 1, 400)).announced.sum() for _ in range(1000)) == 0


def test_few_normal_series_are_candidates() -> None:
    rng, watch, candidates = np.random.default_rng(11), CandidateSeries(400), 0
    for _ in range(200):
        candidates += int((~watch.step(rng.normal(10, 1, 400)).over).sum())
    assert candidates / (200 * 400) < 0.08


def test_dependent_neighbours_are_less_evidence() -> None:
    leads = []
    for share in (1.0, 0.1):
        watch = CandidateSeries()
        verdicts = []
        for x in noise(12, (12, 1, 100)):
            watch.row += 1
            rows = replace(watch.rows_of(np.array([x])), worth=np.full(1, share))
            verdicts.append(change_point.step(watch.table, np.zeros(1, np.int64), rows, P))
        leads.append(max(float(v.lead[0]) for v in verdicts))
    assert leads[1] == pytest.approx(0.1 * leads[0])


def test_rows_that_have_much_in_common_are_no_change_however_many() -> None:
    """What a day's wave does anyway: levels of hours that differ by more than neighbouring rows do."""
    leads = []
    for share in (0.0, 0.5):
        watch = CandidateSeries()
        for x in noise(12, (12, 1, 400)):
            watch.row += 1
            rows = replace(watch.rows_of(np.array([x])), common=np.full(1, share))
            verdict = change_point.step(watch.table, np.zeros(1, np.int64), rows, P)
        leads.append(float(verdict.lead[0]))
    assert leads[0] > 20 * ASKED
    assert 0 < leads[1] < ASKED / 2
    assert leads[1] == pytest.approx(leads[0] / (1 + 398 * 0.5), rel=0.02)


@examples(4)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 1e3, 1e9]), st.floats(-5, 5))
def test_unit_and_offset_have_no_effect(seed: int, scale: float, offset: float) -> None:
    x = noise(seed, (0, 1, 60), (5, 1, 80))
    assert CandidateSeries(level=0).observe(x) == CandidateSeries(level=scale * offset, spread=scale).observe(
        scale * (x + offset)
    )


@examples(5)
@given(st.integers(0, 1000), st.integers(1, 139))
def test_dump_and_load_equal_one_pass_to_the_bit(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(10, 1, (60, 3)), rng.normal(14, 1, (80, 3))])
    whole, parts, watch = ChangeCandidates(), ChangeCandidates(), CandidateSeries(3)
    for candidates in (whole, parts):
        candidates.add(np.array([7, 2, 5]))
    for k, row in enumerate(x):
        watch.row = k
        if k == cut:
            parts = ChangeCandidates.load(*read_part(parts.dump()))
        for candidates in (whole, parts):
            change_point.step(candidates, np.arange(3), watch.rows_of(row), P)
    assert whole.dump() == parts.dump()
    assert whole.rows.tolist() == [2, 5, 7]


def test_a_series_is_judged_by_its_own_rows_alone() -> None:
    rng = np.random.default_rng(15)
    whole, alone = CandidateSeries(4), CandidateSeries(1)
    for k in range(160):
        row = rng.normal(10 if k < 80 else 14, 1, 4)
        a, b = whole.step(row), alone.step(row[2:3])
        assert all(one[2] == other[0] for one, other in zip(vars(a).values(), vars(b).values(), strict=True))


def test_candidates_follow_their_series_when_others_are_removed() -> None:
    candidates = ChangeCandidates()
    candidates.add(np.array([1, 4, 6]))
    candidates.columns["anchor"][:] = [1.0, 4.0, 6.0]
    candidates.add(np.array([5]))
    candidates.keep(np.array([True, True, False, False, False, True, True]))
    assert candidates.rows.tolist() == [1, 2, 3]
    assert candidates.columns["anchor"].tolist() == [1.0, 0.0, 6.0]


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="clip_nats"):
        ChangeParameters(clip_nats=0)
