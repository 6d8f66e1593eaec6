"""Rarity against a plain count of blocks, and the packing of what it keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from models.stats import rarity
from models.stats.rarity import BINS, DAYS, EMPTY, GRADES, HOURS, LASTING, LEAST_HELD, MOST_HELD, Weighing

SAME = Weighing(1.0, 1.5)
LONG = np.full(1, MOST_HELD)  # a half-life after which nothing here is old


def table_of(blocks: list[float], visits: list[float], share: float) -> tuple[np.ndarray, np.ndarray]:
    counts = np.zeros((1, BINS, 1), np.uint16)
    for number, most in enumerate(blocks, 1):
        rarity.add_block(counts, rarity.bins(np.array([[most]])), np.array([0]), np.array([number]), LONG)
    ring = np.full((HOURS, 1, DAYS, 1), EMPTY, np.uint8)
    for most in visits:
        rarity.add_visit(ring, rarity.bins(np.array([[most]])), np.array([0]), np.array([7]))
    return rarity.lookup(counts, ring[7], (1.0, 0.3), share)


def rare(blocks: list[float], visits: list[float], s: float, share: float = 0.3, p: Weighing = SAME) -> float:
    table, prior = table_of(blocks, visits, share)
    at = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    return float(rarity.rarity(table, prior, np.array([[s]]), at, p)[0, 0])


def edge(k: int) -> float:
    """A surprise at the lower end of a bin, and a trace above."""
    return float(np.expm1(k / rarity.PER_UNIT)) + 1e-9


@given(st.lists(st.integers(0, 15), max_size=30), st.integers(0, 15))
def test_at_the_edge_of_a_bin_the_tail_is_that_of_the_dirichlet_process(blocks: list[int], k: int) -> None:
    s = edge(k)
    wanted = ((1 + s) ** -1.5 + sum(b >= k for b in blocks)) / (1 + len(blocks))
    assert rare([edge(b) for b in blocks], [], s) == pytest.approx(-np.log(min(wanted, 1)), rel=1e-3, abs=1e-3)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=DAYS), st.integers(0, 15))
def test_the_hour_has_its_share_and_is_a_line_within_a_grade_without_blocks(visits: list[int], k: int) -> None:
    s = edge(k)
    base = (1 + s) ** -1.5
    edges = [*GRADES.tolist(), BINS]
    seen = float(np.interp(k, edges, [sum(v >= edge for v in visits) for edge in edges]))
    hour = (0.3 * base + seen) / (0.3 + len(visits))
    wanted = 0.7 * base + 0.3 * hour
    assert rare([], [edge(v) for v in visits], s) == pytest.approx(-np.log(min(wanted, 1)), rel=1e-3, abs=1e-3)


def test_within_a_grade_visits_are_spread_as_blocks_are() -> None:
    """Blocks of bins 1 and 3, and visits of the same grade: as many of them count as at least 2 and 3."""
    blocks, visits = [edge(1), *[edge(3)] * 3], [edge(2)] * 4
    counts, _ = table_of(blocks, visits, 1.0)
    assert counts[0, :6, 0] * 4.3 == pytest.approx([4, 4, 3, 3, 0, 0])


def test_only_the_last_days_count() -> None:
    assert rare([], [40.0, *[0.0] * DAYS], 30.0) == pytest.approx(rare([], [0.0] * DAYS, 30.0))


def test_a_repeat_is_less_news_even_if_it_is_a_little_greater() -> None:
    rest = [1.0] * 200
    first = rare(rest, [], 20.0, p=Weighing(1.87, 1.5))
    again = rare([*rest, 20.0], [], 25.0, p=Weighing(1.87, 1.5))
    greater = rare([*rest, 20.0], [], 60.0, p=Weighing(1.87, 1.5))
    assert again < greater
    assert again < first - 0.5


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0, 100), st.floats(0, 20))
def test_rarity_grows_with_surprise(blocks: list[float], s: float, more: float) -> None:
    assert rare(blocks, [], s + more) >= rare(blocks, [], s) - 1e-6


def counted(blocks: list[float], *, lasting: bool = True) -> list[float]:
    """Counts of all bins after these blocks."""
    counts, before = np.zeros((1, BINS, 1), np.uint16), np.zeros((1, 1), np.uint8)
    for number, most in enumerate(blocks):
        now = rarity.bins(np.array([[most]]))
        rarity.add_block(counts, now, np.array([0]), np.array([number]), LONG, before if lasting else None)
        before = rarity.greatest(before, now)
    return [float(number) for number in counts[0, :, 0]]


def test_an_event_of_many_blocks_counts_once_when_it_is_over_and_hardly_before() -> None:
    at, worse = edge(rarity.EVENT), edge(rarity.EVENT + 2)
    event = [2.0, at, worse, worse, at]
    plain, goes_on, once, twice = (
        counted(blocks, lasting=lasting)[rarity.EVENT :][:4]
        for blocks, lasting in ((event, False), (event, True), ([*event, 2.0], True), ([*event, 2.0, worse, 2.0], True))
    )
    assert plain == [4, 2, 2, 0]
    assert goes_on == [0, 0, 0, 0]
    assert once == [1, 1, 1, 0]
    assert twice == [2, 2, 2, 0]
    assert counted(event)[: rarity.EVENT] == counted(event, lasting=False)[: rarity.EVENT]


@given(st.lists(st.floats(0, 100), max_size=40))
def test_a_greater_surprise_is_never_counted_more_often_than_a_smaller_one(blocks: list[float]) -> None:
    assert np.all(np.diff(counted(blocks)) <= 0)


def test_a_level_that_stays_is_counted_once_a_day() -> None:
    assert counted([100.0] * 10 * LASTING)[-1] == pytest.approx(10, abs=1)


def totals(half_life: float, blocks: int) -> list[int]:
    """Blocks that are counted after each of so many."""
    counts, found = np.zeros((1, BINS, 1), np.uint16), []
    for number in range(blocks):
        now = rarity.bins(np.array([[5.0]]))
        rarity.add_block(counts, now, np.array([0]), np.array([number]), np.array([half_life]))
        found.append(int(counts[0, 0, 0]))
    return found


def test_a_memory_holds_as_much_as_one_that_fades_all_the_time() -> None:
    half_life = 48
    found = totals(half_life, 4_000)[1_000:]
    assert np.mean(found) == pytest.approx(1 / (1 - 2 ** (-1 / half_life)), rel=0.05)
    assert (min(found), max(found)) == (half_life, 2 * half_life - 1)


def test_a_half_life_has_a_dozen_blocks_at_least_and_at_most_half_of_what_a_count_can_be() -> None:
    assert max(totals(0.5, 100)) == 2 * LEAST_HELD - 1
    assert np.iinfo(np.uint16).max > 2 * MOST_HELD


def test_halves_are_rounded_to_even() -> None:
    counts = np.arange(BINS)[::-1, None][None].astype(np.uint16) + np.uint16(9)
    before = counts[0, :, 0].astype(float)
    most = rarity.bins(np.array([[100.0]]))
    rarity.add_block(counts, most, np.array([0]), np.array([1]), np.array([LEAST_HELD]))
    assert (counts[0, :, 0] == np.rint((before + 1) / 2)).all()


@examples(20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_packing_has_an_inverse(seed: int, tables: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, DAYS + 1, (HOURS, n)).astype(np.uint8)
    ring = rng.integers(0, BINS, (HOURS, tables, DAYS, n)).astype(np.uint8)
    ring[np.broadcast_to((np.arange(DAYS)[None, :, None] >= visits[:, None, :])[:, None], ring.shape)] = EMPTY
    assert (rarity.unpack(rarity.pack(ring), tables, visits) == ring).all()
