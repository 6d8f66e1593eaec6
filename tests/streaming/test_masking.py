"""Spark says of a line what models/templates/extraction.py says, whose tests say what that is."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.line_ends import LINE_ENDS

from models.templates import extraction as plain
from models.templates.masks import MASKS
from pipelines.inputs.masking import MAX_TEMPLATE, template_id, template_of

pytestmark = pytest.mark.spark

LINES = [
    "2026-01-05 10:00:03,123 INFO [main] org.acme.Thing: took 1,234.5ms of 99 s",
    "<34>Jan  5 10:00:03 web-1 sshd[123]: session opened for user ann by (uid=0)",
    "I0105 10:00:03.123456    812 thing.cc:12] from fe80::1ff:fe23:4567:890a and ::1, 10.0.0.1 (db.example.com)",
    '[05/Jan/2026:10:00:03 +0000] "GET /a/b?c=1 HTTP/1.1" 200',
    '10.0.0.1 - ann [05/Jan/2026:10:00:03 +0000] "GET /?c=1 HTTP/2.0" 200 12 "-" "Mozilla/5.0 (X11; Linux)" path=/ took 12 B',
    '{"request": "GET / HTTP/1.1", "up": true, "a":null, "agent": "curl"}',
    r'I0105 10:00:03.123456 812 a.go:12] "Mount of volume \"data\" (id: \"ns/x\")" pod="a/b"',
    "id 54FADB41-2c4e-40cd-baed-9335e4c35a9e 0xDEADBEEF 9f4ef63 blk_-6952295868487656571",
    "link 0a:1b:2c:3d:4e:5f, mail Ann.B@example.com, see https://example.com/a?b=c#d.",
    "open C:\\Users\\x and ./x/y and a.log failed: java.lang.NullPointerException: null",
    "user 'ann' said \"hi there\", can't stop",
    "Zürich é1 1é é10.0.0.1é naïve.com \u0130 \u212a \u0661\u0662",  # what Unicode calls letters and digits
    "\U0001f600 12 \u00a0 12 \u2003 12",
    "no 1 2 3 4",
    "",
    *(f"{'x' * k} order=Order(items=[" + "Item(id=7, name=ann), " * 200 for k in (2, 9, 15)),  # cut off within brackets
    "é [" * 900 + "f(a) b{c" + "d]" * 900,
]
PIECES = st.sampled_from([*LINES, *"0123456789abcdef.:-/\\@'\"<>()[]{},=_| ", "<num>", "<ip>", "blk_", "0x", "user "])
MESSAGES = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)
RUNS = [
    "accepted worker 0x0000a1f3 from 10.0.123.145:10543 after 1000 ms, user=u1000 path=/srv/data/123/object status=200",
    "TraceID: 5bf1561907a2a13e896ea0265e2cb081 SpanID: 881f4bf5df16c42f [getRoute][Id: 1f3e0a7c-55d2-4b1a-9c0e-fe12ab34cd56]",
    "session dGhpcyBpcyBhIHRlc3Q0Nw== of a.b.C$D(x=1, y={'a': [1, 2]}) at 2026-01-05T10:00:03Z (12 of 99 KB)",
    "<34>Jan  5 10:00:03 web-1 sshd[123]: link 0a:1b:2c:3d:4e:5f sent orders.created to org.acme.Thing and a/b/c/d.log",
]
KINDS = [
    "0123456789",
    "abcdef",
    "ghijklmnopqrstuvwxyz",
    "ABCDEF",
    "GHIJKLMNOPQRSTUVWXYZ",
    ".:-/",
    "\"'<>()[]{}",
    ",;=_|@#+ ",
    "é\u2028\t",
]
HOSTILE = [
    *(
        unit * (8192 // len(unit))
        for unit in ("a", "a.", "1.", "1,", "a:", "/", "/a", '"', "'", "-", "a-", "@", "0f", "a1")
    ),
    *(
        unit * (8192 // len(unit))
        for unit in ("<ip>", "<ip> (", "<*>", "<*> (", " ", "a b", "a://", "(1 ", "Jan ", "[", "[a] ")
    ),
    *(
        unit * (8192 // len(unit))
        for unit in ("12:00:00 ", "2026-01-05 10:00:03 ", "INFO ", "- ", "a|", "A ", "a: ", "./a", "é")
    ),
    "x" * 1_000_000,
]


def templates(spark: SparkSession, messages: list[str]) -> list[str]:
    frame = spark.createDataFrame([(i, m) for i, m in enumerate(messages)], "i int, m string")
    return [row["t"] for row in frame.select("i", template_of(F.col("m")).alias("t")).orderBy("i").collect()]


@given(st.lists(MESSAGES, min_size=200, max_size=200))
@settings(max_examples=3, suppress_health_check=list(HealthCheck), derandomize=True, database=None, deadline=None)
def test_spark_and_python_say_the_same(spark: SparkSession, messages: list[str]) -> None:
    every = [*LINES, *messages, *((m * 300)[:3000] for m in messages)]
    assert templates(spark, every) == [plain.template_of(message) for message in every]


def alike(line: str, choose: random.Random) -> str:
    """A line of the same length: some characters become others, most of their kind; a line that is masked by the shape of another is one of these."""
    out = list(line)
    often = choose.choice((0.02, 0.2, 1.0))
    for i, character in enumerate(out):
        if choose.random() < often:
            kinds = [kind for kind in KINDS if character in kind] or KINDS
            out[i] = choose.choice(choose.choice(kinds if choose.random() < 0.97 else KINDS))
    return "".join(out)


def with_lines_alike(lines: list[str], choose: random.Random) -> list[str]:
    """Each line some times, so that its shape is known, and then lines like it."""
    return [one for line in lines for one in (line, line, line, *(alike(line, choose) for _ in range(12)))]


def test_lines_of_one_shape_have_the_templates_that_masks_give_each_of_them(spark: SparkSession) -> None:
    choose = random.Random(7)
    pieces = [
        *LINES[:14],
        *RUNS,
        *"0123456789abcdef.:-/\\@'\"<>()[]{},=_| ",
        "blk_",
        "0x",
        "user ",
        "Exception",
        " jan 5",
    ]
    made = ["".join(choose.choice(pieces) for _ in range(choose.randint(1, 12))) for _ in range(500)]
    every = with_lines_alike([*LINES[:14], *RUNS, *made], choose)
    assert templates(spark, every) == [plain.template_of(message) for message in every]


def test_line_of_which_one_letter_is_another_has_the_template_that_masks_give_it(spark: SparkSession) -> None:
    """Of one key all of them: a lookup that is not recorded gives the second the template of the first."""
    lines = [
        *(line[:120] for line in LINES[:14]),
        *RUNS,
        *(
            "a b " * 20,
            "ab cd ef 12 ",
            "is 1 x1 a-1 a.b.c 1.2",
            "user ann of x=1,a:b and y.log",
            "sum xa+5 at oan 5 10:00:03",
            "key abcdefghijklmnopqrstuvwx= ok",
        ),
    ]
    word = "abcdefghijklmnopqrstuvwxyzADEFINSTZ_0179"
    every = [
        one
        for line in lines
        for i, character in enumerate(line)
        if character.isalnum() or character == "_"
        # so often that a shape is made of it, whatever came before
        for one in (*[line] * 70, *(line[:i] + other + line[i + 1 :] for other in word))
    ]
    assert templates(spark, every) == [plain.template_of(message) for message in every]


def test_characters_that_may_end_a_line_are_the_same_to_spark_to_python_and_to_javas_expressions(
    spark: SparkSession,
) -> None:
    lines = [line[:500] for line in LINE_ENDS]
    by_expressions = F.col("m")
    for pattern, token in MASKS:
        by_expressions = F.regexp_replace(by_expressions, F.lit(pattern), F.lit(token))
    frame = spark.createDataFrame([(i, line) for i, line in enumerate(lines)], "i int, m string")
    found = frame.select("i", F.trim(by_expressions).alias("t")).orderBy("i").collect()
    assert [row["t"] for row in found] == templates(spark, lines) == [plain.template_of(line) for line in lines]


def test_hostile_lines_take_time_in_proportion_to_their_length(spark: SparkSession) -> None:
    templates(spark, ["warm up"])
    started = time.monotonic()
    found = templates(spark, HOSTILE * 3)
    assert all(len(template) <= MAX_TEMPLATE for template in found)
    assert time.monotonic() - started < 60  # backtracking would take hours
    assert found[: len(HOSTILE)] == [plain.template_of(message) for message in HOSTILE]


def test_a_template_has_one_id_in_spark_and_in_python(spark: SparkSession) -> None:
    texts = ["a", "b", "", "é" * 40, *(line * n for line in LINES for n in (1, 2, 5))]
    frame = spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i int, t string")
    ids = [row["id"] for row in frame.select("i", template_id(F.col("t")).alias("id")).orderBy("i").collect()]
    assert ids == [plain.template_id(text) for text in texts]


def test_no_message_has_no_template(spark: SparkSession) -> None:
    assert spark.range(1).select(template_of(F.lit(None).cast("string")).alias("t")).collect()[0]["t"] is None
