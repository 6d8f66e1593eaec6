"""`python -m benchmarks.programs`: templates of what Kafka and Elasticsearch log, judged by where in the source they log it.

Lines are of one template if one place in the source wrote them: a truth that nobody labels. The embedded servers get
work, errors included, and log at DEBUG; the place stands behind each line and is cut off before the line is masked. Left out are lines
that a place only passes through (no word is in all of them), and more than MOST of one place. Places that wrote the same text, numbers
apart, are one. States of one thing, which kappa keeps apart, are one here: it is stricter than detection needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.client
import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import KafkaError

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT
from app.embedded.elasticsearch import elasticsearch_command, start_elasticsearch, stop_elasticsearch
from app.embedded.jars import Jars, ensure_jars
from app.embedded.jvm import Jvm, JvmCommand
from app.embedded.kafka import kafka_command, start_kafka, stop_kafka
from benchmarks.deployment import say
from benchmarks.templates import accuracy
from models.templates.extraction import template_of
from models.templates.merging import merge_templates

MOST = 500  # lines of one place that count
HEAP_MIB = 512
BEFORE_PLACE, END = "\u241e", "\u241f"  # around the place: no server writes these
LAYOUT = f"""<Configuration status="ERROR" shutdownHook="disable"><Appenders><File name="file" fileName="${{sys:kappa.log}}">
<PatternLayout alwaysWriteExceptions="false" pattern="%d %p [%t] %c{{1}}: %m{BEFORE_PLACE}%C:%L{END}%n" charset="UTF-8"/></File></Appenders>
<Loggers><Root level="debug"><AppenderRef ref="file"/></Root></Loggers></Configuration>"""
_WRAPPER = re.compile(r"[\w.$]*Logg(?:er|ing)\w*:")  # of Scala's loggers: the place behind it is unknown
_WORD = re.compile("[A-Za-z]{2,}")


@dataclass(frozen=True)
class Located:
    """A line as it is logged, without its place; its message; the place in the source that logged it."""

    line: str
    message: str
    place: str


def located(text: str) -> Iterator[Located]:
    """The lines of a server's log; of a message of several lines the first. A wrapper's are left out."""
    for record in text.split(f"{END}\n"):
        line, _, place = record.rpartition(BEFORE_PLACE)
        line = line.split("\n", 1)[0]
        if line and not _WRAPPER.match(place):
            yield Located(line, line.partition(": ")[2], place)


def judged(lines: list[Located]) -> tuple[list[Located], list[str]]:
    """The lines that count, and the label of each: its place, or the first of those that wrote the same text."""
    texts = defaultdict[str, set[str]](set)
    for one in lines:
        texts[one.place].add(_numberless(one.message))
    passing = {
        place
        for place, own in texts.items()
        if len(own) > 1 and not set.intersection(*({*_WORD.findall(t)} for t in own))
    }
    above: dict[str, str] = {}  # of a place or text: another one of the same template

    def root(one: str) -> str:
        while one in above:
            one = above[one]
        return one

    for place in sorted(texts.keys() - passing):
        for text in {root(f"{BEFORE_PLACE}{text}") for text in texts[place]} - {root(place)}:
            above[text] = root(place)
    many: Counter[str] = Counter()
    kept = []
    for one in lines:
        many[one.place] += 1
        if one.place not in passing and many[one.place] <= MOST:
            kept.append(one)
    return kept, [root(one.place) for one in kept]


def _numberless(message: str) -> str:
    return re.sub("[0-9]+", "0", message)


def figures(lines: list[Located]) -> dict[str, object]:
    """Lines and places that count, lines left out, and grouping accuracy and F1 of groups, by masks alone and merged."""
    kept, labels = judged(lines)
    found = [template_of(one.line) for one in kept]
    count = {"lines": len(kept), "places": len(set(labels)), "left_out": len(lines) - len(kept)}
    return count | {"masks": accuracy(found, labels), "merged": accuracy(merge_templates(found), labels)}


@contextmanager
def logging_server(command: JvmCommand, log: Path) -> Iterator[Jvm]:
    """A JVM for a server whose log has the place behind each line."""
    layout = log.with_suffix(".xml")
    layout.write_text(LAYOUT, encoding="utf-8")
    own = [one for one in command.options if not one.startswith(("-Dlog4j2.configurationFile", "-Dkappa.log"))]
    options = [*own, f"-Dlog4j2.configurationFile={layout.as_uri()}", f"-Dkappa.log={log}"]
    jvm = Jvm(dataclasses.replace(command, options=options))
    try:
        yield jvm
    finally:
        jvm.end()


def of_kafka(home: Path, jars: Jars) -> list[Located]:
    """What the broker logs at work."""
    log = home / "kafka.log"
    with logging_server(kafka_command(home, jars, HEAP_MIB), log) as jvm:
        port = free_port(None, set())
        server = start_kafka(jvm, home, port, free_port(None, {port}))
        for number in range(4):
            kafka_work(f"{LOOPBACK}:{port}", number)
        stop_kafka(server)
    return [*located(log.read_text("utf-8", "replace"))]


def kafka_work(servers: str, number: int) -> None:
    """Topics, records, groups, and what goes wrong with each."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    producer = KafkaProducer(bootstrap_servers=servers, max_block_ms=1_000)
    names = [f"orders-{number}-{i}" for i in range(3)]
    for topic, copies in (*((name, 1) for name in names), (names[0], 1), ("not a name", 1), (f"copies-{number}", 5)):
        tried(partial(admin.create_topics, [NewTopic(topic, 2, copies)]))
    for topic in (names[0], f"missing-{number}"):
        tried(partial(admin.create_partitions, {topic: NewPartitions(4)}))
        tried(partial(producer.send, topic, b"x" * 3_000_000))
        for i in range(200):
            tried(partial(producer.send, names[i % 3], b"x" * 500, key=b"%d" % (i % 7)))
    producer.close(10)
    for name in names:
        consumer = KafkaConsumer(name, bootstrap_servers=servers, group_id=f"of-{name}", consumer_timeout_ms=1_000)
        tried(partial(list, consumer))
        tried(consumer.commit)
        consumer.close()
        tried(partial(admin.delete_topics, [name, f"missing-{number}"]))
    admin.close()


def tried(call: Callable[[], object]) -> None:
    """Do what may fail: that is logged as well."""
    with suppress(KafkaError, OSError):
        call()


def of_elasticsearch(home: Path, jars: Jars) -> list[Located]:
    """What the node logs at work."""
    log = home / "elasticsearch.log"
    with logging_server(elasticsearch_command(home, jars, HEAP_MIB), log) as jvm:
        port = free_port(None, set())
        node = start_elasticsearch(jvm, home, port, free_port(None, {port}))
        for number in range(6):
            for method, path, body in elasticsearch_work(f"orders-{number}", number):
                tried(partial(asked, port, method, path, body))
        stop_elasticsearch(node)
    return [*located(log.read_text("utf-8", "replace"))]


def elasticsearch_work(index: str, number: int) -> Iterator[tuple[str, str, object]]:
    """Requests about an index, and some that fail: method, path, body."""
    yield "PUT", f"/{index}", {"mappings": {"properties": {"a": {"type": "long"}}}}
    yield "PUT", f"/{index}", {}
    yield "PUT", f"/Not-{index}", {}
    for document in ({"a": number}, {"a": "no number"}, {f"b{number}": "text"}):
        yield "POST", f"/{index}/_doc", document
    for query in ("match_all", f"no-query-{number}", "query_string"):
        yield "POST", f"/{index}/_search", {"query": {query: {}}}
    for path in ("_refresh", "_flush", "_forcemerge", "_close", "_open", f"_nothing-{number}"):
        yield "POST", f"/{index}/{path}", {}
    yield "POST", "/_reindex", {"source": {"index": index}, "dest": {"index": f"again-{index}"}}
    yield "PUT", f"/{index}/_settings", {"index": {"number_of_replicas": number % 3}}
    yield "DELETE", f"/{index}", {}
    yield "DELETE", f"/missing-{index}", {}


def asked(port: int, method: str, path: str, body: object) -> None:
    """Send a request and read the answer, whatever it is."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()


def main() -> None:
    """Measure, print a line for each program."""
    argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__).parse_args()
    jars = ensure_jars(PROJECT / ".kappa" / "jars", say)
    for program, of in (("Kafka", of_kafka), ("Elasticsearch", of_elasticsearch)):
        with tempfile.TemporaryDirectory() as home:
            (Path(home) / "logs").mkdir()
            print(json.dumps({"program": program} | figures(of(Path(home), jars))), flush=True)


if __name__ == "__main__":
    main()
