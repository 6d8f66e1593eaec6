"""Templates that are one template: how they are found, and that series go on when theirs are merged."""

from __future__ import annotations

import doctest
import random
import string
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.fleet_story import WINDOW, DetectorRun, Row, windows

from models.core.limits import LimitParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.detection.template_merging import MOST_REMEMBERED
from models.records.records import EpisodeEvent, episode_id
from models.templates import merging
from models.templates.extraction import template_id
from models.templates.merging import MOST_ALIKE, MOST_PATTERNS, MOST_TOKENS, TemplateMerger, merge_templates

WORDS = (
    "orders",
    "mail",
    "audit",
    "search",
    "users",
    "exports",
    "ledger",
    "quotas",
    "alerts",
    "carts",
    "feeds",
    "pricing",
)
QUICK = ControlledParameters(grace_minutes=1.0, warm_up_minutes=2.0)
MERGED = "queue <*> is full"


def merger_of(templates: Iterable[str]) -> TemplateMerger:
    merger = TemplateMerger()
    for template in templates:
        merger.add(template)
    return merger


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(merging).failed == 0


@pytest.mark.parametrize("count", [4, 5])
def test_five_plain_words_in_one_place_are_a_parameter(count: int) -> None:
    found = merge_templates([f"queue {word} is full" for word in WORDS[:count]])
    assert len(set(found)) == (1 if count == 5 else 4)


@pytest.mark.parametrize("words", [("eu-west", "eu-north", "us-east"), ("camelCase", "otherName", "thirdOne")])
def test_three_words_with_a_sign_of_a_name_are_a_parameter(words: Sequence[str]) -> None:
    assert set(merge_templates([f"region {word} is full" for word in words])) == {"region <*> is full"}
    assert len(set(merge_templates([f"region {word} is full" for word in words[:2]]))) == 2


def test_the_first_word_needs_twice_as_many() -> None:
    assert len(set(merge_templates([f"{word} is full now" for word in WORDS[:9]]))) == 9
    assert set(merge_templates([f"{word} is full now" for word in WORDS[:10]])) == {"<*> is full now"}


def test_a_word_where_a_known_template_has_a_parameter_is_that_parameter() -> None:
    assert set(merge_templates([MERGED, "queue orders is full"])) == {MERGED}


def test_a_word_that_came_before_its_parameter_is_that_parameter() -> None:
    referrer = ["page read (from: None)", "page read (from: <*>)", "page read (from: home)"]
    assert set(merge_templates(referrer)) == {"page read (from: <*>)"}
    assert merge_templates(list(reversed(referrer))) == merge_templates(referrer)


def test_a_first_word_needs_more_of_its_line_to_be_the_parameter_that_comes_later() -> None:
    assert len(set(merge_templates(["cron startup succeeded", "<*> startup succeeded"]))) == 2
    assert set(merge_templates(["cron startup has succeeded", "<*> startup has succeeded"])) == {
        "<*> startup has succeeded"
    }


def test_templates_with_too_few_equal_words_are_never_merged() -> None:
    assert len(set(merge_templates([f"queue {word}" for word in WORDS]))) == len(WORDS)


def test_several_places_become_parameters_one_after_the_other() -> None:
    lines = [f"user {a} reads topic {b} again" for a in WORDS[:6] for b in WORDS[6:]]
    assert set(merge_templates(lines)) == {"user <*> reads topic <*> again"}


def test_several_places_may_become_parameters_at_once() -> None:
    apart = [f"moved {a} on to {b} as asked" for a, b in zip(WORDS[:6], WORDS[6:], strict=True)]
    assert set(merge_templates(apart)) == {"moved <*> on to <*> as asked"}
    assert len(set(merge_templates(apart[:4]))) == 4
    few = [f"moved {a} on to {b} as asked" for a, b in zip(WORDS[:6], 3 * WORDS[:2], strict=True)]
    assert len(set(merge_templates(few))) == 6


def test_lists_of_known_lengths_are_one_template() -> None:
    names = [f"n-{i}" for i in range(4)]
    one, two = [f"nodes are up: {a}" for a in names], [f"nodes are up: {a}, {b}" for a in names for b in names]
    assert set(merge_templates([*one, *two])) == {"nodes are up: <*>"}


PARTLY_MASKED = [
    ("sent to relay=<*>, delay=<*>", "sent to relay=db[<*>, delay=<*>"),
    ("node <*> is ready", "node celery@db is ready"),
    ("user <*> left <*> ago", "user o'brien left <*> ago"),
    ("read at <*>/s by <*>", "read at many/s by web:main"),
    ("moved <*>/<*> to disk", "moved a/b-c:d to disk"),
]


@pytest.mark.parametrize(("wide", "narrow"), PARTLY_MASKED)
def test_all_that_stands_where_a_known_template_has_a_place_is_that_parameter(wide: str, narrow: str) -> None:
    assert merge_templates([wide, narrow]) == [wide, wide]
    assert merge_templates([narrow, wide]) == [wide, wide]


def test_one_word_stands_where_several_have_become_one_place() -> None:
    names = [f"{a} {b}" for a, b in zip(WORDS[:6], WORDS[6:], strict=True)]
    lines = [f"report is mailed to {name}" for name in names]
    assert set(merge_templates([*lines, "report is mailed to ann", "report is mailed to o'brien"])) == {
        "report is mailed to <*>"
    }
    assert set(merge_templates(["report is mailed to ann", *lines])) == {"report is mailed to <*>"}


APART = [
    ("session of <*> opened by <*>", "session of <*> opened by (uid=<*>)"),  # it names something
    ("node <*> is ready", "node db is ready now"),  # another number of values
    ("read at <*>/s by all", "read at <*>/min by all"),
    ("file <*>.log is full", "file .log is full"),  # nothing is there
    ("queue <*>", "queue of:mail"),  # too few equal words
]


@pytest.mark.parametrize("templates", APART)
def test_what_only_looks_like_the_value_of_a_place_stays_apart(templates: tuple[str, str]) -> None:
    assert merge_templates(templates) == list(templates)
    assert merge_templates(templates[::-1]) == list(templates[::-1])


def test_a_first_value_needs_more_of_its_line_to_be_the_parameter_that_comes_later() -> None:
    assert len(set(merge_templates(["rpc:statd startup succeeded", "<*> startup succeeded"]))) == 2
    assert set(merge_templates(["rpc:statd startup has succeeded", "<*> startup has succeeded"])) == {
        "<*> startup has succeeded"
    }


template_texts = st.lists(
    st.lists(
        st.sampled_from(
            ["a", "b", "c", "d", "e", "f", "x1", "<*>", "is", "full", ":", ".", "a[<*>", "b:c", "k=<*>", "k=d"]
        ),
        min_size=1,
        max_size=7,
    ).map(" ".join),
    max_size=60,
)


@given(template_texts)
@examples(150)
def test_a_template_keeps_its_merged_one_until_more_are_merged(texts: list[str]) -> None:
    merger = merger_of(texts)
    before = {text: merger.text_of(text) for text in texts}
    state = merger.patterns
    for text in texts:
        assert merger.add(text) is None
    assert merger.patterns == state
    assert {text: merger.text_of(text) for text in texts} == before
    assert {one for one in before.values() if one in merger} == set(before.values())


@given(template_texts, st.integers(0, 60))
@examples(150)
def test_a_merger_that_goes_on_from_a_state_answers_as_one_that_never_stopped(texts: list[str], at: int) -> None:
    whole, part = TemplateMerger(), merger_of(texts[:at])
    for text in texts[:at]:
        whole.add(text)
    again = TemplateMerger(part.patterns)
    assert [again.add(text) for text in texts[at:]] == [whole.add(text) for text in texts[at:]]
    assert again.patterns == whole.patterns


@given(template_texts)
@examples(100)
def test_what_a_merge_says_is_what_changes(texts: list[str]) -> None:
    merger, known = TemplateMerger(), set[str]()
    for text in texts:
        merge = merger.add(text)
        if text in merger:
            known.add(text)
        if merge is not None:
            assert merge.after not in merge.before
            assert all(one not in merger for one in merge.before)
            known = known - set(merge.before) | {merge.after}
        assert known == {one for _, one in merger.patterns}


@given(template_texts)
@examples(200)
def test_what_a_template_is_part_of_changes_with_a_merge_alone(texts: list[str]) -> None:
    """`detect` remembers it until then, and a restart forgets it."""
    merger, known = TemplateMerger(), dict[str, str]()
    for text in texts:
        if merger.add(text) is None:
            assert {one: merger.text_of(one) for one in known} == known
        known = {one: merger.text_of(one) for one in [*known, text]}
        again = TemplateMerger(merger.patterns)
        assert {one: again.text_of(one) for one in known} == known


def test_a_state_is_bounded_whatever_comes() -> None:
    choice = random.Random(1)
    merger = TemplateMerger()
    for _ in range(3 * MOST_PATTERNS):
        merger.add(" ".join(choice.choice(string.ascii_lowercase) * 3 for _ in range(choice.randrange(1, 12))))
    assert len(merger) <= MOST_PATTERNS
    alike = merger_of("".join(choice.sample(string.ascii_lowercase, 8)).replace("a", " ") + " b c" for _ in range(5000))
    assert max(map(len, alike._of_shape.values())) <= MOST_ALIKE


def test_long_templates_take_no_part() -> None:
    long = "word " * (MOST_TOKENS // 2 + 1)
    merger = merger_of(long + word for word in WORDS)
    assert len(merger) == 0
    assert merger.text_of(long + WORDS[0]) == long + WORDS[0]


def test_hostile_templates_cost_bounded_work() -> None:
    """As many as may be alike, as long as may be, that differ at their ends, and half of them have parameters in other places each."""
    words, choice = MOST_TOKENS // 2 - 12, random.Random(1)

    def text(hole: int = -1) -> str:
        return " ".join("<*>" if at == hole else "a" for at in range(words)) + "".join(
            choice.choices((" b", " c", " d", " e"), k=12)
        )

    merger = TemplateMerger()
    for number in range(MOST_ALIKE):
        merger.add(text(number // 2 if number % 2 else -1), merge=False)
    assert len(merger) == MOST_ALIKE
    lines = [text() for _ in range(5_000)]
    begun = time.process_time()
    assert [merger.text_of(line) for line in lines] == lines
    assert time.process_time() - begun < 1.0  # a third; three where they are compared one after the other


def test_templates_whose_values_all_have_a_place_cost_bounded_work() -> None:
    """As many as may be known, of one length, each value with a place and most with another text before it."""
    signs = "=:/#!%&~;,"
    merger = TemplateMerger()
    for number in range(MOST_PATTERNS):
        values = (
            f"a{'b' * (at == 11 and number % 190)}{signs[(number // 190 + (at == 3) * at) % 10]}<*>" for at in range(12)
        )
        merger.add(" ".join(values), merge=False)
    assert len(merger) > MOST_PATTERNS // 2
    lines = [" ".join(["a=<*>"] * 11) + f" q{number}" for number in range(1_000)]
    begun = time.process_time()
    assert [merger.text_of(line) for line in lines] == lines
    assert time.process_time() - begun < 2.0  # a third; five where all of them are looked at


def row_of(text: str, host: str = "h", level: str = "info", service: str = "shop") -> str:
    return f"template/{host}/{service}/{level}/{template_id(text)}"


def lines(counts: Mapping[str, int], host: str = "h", level: str = "info") -> dict[str, Row]:
    """Rows of a window: lines by template, as `extract` makes them."""
    return {row_of(text, host, level): (n, text) for text, n in counts.items() if n}


def full(word: str) -> str:
    return f"queue {word} is full"


def queues(count: int, words: Sequence[str], *, seed: int = 0, host: str = "h") -> list[dict[str, Row]]:
    """Windows in which each queue is full now and then, and a heartbeat comes always."""
    choice = random.Random(f"{seed} {host}")
    return [
        lines({"heartbeat sent to peers": 3} | {full(word): choice.randrange(4) for word in words}, host)
        for _ in range(count)
    ]


def known(run: DetectorRun) -> set[str]:
    return set(run.detector._state.counts.names)


def test_merged_templates_are_one_series_with_one_row() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(60, WORDS[:4]))
    assert known(run) >= {row_of(full(word)) for word in WORDS[:4]}
    run.play(queues(30, WORDS[:8], seed=1))
    assert known(run) == {row_of("heartbeat sent to peers"), row_of(MERGED)}
    last = run.scores[-1]
    at = last.series.tolist().index(row_of(MERGED))
    rows = queues(30, WORDS[:8], seed=1)[-1]
    count = sum(row[0] for row in rows.values() if isinstance(row, tuple) and "queue" in row[1])
    assert last.value[at] == count * 60_000 / WINDOW
    assert last.template[at] == MERGED
    assert len(last.series) == 2


def test_nothing_is_new_or_strange_because_templates_were_merged() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(200, WORDS[:4]))
    events = run.play(queues(200, WORDS[:5], seed=1))
    assert row_of(MERGED) in known(run)
    assert events == []


def test_a_merged_template_is_expected_as_often_as_its_parts_together() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(120, WORDS[:4]))
    expected = sum(run.scores[-1].typical[[n.startswith("template") for n in run.scores[-1].series]]) - 3
    story = queues(1, WORDS[:5], seed=1)
    run.play(story)
    at = run.scores[-1].series.tolist().index(row_of(MERGED))
    assert run.scores[-1].typical[at] == pytest.approx(
        expected, rel=0.35
    )  # the window lacks those queues that had no line
    assert run.scores[-1].score[at] < 8


def test_a_merged_id_stays_whatever_words_come() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(30, WORDS[:6]))
    before = known(run)
    run.play(queues(30, [f"q{word}" for word in WORDS], seed=2))
    assert known(run) == before


def play_in_pieces(story: Sequence[dict[str, Row]], parameters: ControlledParameters) -> DetectorRun:
    run = DetectorRun(ShardDetector(parameters))
    for rows in story:
        run.play([rows])
        run.detector = ShardDetector.load(run.detector.dump(), parameters)
    return run


def test_a_run_in_pieces_is_as_one() -> None:
    story = [*queues(40, WORDS[:3]), *queues(20, WORDS[:7], seed=1), *queues(20, WORDS, seed=2)]
    whole, pieces = DetectorRun(ShardDetector(QUICK)), play_in_pieces(story, QUICK)
    whole.play(story)
    assert pieces.events == whole.events
    assert pieces.detector.dump() == whole.detector.dump()
    assert [one.series.tolist() for one in pieces.scores] == [one.series.tolist() for one in whole.scores]


def partly_masked(count: int, nodes: Sequence[str], seed: int) -> list[dict[str, Row]]:
    choice = random.Random(seed)
    return [
        lines({"heartbeat sent to peers": 3} | {f"node {node} is ready": choice.randrange(4) for node in nodes})
        for _ in range(count)
    ]


def test_the_series_of_values_of_another_shape_goes_on_under_the_template_with_their_place() -> None:
    other = ("celery@db", "mail[<*>", "o'brien")
    story = [*partly_masked(40, other[:2], 1), *partly_masked(20, ["<*>", *other], 2)]
    whole, pieces = DetectorRun(ShardDetector(QUICK)), play_in_pieces(story, QUICK)
    whole.play(story)
    assert known(whole) == {row_of("heartbeat sent to peers"), row_of("node <*> is ready")}
    assert whole.events == []
    assert pieces.detector.dump() == whole.detector.dump()


@given(st.randoms(use_true_random=False))
@examples(10)
def test_the_order_of_lines_within_a_window_does_not_matter(choice: random.Random) -> None:
    story = queues(12, WORDS[:7])
    shuffled = [dict(choice.sample(sorted(rows.items()), len(rows))) for rows in story]
    one, other = DetectorRun(ShardDetector(QUICK)), DetectorRun(ShardDetector(QUICK))
    one.play(story)
    other.play(shuffled)
    assert one.detector.dump() == other.detector.dump()


def test_what_is_said_of_a_host_does_not_depend_on_others() -> None:
    first, second = queues(60, WORDS[:6], host="a"), queues(60, WORDS[3:], seed=5, host="b")
    both, alone = DetectorRun(ShardDetector(QUICK)), DetectorRun(ShardDetector(QUICK))
    both.play([a | b for a, b in zip(first, second, strict=True)])
    alone.play(first)
    for together, by_itself in zip(both.scores, alone.scores, strict=True):
        of_a = [name.split("/")[1] == "a" for name in together.series]
        assert together.series[of_a].tolist() == by_itself.series.tolist()
        assert together.score[of_a].tolist() == pytest.approx(by_itself.score.tolist(), nan_ok=True)


def test_templates_of_one_service_are_merged_in_the_chain_as_kappa_templates_merges_those_of_a_file() -> None:
    choice = random.Random(3)
    texts = [
        choice.choice([f"user {w} reads topic {v} again", full(w), f"{w} is gone now"])
        for w in WORDS
        for v in WORDS[:6]
    ]
    choice.shuffle(texts)
    run = DetectorRun(ShardDetector(QUICK))
    run.play([lines({text: 1}) for text in texts])
    assert known(run) == {row_of(text) for text in merge_templates(texts)}


def burst(words: Sequence[str], count: int, of: str, lines_of_it: int) -> list[dict[str, Row]]:
    return [rows | {row_of(full(of)): (lines_of_it, full(of))} for rows in queues(count, words, seed=3)]


def statuses(events: Iterable[EpisodeEvent]) -> list[tuple[str, str, str]]:
    return [(event.id, event.status, event.series) for event in events]


def test_an_open_episode_goes_on_under_the_merged_template() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(120, WORDS[:4]))
    opened = run.play(burst(WORDS[:4], 12, WORDS[0], 900))
    assert [(event.status, event.series, event.alias_of) for event in opened][:1] == [
        ("open", row_of(full(WORDS[0])), None)
    ]
    fifth = {row_of(full(WORDS[4])): (1, full(WORDS[4]))}
    later = run.play([rows | fifth for rows in burst(WORDS[:4], 12, WORDS[0], 2000)], queues(60, WORDS[:5], seed=4))
    own = opened[0].id
    assert own == episode_id(row_of(full(WORDS[0])), opened[0].start)
    assert {event.id for event in later} == {own}
    assert {event.series for event in later} == {row_of(MERGED)}
    assert {event.alias_of for event in later} == {row_of(full(WORDS[0]))}
    assert [event.status for event in later][-1] == "close"
    assert not run.detector._state.episodes.open


def test_of_two_open_episodes_one_goes_on_and_the_other_is_closed() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(120, WORDS[:4]))
    both = [a | {row_of(full(WORDS[1])): (500, full(WORDS[1]))} for a in burst(WORDS[:4], 12, WORDS[0], 900)]
    opened = [event for event in run.play(both) if event.status == "open"]
    assert len(opened) == 2
    at_once = run.play([both[-1] | {row_of(full("fifth")): (1, full("fifth"))}])
    closed = [event for event in at_once if event.status == "close"]
    assert len(closed) == 1
    assert closed[0].series == row_of(MERGED)
    (left,) = run.detector._state.episodes.open.values()
    assert {closed[0].id, episode_id(left.opened_as, left.start)} == {event.id for event in opened}
    run.play(queues(100, WORDS[:5], seed=4))
    assert not run.detector._state.episodes.open
    counted = [event.id for event in run.events if event.status == "close"]
    assert sorted(counted) == sorted(event.id for event in run.events if event.status == "open")


def test_new_templates_that_turn_out_to_be_one_are_new_once() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play([lines({"heartbeat sent to peers": 30})] * 400)
    story = [lines({"heartbeat sent to peers": 30, full(WORDS[k % 6]): 1}) for k in range(60)]
    events = run.play(story)
    assert [(event.kind, event.status) for event in events] == [("new", "open"), ("new", "close")]


def test_a_label_holds_for_the_merged_template() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    run.play(queues(120, WORDS[:4]))
    name = row_of(full(WORDS[0]))
    run.detector._state.control.demands[name] = {"high": (4.0, run.now, 0.0)}
    run.play(queues(5, WORDS[:5], seed=1))
    assert run.detector._state.control.demands == {row_of(MERGED): {"high": (4.0, run.now - 5 * WINDOW, 0.0)}}


def test_each_level_has_its_own_series_of_a_merged_template() -> None:
    run = DetectorRun(ShardDetector(QUICK))
    texts = [full(word) for word in WORDS[:5]]
    run.play([lines(dict.fromkeys(texts[:3], 1)) | lines(dict.fromkeys(texts[2:4], 1), level="warn")] * 20)
    run.play([lines({texts[4]: 1})])
    assert known(run) == {row_of(MERGED), row_of(MERGED, level="warn")}


def test_merging_makes_room_under_a_limit_and_a_flood_is_not_remembered() -> None:
    limits = LimitParameters(templates_per_host=8, new_series_per_host=20)
    run = DetectorRun(ShardDetector(replace(QUICK, limits=limits)))
    run.play(queues(30, WORDS[:8]))
    assert len(known(run)) == 2
    choice = random.Random(2)
    letters = string.ascii_lowercase
    for _ in range(30):
        flood = {" ".join(choice.choice(letters) * 4 for _ in range(6)): 1 for _ in range(50)}
        run.play([lines({"heartbeat sent to peers": 3} | flood)])
    state = run.detector._state
    assert len(known(run)) <= 8
    assert {(c, i) for c, own in state.templates.items() for i in own.ids.values()} == {
        ("h/shop", name.rsplit("/", 1)[1]) for name in known(run)
    }
    assert len(state.templates["h/shop"].merger) == len(known(run))


def test_lines_that_vary_in_each_of_sixty_places_cost_little() -> None:
    lines = [" ".join(f"v{i // 60}x" if at == i % 60 else "k" for at in range(60)) for i in range(600)]
    began = time.process_time()
    assert len(merger_of(lines)) < 10
    assert time.process_time() - began < 3.0  # half a second; seven where all places of all groups are looked at


def test_names_of_lines_that_vary_without_an_end_are_not_remembered_without_an_end() -> None:
    host, run, letters = "%2F" * 256, DetectorRun(ShardDetector(QUICK)), random.Random(2)
    for window in range(16):
        words = ["".join(letters.choices(string.ascii_lowercase, k=8)) for _ in range(20 if window < 3 else 1_000)]
        run.play([{row_of(f"queue {word} is full now", host): (1, f"queue {word} is full now") for word in words}])
        run.scores.clear()
    assert len(run.detector._state.counts) == 1
    remembered = run.detector._templates._aliases
    assert 0 < sum(len(name) + len(series) for name, (series, _) in remembered.items()) <= MOST_REMEMBERED


def test_templates_are_forgotten_with_their_series() -> None:
    parameters = replace(QUICK, forget_days=0.5)
    run = DetectorRun(ShardDetector(parameters))
    run.play(queues(30, WORDS[:8]))
    run.gap(8640)
    run.play([lines({"heartbeat sent to peers": 3})] * 400)
    assert known(run) == {row_of("heartbeat sent to peers")}
    assert set(run.detector._state.templates["h/shop"].ids) == {"heartbeat sent to peers"}
    run.play([lines({full(WORDS[0]): 1})])
    assert row_of(full(WORDS[0])) in known(run)


def test_a_plan_hides_a_template_and_remembers_nothing_of_it() -> None:
    rule = {
        "name": "p",
        "service": "shop",
        "kind": "template",
        "planned": True,
        "since": "1970-01-01T00:00:00Z",
        "until": "1970-01-02T00:00:00Z",
    }
    detector = ShardDetector(replace(QUICK, rules=(rule,)))  # type: ignore[arg-type]
    for k in range(1, 6):
        scores, _ = detector.step(k * WINDOW, windows(lines({full(word): 1 for word in WORDS})))
        assert [kind for kind, name in zip(scores.kind, scores.series, strict=True) if "template" in name] == [
            "planned"
        ]
    assert detector._state.templates == {}
