"""The mix of log templates: closed forms, simulation, and stories of one service."""

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import numpy as np
import pytest
from scipy import special, stats
from support.fleet_story import DetectorRun, Row, words

from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent
from models.rules.rule import Rule
from models.stats import template_mixture

P = DetectorParameters()
SERVICE = "service/vm-1/nginx"


def one(*numbers: float) -> list[Floats]:
    return [np.array([number]) for number in numbers]


@pytest.mark.parametrize("n", [1, 20, 300])
@pytest.mark.parametrize(("a", "b"), [(0.02, 9.0), (3.0, 7.0), (40.0, 400.0)])
def test_the_probabilities_of_a_count_are_those_of_scipy_and_sum_to_one(n: int, a: float, b: float) -> None:
    x = np.arange(n + 1.0)
    found = template_mixture.log_pmf(x, np.full(n + 1, float(n)), np.full(n + 1, a), np.full(n + 1, b))
    np.testing.assert_allclose(found, stats.betabinom.logpmf(x, n, a, b), rtol=1e-9, atol=1e-9)
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_count_is_a_marginal_of_the_dirichlet_multinomial() -> None:
    n, alpha = 12, np.array([0.7, 2.0, 5.3])
    whole = np.zeros(n + 1)
    for counts in product(range(n + 1), repeat=3):
        if sum(counts) == n:
            choices = special.gammaln(n + 1) - special.gammaln(np.array(counts) + 1.0).sum()
            ways = (special.gammaln(alpha + counts) - special.gammaln(alpha)).sum()
            whole[counts[0]] += np.exp(choices + special.gammaln(8.0) - special.gammaln(8.0 + n) + ways)
    assert whole.sum() == pytest.approx(1.0)
    x = np.arange(n + 1.0)
    size = np.full(n + 1, float(n))
    np.testing.assert_allclose(
        np.exp(template_mixture.log_pmf(x, size, np.full(n + 1, 0.7), np.full(n + 1, 7.3))), whole, rtol=1e-9
    )


@pytest.mark.parametrize("n", [60, 1000, 20_000])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("strength", [30.0, 300.0, 5000.0])
def test_a_tail_is_the_sum_of_its_probabilities(n: int, share: float, strength: float) -> None:
    x = np.arange(n + 1.0)
    same = [np.full(n + 1, number) for number in (float(n), share, strength)]
    pmf = np.exp(template_mixture.log_pmf(x, same[0], share * same[2], (1 - share) * same[2]))
    exact = np.where(x >= n * share, np.cumsum(pmf[::-1])[::-1], np.cumsum(pmf))
    tail = (exact < 1e-2) & (exact > 1e-13)
    assert tail.any() or n * share < 3
    found = np.exp(-template_mixture.share_surprisal(x, *same))
    factor = 1.5 if share * strength >= 1 else 2.5  # a power law's is harder to close
    assert np.all(found[tail] < factor * exact[tail])
    assert np.all(found[tail] > exact[tail] / factor)


def test_a_tail_is_what_simulation_says() -> None:
    rng = np.random.default_rng(3)
    theta = rng.beta(0.02 * 150, 0.98 * 150, 400_000)
    x = rng.binomial(200, theta)
    for many in (11, 15, 19):
        found = float(np.exp(-template_mixture.upper_tail_surprisal(*one(many, 200, 3, 147)))[0])
        assert found == pytest.approx((x >= many).mean(), rel=0.15)


def clean(seed: int, *, strength: float, lines: float, kinds: tuple[int, int], size: int = 250) -> Floats:
    """Scores of a fleet whose load has a rhythm and bursts, and whose mix has neither, `(blocks,)`."""
    rng = np.random.default_rng(seed)
    of = rng.integers(kinds[0], kinds[1] + 1, size)
    place = np.repeat(np.arange(size), of)
    share = rng.gamma(0.6, 1.0, len(place))
    share /= np.bincount(place, share)[place]
    s, found, phase = np.zeros((len(template_mixture.COLUMNS), len(place))), [], rng.uniform(0, 6.28, size)
    for k in range(450):
        theta = rng.gamma(np.maximum(share * strength, 1e-9))
        theta /= np.maximum(np.bincount(place, theta, minlength=size), 1e-300)[place]
        load = lines * (1 + 0.8 * np.sin(6.28 * k / 360 + phase)) * rng.gamma(5, 0.2, size)
        x = rng.poisson(rng.poisson(load + template_mixture.LEAST_LINES)[place] * theta).astype(float)
        none = np.zeros(len(place), dtype=bool)
        blocks = template_mixture.Blocks(size, place, x, none, none | (k > 20), np.full(size, 10.0))
        belief = template_mixture.predict(s, blocks, P)
        weight = 1 / (1 + P.outlier_share * np.exp(np.minimum(np.nan_to_num(belief.score), 50.0)))
        template_mixture.learn(s, blocks, belief, weight[place], P)
        if k >= 120:
            found.append(belief.score)
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("strength", "lines", "kinds"),
    [(30.0, 200.0, (3, 12)), (200.0, 200.0, (3, 12)), (200.0, 2000.0, (3, 12)), (200.0, 200.0, (2, 2))],
)
def test_on_a_clean_fleet_surprise_is_a_probability_whatever_the_load(
    strength: float, lines: float, kinds: tuple[int, int]
) -> None:
    score = clean(1, strength=strength, lines=lines, kinds=kinds)
    score = score[~np.isnan(score)]
    assert len(score) > 80_000
    for chance in (1e-2, 1e-3):
        assert 0.3 < (score >= -math.log(chance)).mean() / chance < 2
    assert (score >= -math.log(1e-4)).mean() / 1e-4 < 2


def test_what_was_told_is_left_out_and_the_rest_is_as_it_was() -> None:
    s = np.zeros((len(template_mixture.COLUMNS), 3))
    s[template_mixture.SUM], s[template_mixture.LINES] = [800.0, 150.0, 50.0], 1000.0
    now = [np.array([100.0, 19.0, 400.0])]
    published, settled = np.array([False, False, True]), np.ones(3, dtype=bool)
    blocks = template_mixture.Blocks(1, np.zeros(3, dtype=np.int64), now[0], published, settled, np.array([10.0]))
    belief = template_mixture.predict(s, blocks, P)
    assert belief.counted.tolist() == [True, True, False]
    assert belief.share[:2] == pytest.approx([800 / 950, 150 / 950], rel=1e-2)
    assert belief.score[0] < 1
    template_mixture.learn(s, blocks, belief, np.ones(3), P)
    assert s[template_mixture.SUM, 2] / s[template_mixture.LINES, 2] == pytest.approx(0.05)
    assert s[template_mixture.LINES, 0] == pytest.approx(1000 + 119 / 0.95, rel=1e-3)


def test_what_is_not_learnt_does_not_fade_and_what_is_does() -> None:
    s = np.zeros((len(template_mixture.COLUMNS), 3))
    s[:4] = [[800.0, 150.0, 50.0], [1000.0] * 3, [90.0, 60.0, 30.0], [4000.0, 3000.0, 1000.0]]
    before, none = s.copy(), np.zeros(3, dtype=bool)
    blocks = template_mixture.Blocks(1, np.zeros(3, dtype=np.int64), np.zeros(3), none, ~none, np.array([3600.0]))
    template_mixture.learn(s, blocks, template_mixture.predict(s, blocks, P), np.array([0.0, 1.0, 0.0]), P)
    assert np.array_equal(s[:, [0, 2]], before[:, [0, 2]])
    assert s[:2, 1] == pytest.approx(before[:2, 1] * 2**-0.5)
    assert s[2:4, 1] == pytest.approx(before[2:4, 1] * 2 ** (-1 / 6))


TEMPLATES = (
    ("info", "GET <*> 200 <*>"),
    ("info", "GET <*> 304 <*>"),
    ("debug", "cache hit <*>"),
    ("warn", "slow answer <*> ms"),
    ("error", "timeout after <*> ms"),
)
USUAL = (0.5, 0.3, 0.15, 0.04, 0.01)
FAILING = (0.4, 0.25, 0.1, 0.04, 0.21)
BROKEN = (0.2, 0.15, 0.1, 0.05, 0.5)
OTHERS = (0.3, 0.5, 0.15, 0.04, 0.01)


class ServiceLines:
    """Lines of a service, whose load has a rhythm and bursts."""

    def __init__(self, seed: int = 0, host: str = "vm-1") -> None:
        self.rng, self.host, self.k = np.random.default_rng(seed), host, 0

    def windows(self, count: int, shares: Sequence[float] = USUAL, load: float = 60.0) -> Iterator[dict[str, Row]]:
        for _ in range(count):
            self.k += 1
            lines = load * (1 + 0.6 * np.sin(2 * np.pi * self.k / 360)) * self.rng.gamma(4, 0.25)
            found = zip(TEMPLATES, self.rng.poisson(lines * np.array(shares)).tolist(), strict=True)
            yield {
                f"template/{self.host}/nginx/{level}/{text[:5].strip()}{level}{at}": (n, text)
                for at, ((level, text), n) in enumerate(found)
                if n
            }


def of_mix(events: Iterable[EpisodeEvent]) -> list[EpisodeEvent]:
    return [n for n in events if n.part == "mix"]


@pytest.fixture(scope="module")
def known() -> tuple[dict[str, bytes], int, ServiceLines]:
    """A detector that has known a service for two hours without a word, when that was, and the service."""
    service, run = ServiceLines(), DetectorRun(ShardDetector(P))
    assert of_mix(run.play(service.windows(720))) == []
    return run.detector.dump(), run.now, service


@pytest.fixture
def service(known: tuple[dict[str, bytes], int, ServiceLines]) -> ServiceLines:
    return deepcopy(known[2])


@pytest.fixture
def run(known: tuple[dict[str, bytes], int, ServiceLines]) -> DetectorRun:
    return DetectorRun(ShardDetector.load(known[0], P), known[1])


@pytest.mark.slow
def test_a_load_with_a_rhythm_does_not_move_the_mix(run: DetectorRun, service: ServiceLines) -> None:
    assert of_mix(run.play(service.windows(720, load=60), service.windows(180, load=8))) == []


def test_errors_are_a_greater_share_of_fewer_lines(run: DetectorRun, service: ServiceLines) -> None:
    events = run.play(service.windows(12, FAILING, load=15), service.windows(60))
    mixed = of_mix(events)
    assert words(n for n in mixed if n.status != "update") == [
        (SERVICE, "open", "anomaly"),
        (SERVICE, "close", "anomaly"),
    ]
    first = mixed[0]
    assert first.reason.startswith("'ERROR timeout after <*> ms' is ")
    assert " % of nginx's lines, expected 0" in first.reason
    assert first.value > first.upper > first.typical == pytest.approx(1, abs=0.4)
    assert first.unit == "%"
    assert first.template == "timeout after <*> ms"
    assert first.provisional
    assert first.start < first.window_end


def test_one_strange_window_is_no_shift(run: DetectorRun, service: ServiceLines) -> None:
    assert of_mix(run.play(service.windows(1, FAILING, load=300), service.windows(60))) == []


def test_a_mix_that_lasts_is_told_once_as_a_change_and_becomes_normal(run: DetectorRun, service: ServiceLines) -> None:
    events = of_mix(run.play(service.windows(400, OTHERS)))
    assert words(n for n in events if n.status != "update" or n.kind == "change") == [
        (SERVICE, "open", "anomaly"),
        (SERVICE, "update", "change"),
        (SERVICE, "close", "change"),
    ]
    change = next(n for n in events if n.kind == "change")
    assert change.window_end - change.start == pytest.approx(60_000 * P.persistence_minutes, abs=120_000)
    assert (change.before, change.after) == pytest.approx((30, 50), abs=4)
    assert change.reason.startswith("new mix of nginx's lines: ")
    assert of_mix(run.play(service.windows(360, OTHERS))) == []


def test_in_windows_of_a_minute_a_mix_must_last_as_many_of_them_to_be_adopted() -> None:
    p, service = replace(P, window_seconds=60), ServiceLines()
    run = DetectorRun(ShardDetector(p), window=60_000)
    assert of_mix(run.play(service.windows(200))) == []
    events = of_mix(run.play(service.windows(80, OTHERS)))
    assert [(n.status, n.kind) for n in events if n.kind == "change"] == [("update", "change"), ("close", "change")]
    change = next(n for n in events if n.kind == "change")
    assert change.window_end - change.start == pytest.approx(60_000 * 60, abs=180_000)


def test_an_anomalous_mix_is_not_learnt(run: DetectorRun, service: ServiceLines) -> None:
    run.play(service.windows(20, FAILING, load=20), service.windows(60))
    row = run.detector.describe_state(next(n for n in run.scores[-1].series if "error" in n))
    assert row["mix_sum"] / row["mix_lines"] == pytest.approx(0.01, abs=0.005)


def test_a_burst_that_its_rate_tells_is_one_incident(run: DetectorRun, service: ServiceLines) -> None:
    events = run.play(service.windows(20, (*USUAL[:4], 1.0)), service.windows(90))
    correlator, found = Correlator(CorrelationParameters()), set()
    for end in sorted({novelty.window_end for novelty in events}):
        of_window = [event for event in events if event.window_end == end]
        found |= {incident.id for incident in correlator.step(end, of_window)}
    assert {n.part for n in events} >= {"rate"}
    assert len(found) == 1


def test_what_a_rate_has_told_the_mix_does_not_tell_again(run: DetectorRun, service: ServiceLines) -> None:
    """A rate that is the new normal has a new share, which is learnt and not published."""
    events = run.play(service.windows(500, (*USUAL[:4], 0.6)))
    rate = [n for n in events if n.part == "rate" and n.kind == "change"]
    assert rate
    assert [n for n in of_mix(events) if n.status == "open" and n.window_end > rate[0].window_end] == []


def test_a_burst_that_its_rate_tells_at_once_is_left_out(run: DetectorRun, service: ServiceLines) -> None:
    events = run.play(service.windows(20, (*USUAL[:4], 30.0)), service.windows(60))
    assert {n.part for n in events} == {"rate"}


def test_a_template_alone_has_no_mix_and_one_that_joins_it_is_learnt_first() -> None:
    run, service = DetectorRun(ShardDetector(replace(P, warm_up_minutes=5))), ServiceLines()
    for rows in service.windows(120):
        run.play([{name: row for name, row in rows.items() if "200" in str(row)}])
    assert of_mix(run.play(service.windows(120))) == []


def test_hosts_of_a_service_that_share_a_shard_are_judged_apart() -> None:
    run, one, other = DetectorRun(ShardDetector(replace(P, warm_up_minutes=5))), ServiceLines(), ServiceLines(1, "vm-2")
    run.play(a | b for a, b in zip(one.windows(150), other.windows(150), strict=True))
    events = run.play(a | b for a, b in zip(one.windows(20, OTHERS), other.windows(20), strict=True))
    assert {n.series for n in of_mix(events)} == {SERVICE}


def test_a_muted_service_has_no_word_of_its_mix(known: tuple[dict[str, bytes], int, ServiceLines]) -> None:
    rule = Rule(kind="service", service="nginx", mute=True)
    run = DetectorRun(ShardDetector.load(known[0], ControlledParameters(rules=(rule,))), known[1])
    assert of_mix(run.play(deepcopy(known[2]).windows(30, OTHERS))) == []
    assert "mix" in run.detector.dump()["episodes"].decode(errors="ignore")


def muted(known: tuple[dict[str, bytes], int, ServiceLines], template: str) -> DetectorRun:
    """The detector that has known a service, with one of its templates muted from then on."""
    rule = Rule(kind="template", template=template, mute=True)
    return DetectorRun(ShardDetector.load(known[0], ControlledParameters(rules=(rule,))), known[1])


def test_a_muted_template_is_not_named_by_the_mix_of_its_service(
    known: tuple[dict[str, bytes], int, ServiceLines],
) -> None:
    events = muted(known, "timeout after *").play(deepcopy(known[2]).windows(12, FAILING, load=15))
    assert [n.reason for n in events if "timeout" in n.reason] == []
    assert of_mix(events) == []


def test_the_mix_of_the_others_is_told_although_most_lines_are_muted(
    known: tuple[dict[str, bytes], int, ServiceLines],
) -> None:
    flooded = (*OTHERS[:4], 20.0)
    events = of_mix(muted(known, "timeout after *").play(deepcopy(known[2]).windows(40, flooded, load=15)))
    assert [n.status for n in events if n.status == "open"] == ["open"]
    assert all("GET <*>" in n.reason and "timeout" not in n.reason for n in events)


# --- while an episode is open, and where nothing is learnt

HOUR = 360  # windows
PATIENCE_MS = 60_000 * P.patience_minutes + template_mixture.LONGEST_MS


def turns(events: Iterable[EpisodeEvent]) -> list[tuple[str, str]]:
    """Status and kind of events of the mix that open or close an episode, or make a change of it."""
    return [(n.status, n.kind) for n in of_mix(events) if n.status != "update" or n.kind == "change"]


def renamed(story: Iterable[dict[str, Row]]) -> Iterator[dict[str, Row]]:
    """The lines of another release, of which each template is new."""
    for rows in story:
        yield {f"{name}b": (row[0], f"v2 {row[1]}") for name, row in rows.items() if isinstance(row, tuple)}


@pytest.mark.slow
def test_an_episode_whose_service_goes_on_with_a_few_lines_ends_and_its_mix_is_judged_again(
    run: DetectorRun, service: ServiceLines
) -> None:
    assert turns(run.play(service.windows(12, FAILING, load=15))) == [("open", "anomaly")]
    judged = run.now
    events = run.play(service.windows(2 * HOUR + 60, FAILING, load=0.05))
    assert turns(events) == [("close", "anomaly")]
    assert of_mix(events)[-1].window_end <= judged + PATIENCE_MS + template_mixture.LONGEST_MS
    assert turns(run.play(service.windows(200))) == []
    assert turns(run.play(service.windows(30, OTHERS)))[0] == ("open", "anomaly")


@pytest.mark.slow
def test_an_episode_whose_templates_a_release_replaces_ends_and_those_of_the_release_are_judged(
    run: DetectorRun, service: ServiceLines
) -> None:
    assert turns(run.play(service.windows(12, FAILING, load=15))) == [("open", "anomaly")]
    assert turns(run.play(renamed(service.windows(2 * HOUR + 60)))) == [("close", "anomaly")]
    assert turns(run.play(renamed(service.windows(120)))) == []
    assert turns(run.play(renamed(service.windows(30, OTHERS))))[0] == ("open", "anomaly")


@pytest.fixture(scope="module")
def few_lines() -> tuple[dict[str, bytes], int, ServiceLines]:
    """As `known`, of a service with 230 lines an hour: of its lines no more than those of three hours are remembered."""
    service, run = ServiceLines(), DetectorRun(ShardDetector(P))
    assert of_mix(run.play(service.windows(2400, load=0.65))) == []
    return run.detector.dump(), run.now, service


@pytest.mark.slow
def test_the_mix_of_a_service_with_few_lines_is_adopted_and_not_lost_while_its_episode_is_open(
    few_lines: tuple[dict[str, bytes], int, ServiceLines],
) -> None:
    run = DetectorRun(ShardDetector.load(few_lines[0], P), few_lines[1])
    found = turns(run.play(deepcopy(few_lines[2]).windows(900, BROKEN, load=0.65)))
    assert found == [("open", "anomaly"), ("update", "change"), ("close", "change")]


@pytest.mark.slow
def test_a_mix_that_was_not_learnt_for_hours_is_judged_by_what_it_was(
    few_lines: tuple[dict[str, bytes], int, ServiceLines],
) -> None:
    since, until = (datetime.fromtimestamp(few_lines[1] / 1000 + more, UTC).isoformat() for more in (0, 86_400))
    rule = Rule(service="nginx", dont_learn=True, since=since, until=until)
    run = DetectorRun(ShardDetector.load(few_lines[0], ControlledParameters(rules=(rule,))), few_lines[1])
    service = deepcopy(few_lines[2])
    assert turns(run.play(service.windows(3 * HOUR, load=0.65))) == []
    assert turns(run.play(service.windows(HOUR, BROKEN, load=0.65))) == [("open", "anomaly")]
    assert turns(run.play(service.windows(3 * HOUR, load=0.65))) == [("close", "anomaly")]


def test_a_dump_in_the_middle_of_a_block_goes_on_bit_for_bit(known: tuple[dict[str, bytes], int, ServiceLines]) -> None:
    whole, first = (DetectorRun(ShardDetector.load(known[0], P), known[1]) for _ in range(2))
    story = [*deepcopy(known[2]).windows(150, OTHERS, load=9)]
    whole.play(story)
    first.play(story[:77])
    second = DetectorRun(ShardDetector.load(first.detector.dump(), P), first.now)
    second.play(story[77:])
    assert list(map(repr, whole.events)) == list(map(repr, first.events + second.events))
    assert of_mix(whole.events)
    assert whole.detector.dump() == second.detector.dump()
