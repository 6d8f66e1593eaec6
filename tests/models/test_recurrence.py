"""Episodes that come back at regular times differ from those that come at random, and are like any other where they are unusual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.core.store import read_part
from models.detection.episodes import MOST_UPDATES, Episode, Episodes
from models.detection.recurrence import COLUMNS, Recurrence, Recurrences
from models.detection.shard_state import write_columns
from models.detection.table_score import TableScorer
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, Watched
from models.stats.intervals import LEAST_INTERVALS

HOUR, DAY = 3_600_000, 86_400_000
BEGIN = 1_700_006_400_000
MINUTE = 60_000
SERIES = "gauge/web-1//heap"


def begun(hours: Floats) -> list[bool]:
    """Whether each episode that begins after so many hours recurs; each lasts for ten minutes and has 12 nats."""
    known, found = Recurrence(), []
    for at in (BEGIN + hours * HOUR).astype(np.int64).tolist():
        found.append(known.note_begin(at, at + MINUTE))
        known.note_end(at, 600.0, 12.0)
    return found


@pytest.mark.parametrize("period", [3.0, 20.0, 24.0, 72.0, 168.0])
def test_what_is_regular_recurs_once_it_has_been_so_four_times_and_for_a_day(period: float) -> None:
    hours = np.linspace(period, 19 * period, 19)
    expected = [k > LEAST_INTERVALS and period * k >= 24.0 for k in range(19)]
    assert begun(hours) == expected


def test_a_fault_that_comes_back_every_five_minutes_is_not_regular_within_its_first_day() -> None:
    found = begun(np.arange(1, 400) / 12)
    assert not any(found[:288]) and all(found[289:])


@pytest.mark.parametrize(("spread", "least", "most"), [(0.02, 0.85, 1.0), (0.05, 0.8, 1.0), (0.2, 0.0, 0.3)])
def test_the_more_regular_the_more_are_expected(spread: float, least: float, most: float) -> None:
    rng = np.random.default_rng(7)
    shares = [np.mean(begun(np.cumsum(20 * np.exp(rng.normal(0, spread, 40))))) for _ in range(100)]
    assert least < np.mean(shares) < most


def test_an_episode_that_was_closed_and_goes_on_is_no_other_one() -> None:
    assert not any(begun(np.array([1.0] * 5 + [2.0] * 5 + [3.0] * 5)))
    assert begun(24 * np.array([1.0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]))[8::2] == [True] * 3


def test_what_comes_at_random_does_not_recur() -> None:
    rng = np.random.default_rng(8)
    shares = [np.mean(begun(np.cumsum(rng.exponential(20, 50)))) for _ in range(400)]
    assert np.mean(shares) < 0.004


def test_one_or_two_may_be_missing_and_one_more_between_two_is_not_expected() -> None:
    hours = np.arange(1.0, 12.0)
    assert begun(24 * np.array([*hours, 13.0, 16.0]))[-2:] == [True, True]
    assert begun(24 * np.array([*hours, 11.4, 12.0]))[-2:] == [False, True]
    assert begun(24 * np.array([*hours, 20.0]))[-1:] == [False]


def episodes_of(times: list[int], minutes: float = 10.0, score: float = 12.0) -> Episodes:
    """What is known after episodes of so many minutes and nats at `times`, epoch ms."""
    episodes = Episodes()
    for at in times:
        episodes.begin(episode(at, score), at + MINUTE)
        episodes.open[SERIES].count_normal(at + round(minutes * MINUTE), normal=False)
        episodes.close(SERIES, at + round(minutes * MINUTE))
    return episodes


def episode(at: int, score: float = 12.0, kind: str = "anomaly") -> Episode:
    return Episode(SERIES, "strange", kind, at, score, score, 9.0, 5.0, 4.0, 6.0, "", "9, expected 4 to 6")


NIGHTS = [BEGIN + k * DAY for k in range(8)]


def test_an_episode_that_is_stronger_or_longer_than_before_is_like_any_other() -> None:
    now = NIGHTS[-1] + DAY
    assert episodes_of(NIGHTS).begin(episode(now), now + MINUTE).recurs_every == pytest.approx(86_400)
    assert not episodes_of(NIGHTS).begin(episode(now, 19.0), now + MINUTE).recurs, "stronger from its first moment"
    growing, longer = episodes_of(NIGHTS), episodes_of(NIGHTS)
    for known in (growing, longer):
        assert known.begin(episode(now), now + MINUTE).recurs
    found = growing.open[SERIES]
    found.evidence = 18.5
    assert found.update_due(now + 2 * MINUTE) and not found.event("update", now + 2 * MINUTE).recurs
    found = longer.open[SERIES]
    found.count_normal(now + 14 * MINUTE, normal=False)
    assert not found.update_due(now + 14 * MINUTE)
    found.count_normal(now + 16 * MINUTE, normal=False)
    assert found.update_due(now + 16 * MINUTE) and not found.event("update", now + 16 * MINUTE).recurs
    assert not longer.close(SERIES, now + 20 * MINUTE).recurs


@pytest.mark.parametrize("adopted", [False, True])
def test_how_strong_an_episode_was_is_not_learnt_of_one_whose_values_were_adopted(adopted: bool) -> None:
    known, now = episodes_of(NIGHTS), NIGHTS[-1] + DAY
    known.begin(episode(now), now + MINUTE)
    known.open[SERIES].evidence, known.open[SERIES].adopted = 90.0, adopted
    known.close(SERIES, now + 5 * MINUTE)
    assert known.recurrences.known[SERIES, "strange"].highest == (12.0 if adopted else 90.0)


def test_how_long_an_episode_was_is_without_the_windows_for_which_it_stays_open() -> None:
    known = Episodes()
    known.begin(episode(BEGIN), BEGIN + MINUTE)
    for minute in range(2, 30):
        known.open[SERIES].count_normal(BEGIN + minute * MINUTE, normal=minute > 7)
    known.close(SERIES, BEGIN + 29 * MINUTE)
    assert known.recurrences.known[SERIES, "strange"].longest == 7 * 60.0
    known.begin(episode(BEGIN + DAY, kind="silence"), BEGIN + DAY + MINUTE)  # nothing of it is normal
    known.close(SERIES, BEGIN + DAY + 29 * MINUTE)
    assert known.recurrences.known[SERIES, "strange"].longest == 29 * 60.0


def test_an_episode_that_grows_for_ever_has_a_limited_number_of_updates() -> None:
    growing, updates = episode(BEGIN), 0
    for now in range(BEGIN, BEGIN + 100 * MINUTE, MINUTE):
        growing.event("update", now)
        growing.score *= 2
        updates += growing.update_due(now)
    assert updates == MOST_UPDATES


def test_strange_values_do_not_stand_for_a_silence_that_is_due() -> None:
    known, due = Episodes(), NIGHTS[-1] + DAY
    for at in NIGHTS:
        known.begin(replace(episode(at, kind="silence"), cause="metric silent"), at + MINUTE)
        known.close(SERIES, at + 22 * HOUR)
    assert not known.begin(episode(due - HOUR), due - HOUR + MINUTE).recurs
    known.close(SERIES, due - HOUR + 9 * MINUTE)
    assert known.begin(replace(episode(due, kind="silence"), cause="metric silent"), due + MINUTE).recurs


def test_a_level_that_is_adopted_does_not_recur_and_a_silence_that_is_given_up_as_always_does() -> None:
    for adopted in (True, False):
        known, now = episodes_of(NIGHTS), NIGHTS[-1] + DAY
        known.begin(episode(now), now + MINUTE)
        known.open[SERIES].kind, known.open[SERIES].adopted = "change", adopted
        assert known.close(SERIES, now + 5 * MINUTE).recurs == (not adopted)


def test_what_is_known_of_recurrences_survives_a_restart_to_the_bit() -> None:
    before = episodes_of(NIGHTS[:6]).recurrences
    for known in (before, Recurrences()):
        after = Recurrences.load(read_part(write_columns(COLUMNS, known.rows()))[0])
        assert after.known == known.known and not after.changed


def port(number: int, metric: str = "errors", host: str = "switch-1") -> str:
    return f"counter/{host}/if/{metric}{{port={number}}}"


def of_ports(hours: Sequence[float]) -> Episodes:
    """Episodes of ten minutes and 12 nats that began after so many hours, each on a port of its own."""
    known = Episodes()
    for number, hour in enumerate(hours):
        at = BEGIN + int(hour * HOUR)
        known.begin(replace(episode(at), series=port(number)), at + MINUTE)
        known.open[port(number)].count_normal(at + 10 * MINUTE, normal=False)
        known.close(port(number), at + 10 * MINUTE)
    return known


@pytest.mark.parametrize(
    ("hours", "recurs"),
    [
        ([1.0, 9.0, 20.0], True),
        ([1.0, 20.0], False),  # too few occasions
        ([1.0, 1.01, 1.02, 20.0], False),
        ([7.5, 9.0, 20.0], False),  # within a day
        ([-150.0, 1.0, 20.0], False),  # more than a week ago
    ],
)
def test_what_comes_often_on_series_that_differ_in_labels_recurs(hours: list[float], *, recurs: bool) -> None:
    at = BEGIN + 31 * HOUR
    for series, expected in (
        (port(90), recurs),
        (port(90, metric="drops"), False),
        (port(90, host="switch-2"), False),
        ("counter/switch-1/if/errors", recurs),
        ("counter/switch-1/if{1}/errors", False),
    ):
        known = of_ports(hours)
        assert known.begin(replace(episode(at), series=series), at + MINUTE).recurs == expected
        again = Episodes((), Recurrences.load(read_part(write_columns(COLUMNS, of_ports(hours).recurrences.rows()))[0]))
        assert again.begin(replace(episode(at), series=series), at + MINUTE).recurs == expected
        assert again.recurrences.rows() == known.recurrences.rows()


@pytest.mark.parametrize(("since", "recurs"), [(0.0, True), (30.0, False)])
def test_what_comes_on_hundreds_of_series_recurs_once_it_has_been_so_for_a_day(since: float, *, recurs: bool) -> None:
    known, at = of_ports(np.linspace(since, 50.0, 300).tolist()), BEGIN + int(50.5 * HOUR)
    assert known.begin(replace(episode(at), series=port(900)), at + MINUTE).recurs == recurs


def test_it_is_news_where_it_is_longer_or_stronger_than_three_of_them_were_or_many_begin_at_once() -> None:
    at = BEGIN + 31 * HOUR
    known = of_ports([1.0, 9.0, 20.0])
    assert not known.begin(replace(episode(at), series=port(90), evidence=18.5), at + MINUTE).recurs
    known = of_ports([1.0, 9.0, 20.0])
    assert known.begin(replace(episode(at), series=port(90)), at + MINUTE).recurs
    for minute in (14, 16):
        known.open[port(90)].count_normal(at + minute * MINUTE, normal=False)
        assert known.open[port(90)].update_due(at + minute * MINUTE) == (minute == 16)
    known = of_ports([1.0, 9.0, 20.0])
    found = [known.begin(replace(episode(at), series=port(k)), at + MINUTE).recurs for k in range(90, 100)]
    assert found == [True] * 2 + [False] * 8


def event(at: int, status: str = "open", recurs_every: float = math.nan) -> EpisodeEvent:
    return EpisodeEvent(
        series=SERIES, kind="anomaly", status=status, start=at, window_end=at + MINUTE, score=40.0, evidence=40.0,
        value=9.0, typical=5.0, lower=4.0, upper=6.0, reason="9, expected 4 to 6", part="level", recurs_every=recurs_every,
    )  # fmt: skip


def test_what_recurs_is_no_evidence_for_an_incident_until_it_is_unusual() -> None:
    watched = Watched(series=1_000, hosts=20, window_seconds=10)
    correlator, at = Correlator(CorrelationParameters()), BEGIN
    assert correlator.step(at + MINUTE, [event(at, recurs_every=86_400.0)], watched) == []
    unusual = replace(event(at, "update"), window_end=at + 2 * MINUTE)
    (found,) = correlator.step(at + 2 * MINUTE, [unusual], watched)
    assert found.status == "open" and found.start == at
    assert Correlator(CorrelationParameters()).step(at + MINUTE, [event(at)], watched)[0].status == "open"


def test_what_recurs_is_no_part_of_an_incident_that_something_else_began() -> None:
    watched = Watched(series=1_000, hosts=20, window_seconds=10)
    correlator, at = Correlator(CorrelationParameters()), BEGIN
    other = replace(event(at), series="gauge/web-1//cpu", id="other")
    (found,) = correlator.step(at + MINUTE, [other, event(at, recurs_every=86_400.0)], watched)
    assert [one.series for one in found.series] == [other.series]
    ends = replace(other, status="close", window_end=at + 2 * MINUTE)
    goes_on = replace(event(at, "update", 86_400.0), window_end=at + 2 * MINUTE)
    (found,) = correlator.step(at + 2 * MINUTE, [ends, goes_on], watched) + correlator.step(at + HOUR, [], watched)
    assert found.status == "close" and found.novelties == 1


def saw(weeks: float, period: int, rng: np.random.Generator) -> Floats:
    """A leak in rows of five minutes that a restart ends every `period` rows."""
    rows = np.arange(round(weeks * 7 * 288))
    return 2e9 + rows % period / period * 3e9 + rng.normal(0, 3e7, len(rows))


def test_restarts_of_a_leak_are_novel_at_first_and_a_step_at_another_time_always() -> None:
    values = saw(4.0, 240, np.random.default_rng(9))
    strange = 27 * 288 + 100  # 27 days: half a period away from the next restart
    assert strange % 240 not in range(200, 240) and strange % 240 > 40
    values[strange : strange + 12] += 6e9
    scorer = TableScorer(["heap"], DetectorParameters(window_seconds=300.0), host=False)
    answers = [scorer.step(BEGIN + k * 300_000, values[k : k + 1]) for k in range(len(values))]
    novel = np.flatnonzero([answer.novelty for answer in answers])
    restarts = novel[(novel % 240 < 3) & (novel > 288)]
    assert 3 <= len(restarts) <= 8, "of 33"
    assert restarts.max() < 10 * 288
    assert (np.abs(novel - strange) < 3).any()
    recurring = [e for answer in answers for e in answer.events if e.status == "open" and e.recurs]
    assert len(recurring) > 15
    assert all(abs(e.recurs_every - 72_000) < 1_000 for e in recurring)
