"""Properties of templates: what varies is masked, the rest stays, headers are cut off, a template is its own template."""

from __future__ import annotations

import doctest
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import masks_of_re
from support.examples import examples
from support.line_ends import AT_THE_END, ENDS, ESCAPED, LINE_ENDS, OF_JAVA
from support.log_headers import HEADERS, MESSAGES

from app.simulator.parameters import COLUMN
from app.simulator.vocabulary import PARAMETER, TEMPLATES
from models.templates import extraction
from models.templates.extraction import template_id, template_of
from models.templates.masks import MASKS, MAX_TEMPLATE

MASKED = {
    "took 12 ms": "took <*>",
    "took 1,234.5ms of 99 s": "took <*> of <*>",
    "99% idle, 3 % busy": "<*> idle, <*> % busy",
    "a  b\t c\n": "a b c",
    "at 2026-01-05 10:00:03,250 +0100 and 10:00:03": "at <*> and <*>",
    "at Mon Jan  5 10:00:03 2026": "at <*>",
    "id 54FADB41-2c4e-40cd-baed-9335e4c35a9e": "id <*>",
    "id 54fadb412c4e40cdbaed9335e4c35a9e": "id <*>",
    "id req_8fj3kd9": "id <*>",
    "at 0xDEADBEEF": "at <*>",
    "block blk_-6952295868487656571": "block <*>",
    "commit 9f4ef63 and ffffffff": "commit <*> and <*>",
    "a decade of facades": "a decade of facades",
    "from 10.0.0.1:5000 to /10.0.0.2": "from <*> to /<*>",
    "from fe80::1ff:fe23:4567:890a and ::1": "from <*> and <*>",
    "peer db-1.example.com:5432 is down": "peer <*> is down",
    "link 0a:1b:2c:3d:4e:5f up": "link <*> up",
    "mail to Ann.B@example.com": "mail to <*>",
    "open /var/lib/x.log: denied": "open <*>: denied",
    "open ./x/y failed, a/b/c too": "open <*> failed, <*> too",
    "read orders.csv in C:\\Users\\x": "read <*> in <*>",
    "see https://example.com/a?b=c#d.": "see <*>",
    "user 'ann' wrote \"hi there\"": "user <*> wrote <*>",
    "session opened for user ann by (uid=0)": "session opened for user <*> by (uid=<*>)",
    "user unknown, user is locked": "user unknown, user is locked",
    "can't stop, won't stop": "can't stop, won't stop",
    "sent -5 and +7 of eth0": "sent <*> and <*> of <*>",
    "start com.example.app.Main now": "start <*> now",
    "java.lang.NullPointerException: null": "java.lang.NullPointerException: null",
    "org.apache.kafka.Producer.send()": "org.apache.kafka.Producer.send()",
    "caused by x.........0": "caused by x.........<*>",
    "token mpi5stn+vt9SNagHlhTgSIHPfkKMrUA/dCwXXvsPzIc= is old": "token <*> is old",
    "steps=12#34##5": "steps=<*>",
    "tags=new,red|old": "tags=<*>",
    "groups a,b,c given": "groups <*> given",
    "to Set(orders, mail)": "to Set(<*>)",
    "lock of a.lock by prod/web-7d9f8": "lock of <*> by <*>",
    "waited 12 µs and 1h2m3s": "waited <*> and <*>",
    "": "",
    # values as languages write them
    "sent b'\\x00 a' to u'ann'": "sent <*> to <*>",
    "call <bound method Thing.run of <acme.Thing object at 0x7f12ab>> later": "call <*> later",
    "Crawled <GET https://example.com/> ok": "Crawled <*> ok",
    "a <b and c> d, x -> y": "a <b and c> d, x -> y",
    "run Resize(path=x, size=Size(w=1, h=2)) again": "run <*> again",
    "run resize() again, f(a, b=3)": "run resize() again, f(a, b=<*>)",
    "options {'a': 1, 'b': {'c': None}} and {x, y} set": "options <*> and <*> set",
    "app | {level: info} x": "app | <*> x",
    "job [nightly report] of queue [mail] ended": "job of queue ended",
    "got [a b, {'c': 1}, [d, e]]x": "got [<*>]x",
    "load orders.created for kafka.errors.KafkaError": "load <*> for kafka.errors.KafkaError",
    "cache.eviction set to 5, e.g. here": "cache.eviction set to <*>, e.g. here",
    "option cache.eviction=lru, cache.eviction: lru": "option cache.eviction=lru, cache.eviction: lru",
    # a root alone, where a path is expected; what JSON has beside numbers and text
    'read / write "POST / HTTP/1.1" for x=/': 'read / write "POST <*>" for x=<*>',
    'of {"a": null, "b": [true]}, a: true': "of {<*>: [true]}, a: true",
    "plan B of 12 B, 3 Boxes": "plan B of <*> Boxes",
}

OF_A_JOURNAL = [
    "Mon 2026-01-05 10:00:03 UTC web-1 sshd[123]: ",
    "Mon 2026-01-05 10:00:03.123456 CET web-1 kernel: ",
]
EMPTY = {
    "key 'a' value '' found": "key <*> value <*> found",
    "handler (nil) of cb=(null), (none)": "handler <*> of cb=<*>, (none)",
}

# equal but for the number of values, or for their form
ALIKE = [
    ("wrote 512 B of 2 kB (12 B)", "wrote 1.5 KiB of 2 B (1 KiB)"),
    ("done path=/ status=200", "done path=/a/b status=404", "done path=/?q=1&n=2 status=200"),
    ('{"id": 1, "a": true, "b":false}', '{"id": 2, "a": null, "b":7}', '{"id": 3, "a": "x", "b":"y"}'),
    (
        '10.0.0.1 - - [05/Jan/2026:10:00:03 +0000] "GET /a HTTP/1.1" 200 612 "-" "Mozilla/5.0 (X11; Linux) Gecko/1"',
        '10.0.0.2 - - [05/Jan/2026:10:00:04 +0000] "GET / HTTP/2.0" 304 0 "https://example.com/" "curl/8.1"',
        '10.0.0.2 - ann [05/Jan/2026:10:00:04 +0000] "GET /?a=1 HTTP/2" 304 0 "-" "Wget on linux (gnu) by me"',
    ),
    (
        '{"request": "GET /a HTTP/1.1", "status": 200, "agent": "curl"}',
        '{"request": "GET / HTTP/1.1", "status": 500, "agent": "a (b; c)"}',
    ),
    ("no 1 2 3 4", "no 1"),
    ("hosts 10.0.0.1, 10.0.0.2", "hosts 10.0.0.1"),
    ("peer 10.0.0.1 (db.example.com) left", "peer 10.0.0.1 () left", "peer 10.0.0.1 left"),
    ("sent 12 bytes", "sent 1396 bytes (1.36 KB)", "sent 1.36 KB"),
    ("steps=12#34##5", "steps=12", "steps=1##2##3##4"),
    ("on [orders, mail]", "on [orders, mail, users]", "on [4, mail]"),
    ("id 1234567890123456", "id 12345678901234af"),
    ("to <Peer a at 0x1f>", "to <Peer 'b' of <Host object at 0x2f> at 0x1f>"),
    ("did A(day=3, kind=mail)", "did A(day=4, kind=orders, again=True)"),
    ("with {'a': 1, 'b': True}", "with {'c': None}"),
    ("for user [ann]", "for user [bob]"),
]

# what masking brought together is masked already
OWN = [
    "tags=new,red|old0steps=12#34##5",
    "steps=12#34##520260105-9:5:3:7|Sync|30002312|",
    "user (12) ann",
    "user  ann x",
    "a\t(12) b",
    "''2",
    "5<Fo>",
    "x 5%{a}",
    "c\norders.created",
    " INFO 12",
    '{"a": {"b": c}}',
    '"GET / HTTP/1.1" x "GET / HTTP/1.1" y',
]

WRAPPED = [
    ('time=2026-01-05T10:00:03Z level=info msg="', '"'),
    ('2026-01-05 10:00:03 INFO message="', '"'),
    ('I0105 10:00:03.123456    812 thing.go:12] "', '" pod="a/b" code=4'),
    ('{"ts": 1767607203.123, "level": "info", "msg": "', '"}'),
    ('app-1  | {"level": "info", "a": {"b": 1}, "msg": "', '", "c": null}'),
]
NO_HEADER = [
    "connection from 10.0.0.1 at Mon Jan  5 10:00:03 2026",
    "Started: 2026-01-05 10:00:03",
    "63543 double-hummer alignment exceptions",
    "1005 floating point alignment exceptions",
    "ready since 10:00:03",
    "an error: no INFO",
]

HOSTILE = [
    unit * (8192 // len(unit))
    for unit in (
        *(
            "a",
            "a.",
            "1.",
            "1,",
            "1:",
            "a:",
            ":",
            "/",
            "/a",
            "\\",
            '"',
            "'",
            "' ",
            "-",
            "a-",
            "@",
            "a@",
            "0x",
            "f",
            "0f",
            "a1",
        ),
        *(
            "<ip>",
            "<ip> (",
            "<num> ",
            " ",
            "a b",
            "://",
            "a://",
            "(1 ",
            "10.1.1.",
            "a.com",
            "2026-01-",
            "Jan ",
            "é",
            "\U0001f600",
        ),
        *(
            "[",
            "[]",
            "[a] ",
            "<*>",
            "<*> (",
            "12:00:00 ",
            "2026-01-05 10:00:03 ",
            "INFO ",
            "- ",
            "| ",
            "a|",
            "A ",
            "a: ",
            "./a",
        ),
        *(
            "{",
            "{a",
            "{a} ",
            "{a{b{c}",
            "f(a=",
            "f(a=1",
            "f(a=(b=(c)",
            "<aa",
            "<aa ",
            "<aa <b>",
            "b'",
            "[a,",
            "[a, [",
            " [a b",
            " [a",
            " a.b",
            "[<num>,",
        ),
    )
]
PIECES = st.sampled_from(
    [
        *MASKED,
        *HEADERS,
        *"0123456789abcdef.:-/\\@'\"<>()[]{},=_| \t\n\r\0%\u00b5\u03bc\x85\ud800",
        *("<num>", "<*>", "blk_", "0x", "user ", 'msg="', '\\"', "KB", " (", ") ", "a.b.c", ".log"),
        *("{'a': 1}", "b'x'", " [ann smith] ", "f(a=1, ", " a.created ", "<Foo at 0x12>"),
    ]
)
LINES = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)


@pytest.mark.parametrize("message", MASKED | EMPTY)
def test_what_varies_is_masked_and_what_is_the_same_stays(message: str) -> None:
    assert template_of(message) == (MASKED | EMPTY)[message]


@pytest.mark.parametrize("messages", ALIKE, ids=lambda messages: str(messages[0]))
def test_how_many_there_are_and_of_which_kind_makes_no_template(messages: tuple[str, ...]) -> None:
    assert len({template_of(message) for message in messages}) == 1


@pytest.mark.parametrize("header", [*HEADERS, *OF_A_JOURNAL])
def test_a_header_is_no_part_of_a_template(header: str) -> None:
    assert [template_of(header + message) for message in MESSAGES] == [template_of(message) for message in MESSAGES]


@pytest.mark.parametrize("around", WRAPPED, ids=lambda around: str(around[0]))
def test_a_message_in_quotes_is_no_parameter(around: tuple[str, str]) -> None:
    found = [template_of(around[0] + message + around[1]) for message in MESSAGES]
    assert all(template_of(message) in one for message, one in zip(MESSAGES, found, strict=True))


def test_a_message_in_quotes_with_quotes_in_it_is_no_parameter() -> None:
    """As a kubelet writes it."""
    started = r'I0105 10:00:03.123456    812 a.go:12] "Mount started for volume \"data\" (id: \"ns/x\")" pod="a/b"'
    ended = started.replace("started", "succeeded").replace("data", "logs")
    assert template_of(started) == template_of(started.replace("data", "logs")) != template_of(ended)
    assert "Mount succeeded for volume" in template_of(ended)


@pytest.mark.parametrize("message", NO_HEADER)
def test_a_message_without_a_header_keeps_its_words(message: str) -> None:
    words = [word for word in message.replace(":", " ").split() if word.isalpha() and word not in ("Mon", "Jan")]
    assert words
    assert all(word in template_of(message) for word in words)


def test_a_header_alone_leaves_something() -> None:
    assert template_of("2026-01-05 10:00:03") == "<*>"


@given(LINES)
@examples(300, derandomize=True, database=None)
def test_a_template_is_short_holds_no_digits_or_breaks_and_is_its_own_template(message: str) -> None:
    template = template_of(message)
    assert len(template) <= MAX_TEMPLATE
    assert not set(template) & set("0123456789\n\t")
    assert template == template.strip(" ")
    if len(message) < MAX_TEMPLATE:
        assert template_of(template) == template


@pytest.mark.parametrize("message", OWN)
def test_what_is_left_of_a_line_is_masked_already(message: str) -> None:
    assert template_of(template_of(message)) == template_of(message)


@given(LINES)
@examples(300, derandomize=True, database=None)
def test_a_template_is_what_regular_expressions_make_of_a_line(message: str) -> None:
    assert template_of(message) == masks_of_re.template_of(message)


def test_templates_of_known_lines_are_what_regular_expressions_make_of_them() -> None:
    every = [
        *MASKED,
        *MESSAGES,
        *HOSTILE,
        *NO_HEADER,
        *(before + message + after for before, after in WRAPPED for message in [*MASKED, *MESSAGES]),
        *(header + message for header in HEADERS for message in [*MASKED, *MESSAGES]),
        *LINE_ENDS,
        "\ud800 12 \udfff",
    ]
    assert [template_of(message) for message in every] == [masks_of_re.template_of(message) for message in every]


@pytest.mark.parametrize("mask", range(len(MASKS)))
def test_every_mask_matches_one_of_the_lines_of_these_tests(mask: int) -> None:
    pattern, _ = masks_of_re.OF_LINES[mask]
    before = masks_of_re.OF_LINES[:mask]
    every = [*MASKED, "12 bytes (0.1 KB) from 10.0.0.1 (db)", *(b + MESSAGES[0] + a for b, a in WRAPPED), *HEADERS]
    assert any(pattern.search(masks_of_re.applied(line, before)) for line in [*every, *EMPTY, "ERROR: no"])


def test_where_a_list_is_cut_off_makes_no_template() -> None:
    """A line of which 2,048 characters are read: what they end in is left out, from the first bracket on that is open there."""
    items = [f"Item(id={k * 7919}, name=anna, of=[b{{c}}])" for k in range(200)]
    cut = {template_of(f"found {k} all: Order(items=[{', '.join(items[k:])}]) end") for k in range(0, 100, 3)}
    assert cut == {"found <*> all: Order("}
    assert (
        template_of("found 7 all: Order(items=[Item(id=7, name=anna")
        == "found <*> all: Order(items=[Item(id=<*>, name=anna"
    )
    assert template_of("half [0, 9) of (it) " + "word " * 500).startswith("half of (it) word word")


@given(LINES, st.integers(0, 40))
@examples(100, derandomize=True, database=None)
def test_a_long_line_is_cut_off_where_its_brackets_say(message: str, first: int) -> None:
    long = (message[first:] + "a[b(c{d") * 300 + message
    assert template_of(long) == masks_of_re.template_of(long)


def test_a_line_ends_where_java_says_that_it_does() -> None:
    """Python's `$` and `.` know the line feed alone; the templates that are kept are those of the chain, which was Java's."""
    names = [
        "<*>" if end in (*OF_JAVA, "\n\r", "\n\n", "\r\r\n", "\x0b", "\x0c") else "ann" for end in ENDS
    ]  # white space
    wanted = [f"session of user {name}{end}".rstrip("\n\r\x0b\x0c") for name, end in zip(names, ENDS, strict=True)]
    assert [template_of(line) for line in AT_THE_END] == wanted
    message = [template_of(line).startswith("a ") for line in ESCAPED]
    assert message == [end[0] not in "\n\r\x85\u2028\u2029" for end in (*ENDS, '"', "\\")]


def test_simulated_lines_have_one_template_whatever_the_numbers_in_them() -> None:
    worded = {"word", "user", "method"}
    known = [t for t in TEMPLATES if not worded & set(t.parameters)]
    rng = np.random.default_rng(5)
    for template in known:
        columns = [iter(COLUMN[kind](rng.integers(0, 2**63, 50).tolist())) for kind in template.parameters]
        lines = []
        for _ in range(50):
            values = [next(column) for column in columns]
            values.reverse()
            lines.append(PARAMETER.sub(lambda _: values.pop(), template.text))  # noqa: B023
        assert len({template_of(line) for line in lines}) == 1, template.text


def test_simulated_templates_that_differ_in_words_stay_apart() -> None:
    texts = {template_of(PARAMETER.sub("7", t.text)): t for t in TEMPLATES}
    # two pairs differ in a status code alone
    assert len(texts) == len(TEMPLATES) - 2


def test_hostile_lines_take_time_in_proportion_to_their_length() -> None:
    for line in (*HOSTILE, "x" * 1_000_000):
        started = time.monotonic()
        assert len(template_of(line)) <= MAX_TEMPLATE
        assert time.monotonic() - started < 5, line[:20]  # backtracking would take hours


def test_an_id_is_sixteen_hexadecimal_digits() -> None:
    ids = {template_id(text) for text in ("a", "b", "", "é" * 40)}
    assert len(ids) == 4
    assert all(len(i) == 16 and set(i) <= set("0123456789abcdef") for i in ids)


def test_the_examples_of_the_docstring_hold() -> None:
    found = doctest.testmod(extraction)
    assert found.attempted > 0
    assert found.failed == 0
