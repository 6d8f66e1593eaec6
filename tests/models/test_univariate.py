"""The univariate model: against a scalar reference model, properties that hold whatever the data, and stories with a true answer.

Series do not depend on one another, so stories that need the same past are columns of one model.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reference_model import ReferenceModel

from models.core.parameters import DetectorParameters
from models.univariate.block_rarity import BODY
from models.univariate.model import Univariate, UnivariateScores
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FEATURES, UnivariateState

P = UnivariateParameters()
START = 1_767_571_200_000
MINUTES = 15
ROWS_A_DAY = 24 * 60 // MINUTES
Floats = np.ndarray


def model(series: int) -> Univariate:
    u = Univariate(P)
    u.state.grow(series)
    return u


def score_rows(
    u: Univariate, x: Floats, *, first: int = 0, minutes: float = MINUTES, times: Floats | None = None
) -> list[UnivariateScores]:
    """Rows of all series, `(rows, series)`; NaN: the series is left out."""
    answers = []
    for k, row in enumerate(x, first):
        index = np.flatnonzero(np.isfinite(row))
        now = START + 60_000 * minutes * k if times is None else times[k]
        one, none = np.ones(len(index), np.int64), np.zeros(len(index))
        answers.append(u.step(int(now), index, one, row[index], none))
    return answers


def column(answers: list[UnivariateScores], name: str) -> Floats:
    return np.array([getattr(a, name) for a in answers])


def same(a: UnivariateScores, b: UnivariateScores) -> bool:
    return all(
        np.array_equal(v, w, equal_nan=True) for v, w in zip(a._asdict().values(), b._asdict().values(), strict=True)
    )


def stories(seed: int, days: float = 6) -> dict[str, Floats]:
    """Series of eight kinds, a row every `MINUTES`, by name."""
    rng, n = np.random.default_rng(seed), int(days * ROWS_A_DAY)
    day = np.sin(2 * np.pi * np.arange(n) / ROWS_A_DAY)
    return {
        "noise": rng.normal(50, 1, n),
        "rhythm": 100 + 20 * day + rng.normal(0, 1, n),
        "counts": rng.poisson(0.3, n).astype(float),
        "heavy": np.exp(rng.normal(0, 1, n)),
        "percent": np.minimum(100, rng.normal(98, 3, n)),
        "constant": np.full(n, 7.0),
        "negative": rng.normal(0, 3, n),
        "walk": np.cumsum(rng.normal(0, 1, n)),
    }


@pytest.fixture(scope="module")
def scored_stories() -> tuple[dict[str, Floats], list[UnivariateScores]]:
    """Stories, and what one model with a series for each says of them."""
    chosen = stories(1, days=6)
    return chosen, score_rows(model(len(chosen)), np.stack(list(chosen.values()), axis=1))


@pytest.mark.parametrize("name", list(stories(0, days=0.1)))
def test_it_agrees_with_the_reference_model(
    name: str, scored_stories: tuple[dict[str, Floats], list[UnivariateScores]]
) -> None:
    chosen, answers = scored_stories
    x, j, reference = chosen[name], list(chosen).index(name), ReferenceModel(P)
    for k, a in enumerate(answers):
        surprise, rare, joined = reference.step(START / 1000 + 60 * MINUTES * k, float(x[k]))
        assert a.surprise[: FEATURES.index("spread within"), j] == pytest.approx(surprise, abs=0.1, rel=0.01), (
            k,
            FEATURES,
        )
        assert a.rarity[: FEATURES.index("spread within"), j] == pytest.approx(rare, abs=0.12), (k, surprise)
        body = (sum(s**P.norm for s in surprise) / 4) ** (1 / P.norm)
        assert a.joined[j] - BODY * np.log1p(body) == pytest.approx(joined, abs=0.1)


@examples(8)
@given(st.integers(0, 1000), st.integers(1, 119))
def test_dump_and_load_equal_one_pass_to_the_bit(seed: int, cut: int) -> None:
    x = np.stack(list(stories(seed, days=120 / ROWS_A_DAY).values()), axis=1)
    whole, part = model(x.shape[1]), model(x.shape[1])
    all_answers = score_rows(whole, x)
    answers = score_rows(part, x[:cut])
    part = Univariate(P, UnivariateState.load(part.state.dump()))
    answers += score_rows(part, x[cut:], first=cut)
    assert all(map(same, all_answers, answers))
    assert whole.state.dump() == part.state.dump()


@examples(6)
@given(st.integers(0, 1000))
def test_scores_of_a_series_depend_on_its_own_rows_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.stack(list(stories(seed, days=1.2).values()), axis=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[0] = 1.0
    together = score_rows(model(x.shape[1]), x)
    for j in (0, 3):
        alone = score_rows(model(1), x[:, j : j + 1])
        rows = np.flatnonzero(np.isfinite(x[:, j]))
        for k in rows.tolist():
            at = int(np.isfinite(x[k, :j]).sum())
            for name in ("joined", "base", "health", "typical"):
                assert getattr(together[k], name)[at] == pytest.approx(getattr(alone[k], name)[0], nan_ok=True), name


def test_the_unit_is_not_seen() -> None:
    x = np.stack([stories(3, days=4)[name] for name in ("noise", "rhythm", "heavy")], axis=1)
    scales = (1.0, 1e-9, 1e3, 1e12)
    here, *there = np.split(
        column(score_rows(model(12), np.concatenate([s * x for s in scales], axis=1)), "joined"), 4, axis=1
    )
    for joined in there:
        assert here == pytest.approx(joined, abs=0.05)


def test_scores_are_not_known_while_warming_up_and_known_after_it() -> None:
    score = column(score_rows(model(1), stories(4)["noise"][:, None]), "base")[:, 0]
    known = np.isfinite(score)
    assert not known[: P.warm_up_rows].any()
    assert known[ROWS_A_DAY:].all()
    assert (score[known] >= 0).all()


def test_a_spike_is_rare_in_series_of_every_kind() -> None:
    x = np.stack([x for name, x in stories(5).items() if name != "constant"], axis=1)
    x[-1] = x.max(axis=0) + 30 * np.ptp(x, axis=0)
    base = column(score_rows(model(x.shape[1]), x), "base")
    assert base[-1].min() > 9
    assert (base[-1] >= np.nanmax(base[ROWS_A_DAY:-1], axis=0)).all()


@pytest.mark.slow
def test_what_lasts_is_found_by_the_feature_that_measures_it() -> None:
    x = np.tile(stories(6)["noise"][:, None], 3)
    x[-36:, 0] += 1.5  # shifted
    x[-36:, 1] = 50 + 0.02 * (x[-36:, 1] - 50)  # less noise
    x[-36:, 2] = 50 + 4 * (x[-36:, 2] - 50)  # more noise
    answers = score_rows(model(3), x)[-36:]
    rarity = np.stack([a.rarity for a in answers]).max(axis=0)
    assert column(answers, "base").max(axis=0).min() > 6
    for j, feature in enumerate(("fast mean", "roughness", "roughness")):
        assert rarity[FEATURES.index(feature), j] > 2.5, feature


def test_a_value_that_is_usual_at_another_hour_is_rare_at_this_one() -> None:
    x = stories(7, days=8)["rhythm"]
    quarter = ROWS_A_DAY // 4
    x[-quarter:] = np.random.default_rng(0).normal(120, 1, quarter)  # the evening's trough did not come
    answers = score_rows(model(1), x[:, None])
    rare = np.stack([a.rarity[:, 0] for a in answers])
    at = FEATURES.index("rhythm")
    assert rare[-quarter:, at].max() > 3
    assert np.quantile(rare[-4 * ROWS_A_DAY : -ROWS_A_DAY, at], 0.99) < 3


def test_spread_within_windows_is_evidence() -> None:
    u, rng = model(1), np.random.default_rng(8)
    one = np.zeros(1, np.int64)
    for k in range(3 * ROWS_A_DAY):
        wide = 400.0 if k == 3 * ROWS_A_DAY - 1 else 1.0
        m2 = np.array([wide * 9 * rng.chisquare(9) / 9])
        a = u.step(START + 60_000 * MINUTES * k, one, np.array([10]), np.array([5 + rng.normal()]), m2)
    assert FEATURES[a.dominant_feature[0]] == "spread within"
    assert a.base[0] > 6


@pytest.mark.slow
def test_a_repeat_is_less_news_ever_but_not_healthy() -> None:
    x = stories(9, days=14)["noise"]
    for day in (5, 8, 11):
        x[day * ROWS_A_DAY : day * ROWS_A_DAY + 24] += 30
    answers = score_rows(model(1), x[:, None])
    ever, robust = column(answers, "joined")[:, 0], column(answers, "health")[:, 0]
    peaks = [ever[day * ROWS_A_DAY : day * ROWS_A_DAY + 24].max() for day in (5, 11)]
    assert peaks[1] < peaks[0] - 1
    assert column(answers, "typical")[-1, 0] == pytest.approx(50, abs=0.5)
    assert robust[11 * ROWS_A_DAY] > 1


def test_an_outage_is_not_learnt_as_normal() -> None:
    x = stories(10)["noise"]
    x[-ROWS_A_DAY // 4 :] = 0.0
    a = score_rows(model(1), x[:, None])[-1]
    assert a.typical[0] == pytest.approx(50, abs=1)
    assert a.lower[0] > 25
    assert not a.lower[0] <= x[-1] <= a.upper[0]


def test_an_outage_is_unhealthy_for_as_long_as_it_lasts_and_no_precedent_for_itself() -> None:
    x = stories(10, days=8)["noise"]
    began = len(x) - 3 * ROWS_A_DAY // 4
    x[began:] = 0.0
    robust = column(score_rows(model(1), x[:, None]), "health")[:, 0]
    assert robust[began + 1] > 5
    assert robust[-12:].min() > 5
    assert np.quantile(robust[ROWS_A_DAY:began], 0.999) < robust[-12:].min()


def test_gaps_and_irregular_rows_are_no_news() -> None:
    rng = np.random.default_rng(11)
    x = stories(11)["noise"][:, None]
    times = START + np.cumsum(rng.exponential(300_000, len(x)))
    times[len(x) // 2 :] += 3 * 86_400_000
    base = column(score_rows(model(1), x, times=times), "base")[:, 0]
    assert np.isfinite(base[-1])
    assert base[len(x) // 2 : len(x) // 2 + 12].max() < 9


def test_a_constant_series_stays_below_the_threshold_and_its_first_change_does_not() -> None:
    values = np.array([0.0, 7.0, -3.0, 1e9])
    x = np.tile(values, (4 * ROWS_A_DAY, 1))
    x[-1] += 1 + np.abs(values)
    base = column(score_rows(model(4), x), "base")
    assert base[ROWS_A_DAY:-1].max() < 2
    assert base[-1].min() > 8


@examples(12)
@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=12))
def test_no_value_makes_the_model_blind(strange: list[float]) -> None:
    offsets, noise = np.array([0.0, 1.0, 1e9]), np.random.default_rng(0).normal(5, 1, (80, 1))
    x = np.concatenate([noise[:40] + offsets, np.repeat(strange, 3).reshape(-1, 3), noise[40:] + offsets])
    with np.errstate(all="ignore"):
        last = score_rows(model(3), x)[-1]
    assert np.isfinite(last.base).all()
    assert np.isfinite(last.health).all()


@pytest.mark.parametrize(("wave", "higher"), [(0.0, 30.0), (50.0, 250.0)])
def test_a_value_that_is_nonsense_hides_no_change_after_it(wave: float, higher: float) -> None:
    """A wrapped counter, an error code, a wrong unit: one row, thirty hours before everything is so many spreads higher."""
    nonsense, at = [101.0, 1e3, -1e4, 1e6, 4.29e9, -1e12, 1e15], 7 * ROWS_A_DAY
    day = 2 * np.pi * np.arange(at + 30 * 60 // MINUTES + 1)[:, None] / ROWS_A_DAY
    x = (100 + wave * np.sin(day) + np.random.default_rng(4).normal(0, 1, day.shape)).repeat(len(nonsense), axis=1)
    x[at] = nonsense
    u = model(len(nonsense))
    after = column(score_rows(u, x[:-1]), "base")[at:]
    assert after[0, 1:].min() > 20
    assert after[8:].max() < 10
    found = column(score_rows(u, x[-1:] + higher, first=len(x) - 1), "base")
    assert found.min() > 14


def test_a_level_of_another_order_of_magnitude_is_known_after_some_rows() -> None:
    levels = np.array([1e3, 1e6, 1e9])
    x = np.random.default_rng(5).normal(100, 1, (7 * ROWS_A_DAY, 1)).repeat(len(levels), axis=1)
    u = model(len(levels))
    score_rows(u, x)
    found = column(score_rows(u, x[: 2 * ROWS_A_DAY] + levels, first=len(x)), "base")
    assert found[0].min() > 20
    assert found[ROWS_A_DAY:].max() < 8


def test_state_is_small_and_does_not_grow() -> None:
    u, n = model(500), 500
    rng = np.random.default_rng(12)
    sizes = []
    for k in range(12):
        u.step(START + 1_800_000 * k, np.arange(n), np.ones(n, np.int64), rng.normal(size=n), np.zeros(n))
        sizes.append({name: len(part) for name, part in u.state.dump().items()})
    assert sizes[0] == sizes[-1]
    assert sum(sizes[-1].values()) / n < 1_560
    assert sizes[-1]["hot"] / n < 370


def test_growing_and_forgetting_series_leaves_the_others_alone() -> None:
    x = np.stack(list(stories(13, days=2).values()), axis=1)
    u, one = model(x.shape[1]), model(1)
    score_rows(u, x[:100])
    score_rows(one, x[:100, 2:3])
    u.state.keep(np.array([2, 5]))
    u.state.grow(4)
    row = np.array([[x[100, 2], x[100, 5], 1.0, 2.0]])
    assert score_rows(u, row, first=100)[0].joined[0] == score_rows(one, x[100:101, 2:3], first=100)[0].joined[0]


def test_other_columns_are_refused() -> None:
    parts = UnivariateState(2).dump()
    with pytest.raises(ValueError, match="columns"):
        UnivariateState.load({"hot": parts["cold"], "cold": parts["hot"]})


@pytest.mark.parametrize("bad", [{"level_half_life_days": 0.0}, {"hour_share": 1.0}, {"tolerance": 0.5}])
def test_parameters_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        UnivariateParameters(**bad)


def normal_series(rng: np.random.Generator, n: int) -> Floats:
    """Normal data of six kinds in rows of five minutes, `(n, series)`; the reference distribution was not made of them."""
    day = np.sin(2 * np.pi * np.arange(n) / 288)
    kinds = []
    for _ in range(8):
        kinds += [rng.normal(10, 1, n), 30 + 5 * day + rng.normal(0, 1, n), rng.gamma(3, 1, n)]
        kinds += [rng.poisson(20, n).astype(float), np.clip(rng.normal(60, 12, n), 0, 100), rng.standard_t(6, n)]
    return np.stack(kinds, axis=1)


@pytest.mark.slow
def test_on_normal_data_scores_are_probabilities() -> None:
    x = normal_series(np.random.default_rng(14), 11 * 288)
    answers = score_rows(model(x.shape[1]), x, minutes=5)[4 * 288 :]
    nats = column(answers, "base").ravel()
    for chance in (0.1, 0.01, 1e-3, 1e-4):
        assert 0.3 < np.mean(nats > -np.log(chance)) / chance < 3, chance


@pytest.mark.parametrize(("before", "after"), [(50.0, 80.0), (50.0, 20.0), (5.0, 500.0)])
def test_an_adopted_level_is_normal_at_once(before: float, after: float) -> None:
    rng, u = np.random.default_rng(15), model(2)
    x = before * rng.normal(1, 0.02, (2 * ROWS_A_DAY, 2))
    y = after * rng.normal(1, 0.02, (ROWS_A_DAY // 2, 2))
    score_rows(u, x)
    u.adopt_level(0, after)
    adopted, held = column(score_rows(u, y, first=len(x)), "base").T
    assert adopted[1:12].max() < held[:12].max() - 4  # the first row is the step itself
    assert u.expected_next(0)["typical"] == pytest.approx(after, rel=0.02)
    assert abs(u.expected_next(1)["typical"] - before) < 0.1 * abs(after - before)


def test_an_extreme_step_counts_whatever_came_before_unless_steps_recur() -> None:
    """Spikes of 60 spreads in a row of a minute: in one hour of twenty, in one of six, and in the same hour of each day."""
    rng, u, hours = np.random.default_rng(16), model(3), 200
    x = rng.normal(50, 1, (hours * 60, 3))
    struck = [*(np.flatnonzero(rng.random(hours) < share) for share in (0.05, 0.18)), np.arange(3, hours, 24)]
    for j, chosen in enumerate(struck):
        x[30 + 60 * chosen, j] += 60
    answers = score_rows(u, x, minutes=1)
    spikes = (x > 90) & (np.arange(len(x))[:, None] > 100 * 60)
    base, surprise = column(answers, "base"), column(answers, "surprise")[:, FEATURES.index("step")]
    rare, often, daily = ((base[s, j], surprise[s, j]) for j, s in enumerate(spikes.T))
    alert = DetectorParameters(window_seconds=60).alert_nats
    assert min(len(rare[0]), len(daily[0])) >= 3
    assert (rare[0] >= 0.999 * P.step_share * rare[1]).all()
    assert rare[0].min() > alert > max(often[0].max(), daily[0].max())
    assert min(often[1].max(), daily[1].min()) > alert / P.step_share


@pytest.mark.slow
def test_a_level_that_nobody_has_called_healthy_is_usual_at_once_and_healthy_after_days() -> None:
    rng, u = np.random.default_rng(15), model(2)
    x, y = (np.repeat(rng.normal(at, 1, (days * ROWS_A_DAY, 1)), 2, axis=1) for at, days in ((50, 8), (80, 5)))
    score_rows(u, x)
    u.adopt_level(0, 80.0, healthy=False)
    u.adopt_level(1, 80.0, healthy=True)
    answers = score_rows(u, y, first=len(x))
    base, robust = column(answers, "base"), column(answers, "health")
    assert base[:12, 0] == pytest.approx(base[:12, 1], abs=0.5)
    assert u.expected_next(0)["typical"] == pytest.approx(80, abs=1)
    assert robust[: ROWS_A_DAY // 4, 0].min() > 4 > robust[: ROWS_A_DAY // 4, 1].mean()
    assert robust[-12:, 0].mean() < 3


@pytest.mark.slow
def test_an_old_series_keeps_how_it_spreads_when_a_level_is_adopted() -> None:
    """It widens as counts do; a young one, or one at another order of magnitude, begins nearly anew."""
    rng = np.random.default_rng(21)
    for days, level, kept in ((10, 24.0, True), (10, 600.0, False), (0.7, 24.0, False)):
        u = model(1)
        score_rows(u, rng.normal(6, 0.2, (int(days * ROWS_A_DAY), 1)))
        weight, spread = u.state.hot["weight"][0, 0], u.state.describe_state(0)["ever"]["step"]["spread"]
        u.adopt_level(0, level)
        assert (u.state.hot["weight"][0, 0] == weight) == kept
        assert (u.state.describe_state(0)["ever"]["step"]["spread"] < 2.2 * spread) == kept


def test_a_level_that_a_young_series_adopts_is_not_that_of_other_hours() -> None:
    rng = np.random.default_rng(22)
    for days, moves in ((0.7, 0.0), (2.0, 60.0)):
        u = model(1)
        score_rows(u, rng.normal(20, 1, (int(days * ROWS_A_DAY), 1)))

        def level_at(hour: int, u: Univariate = u) -> float:
            return float(u.state.cold["first_value"][0, 0] + u.state.cold["rhythm"][hour, 0])

        before = level_at(9)
        u.adopt_level(0, 80.0)
        assert level_at(9) - before == pytest.approx(moves, abs=1)


def test_a_level_that_is_adopted_is_the_unit_of_the_log_level_at_once() -> None:
    u = model(1)
    score_rows(u, np.full((5 * ROWS_A_DAY, 1), 100.0))
    u.adopt_level(0, 40.0)
    assert u.state.hot["long_size"][0, 0] / u.state.hot["long_weight"][0, 0] == pytest.approx(40, rel=1e-3)
    answers = score_rows(u, np.full((5 * ROWS_A_DAY, 1), 40.0), first=5 * ROWS_A_DAY)
    assert column(answers, "surprise")[:, FEATURES.index("log level")].max() < 0.5


def test_means_that_remember_an_outlier_are_settled() -> None:
    u, x = model(2), stories(16)["noise"][:, None].repeat(2, axis=1)
    x[-3] += 300
    score_rows(u, x[:-2])
    u.reset_recent(0)
    settled, left = score_rows(u, x[-2:-1], first=len(x) - 2)[0].rarity[FEATURES.index("fast mean")]
    assert settled < left - 1


def test_one_quantum_is_no_news_for_the_means() -> None:
    x = np.zeros(600)
    x[-20] = 0.1
    answers = score_rows(model(1), x[:, None], minutes=1 / 6)
    assert column(answers, "base")[-18:].max() < 7


@pytest.mark.slow
def test_whole_numbers_that_hardly_move_any_more_are_strange() -> None:
    rng, rows = np.random.default_rng(22), 6 * 288
    x = np.round(rng.normal(50, 1, rows))
    x[-24:] = 50.0
    answers = score_rows(model(1), x[:, None], minutes=5)
    rare = np.stack([a.rarity[FEATURES.index("roughness"), 0] for a in answers])
    assert rare[-1] > 5
    assert rare[288:-24].max() < rare[-1]


def red(rng: np.random.Generator, rows: int, memory: float) -> Floats:
    """Noise of unit variance whose neighbours are correlated by `memory`."""
    x = rng.normal(size=rows)
    for k in range(1, rows):
        x[k] = memory * x[k - 1] + np.sqrt(1 - memory**2) * x[k]
    return x


def test_what_wanders_in_a_short_history_is_no_news() -> None:
    rng = np.random.default_rng(18)
    hours = np.arange(3 * 360) / 360
    slow = [30 + red(rng, len(hours), 0.999) for _ in range(20)]
    rise = [
        100 + 8 * np.sin(np.pi * hours / 12 + phase) + rng.normal(0, 1, len(hours)) for phase in np.arange(0, 6, 0.6)
    ]
    saw = [
        50 + np.interp((hours + shift) % 2, [0, 1.8, 2], [0, 3, 0]) + rng.normal(0, 0.05, len(hours))
        for shift in (0, 1)
    ]
    x = np.stack([*slow, *rise, *saw], axis=1)
    base = column(score_rows(model(x.shape[1]), x, minutes=1 / 6), "base")[180:]
    above = base > 11.2
    lasting = above[3:] & above[2:-1] & above[1:-2] & above[:-3]
    assert lasting.any(axis=0).sum() <= 1


def test_a_mean_of_values_that_jump_to_and_fro_is_known_early() -> None:
    rng = np.random.default_rng(19)
    x = np.stack([*rng.normal(50, 5, (8, 720)), *(50 + 5 * red(rng, 720, 0.995) for _ in range(8))], axis=1)
    x[540:] += 7.5
    answers = score_rows(model(16), x, minutes=1 / 6)[600:660]
    surprise = np.stack([a.surprise[FEATURES.index("fast mean")] for a in answers]).mean(axis=0)
    assert np.median(surprise[:8]) > 2 * np.median(surprise[8:])


def test_an_event_over_the_turn_of_an_hour_is_rare_again_within_a_minute() -> None:
    rng, u = np.random.default_rng(20), model(1)
    x = rng.normal(50, 1, 900)
    x[715:] += 15  # fifty seconds before the hour
    answers = score_rows(u, x[:, None], minutes=1 / 6)
    assert column(answers, "base")[726:760].min() > 9


def test_what_the_first_rows_were_surprised_by_is_no_precedent() -> None:
    rng = np.random.default_rng(21)
    x = rng.normal(50, 1, (720, 2))
    x[5, 1] += 40
    x[600:] += 15
    assert column(score_rows(model(2), x, minutes=1 / 6), "rarity")[600, 0].min() > 4


def test_a_fault_in_a_short_history_stays_strange() -> None:
    rng, u = np.random.default_rng(17), model(1)
    x = rng.normal(30, 1.5, 480)
    x[360:] += 0.4 * np.arange(120)
    base = column(score_rows(u, x[:, None], minutes=1 / 6), "base")[:, 0]
    assert base[180:360].max() < 11
    assert np.median(base[-30:]) > 11.2


def test_a_gauge_that_is_zero_and_has_many_points_a_window_is_no_infinity() -> None:
    model, row = Univariate(UnivariateParameters()), np.array([0])
    model.state.grow(1)
    for k in range(50):
        answers = model.step(1_767_571_200_000 + 60_000 * k, row, np.array([6]), np.zeros(1), np.zeros(1))
    assert np.isfinite(model.state.hot["mean"]).all()
    assert np.isfinite(answers.base).all()


@pytest.mark.parametrize("alone", [1, 3])
def test_a_pause_after_the_first_rows_is_not_the_usual_interval(alone: int) -> None:
    rows, pause = 400, 2 * 86_400_000
    seconds = 10_000 * np.arange(rows)
    seconds[:alone] -= pause * np.arange(alone, 0, -1)
    x = np.random.default_rng(23).normal(50, 3, (rows, 8))
    u = model(8)
    base = column(score_rows(u, x, times=START + seconds), "base")
    assert u.state.hot["interval"] == pytest.approx(10.0, rel=0.01)
    assert np.isnan(base[:180]).all()
    assert np.nanmax(base) < 12


def test_levels_of_hours_with_ten_rows_a_second_stay_known() -> None:
    rng, u = np.random.default_rng(24), model(1)
    for day in range(3):
        times = START + 86_400_000 * day + 100 * np.arange(300)
        score_rows(u, rng.normal(50, 1, (300, 1)), times=times)
        u.state.hot["hour_weight"][:] = 70_000.0  # that of two hours of such rows
    assert np.isfinite(u.state.cold["rhythm_weight"]).all()
    assert np.isfinite(u.state.hot["robust_mean"]).all()


def test_a_shift_that_rounding_can_make_is_no_news() -> None:
    rng = np.random.default_rng(25)
    x = 0.3 + rng.integers(-1, 2, (5 * ROWS_A_DAY, 3)) * np.spacing(0.3)
    x[-8:] += np.array([3e-16, 3e-13, 1e-3])
    base = column(score_rows(model(3), x), "base")[-8:]
    assert base[:, :2].max() < 3
    assert base[:, 2].max() > 20
