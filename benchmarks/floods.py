"""Floods that one sender can make: of what, to which topic, and records in which <N> is a word of the record's number modulo N."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

from app.core.settings import Settings
from app.kafka.connection import kafka_connection
from app.kafka.score_log import shard_of
from app.runtime.spark import own_session
from pipelines.overflow import BUCKETS
from pipelines.runner import PRODUCER
from pipelines.spark_internals import java_array, jvm_of

SENDER = Path(__file__).with_name("Flood.java")
ALL = 10**12  # a word that no two records share
HOST, HOSTS = "<host>", 200
OWN = '"@timestamp":"%s","host.name":"greedy"'
LINE = f'{{{OWN},"service.name":"s","log.level":"info","message":"the word is <{ALL}>"}}'
# labels that make a name of nearly 2,048 bytes, of letters of three bytes
WIDE = ",".join(f'"{chr(97 + i)}":"{chr(0x5B57) * 42}"' for i in range(15))
# Telegraf's form, with 2,000 series of one of `HOSTS` hosts that are all summed in one block
FIELDS = ",".join(f'"f{i}":1.5' for i in range(2_000))
BATCH = f'{{"timestamp":%d,"tags":{{"host":"{HOST}"}},"fields":{{{FIELDS}}},"name":"x<{ALL}>"}}'
# the same of a host of its own each, whose names have nearly as many bytes as one that counts once
MANY = f'{{"timestamp":%d,"tags":{{"host":"greedy<{ALL}>","a":"{"a" * 100}","b":"{"b" * 100}"}},"fields":{{{FIELDS}}},"name":"x"}}'
# name -> topic, record; %s is the time of the record, %d the same as epoch seconds, <host> one of `hosts_of_one_block` in turn
FLOODS = {
    "series": ("telemetry", f'{{{OWN},"service.name":"s<200000>","metric.name":"x<{ALL}>","metric.value":1.5}}'),
    "hosts": ("telemetry", f'{{"@timestamp":"%s","host.name":"greedy<{ALL}>","metric.name":"x","metric.value":1.5}}'),
    "label-values": ("telemetry", f'{{{OWN},"metric.name":"x","metric.value":1.5,"labels":{{"id":"<{ALL}>"}}}}'),
    "one-block": ("telemetry", BATCH),
    "all-blocks": ("telemetry", MANY),
    "wide-names": ("telemetry", f'{{{OWN},"metric.name":"x<{ALL}>","metric.value":1.5,"labels":{{{WIDE}}}}}'),
    "refused": ("telemetry", f'{{{OWN},"metric.name":"x<{ALL}>","metric.value":"%s"}}'),
    "templates": ("logs", LINE),
    "levels": ("logs", LINE.replace('"info"', f'"l<{ALL}>"')),
    "changes": ("changes", f'{{"change":"other","service":"greedy<{ALL}>"}}'),
    "calls": ("changes", f'{{"client":"greedy<{ALL}>","server":"s"}}'),
    "rules": ("rules", f'{{"record":"rule","name":"greedy <{ALL}>","host":"nobody","mute":true}}'),
    "labels": ("labels", f'{{"label":"true","series":["host/greedy<{ALL}>"]}}'),
}


@dataclass(frozen=True)
class FloodSender:
    """Appends records of floods by Kafka's own producers, in a JVM of this process: 200,000 a second."""

    spark: Any
    senders: dict[str, Any]  # by a name of `FLOODS`

    def send(self, numbers: range, moment: int, text: str) -> None:
        """Append the records of each flood with these numbers, at an append time in epoch ms, which is `text` as ISO 8601."""
        for flood, sender in self.senders.items():
            record = FLOODS[flood][1].replace("%s", text).replace("%d", str(moment // 1000))
            if HOST in record:
                for number in numbers:
                    host = hosts_of_one_block()[number % HOSTS]
                    self._send(sender, record.replace(HOST, host), range(number, number + 1), moment)
            else:
                self._send(sender, record, numbers, moment)

    def _send(self, sender: Any, record: str, numbers: range, moment: int) -> None:
        parts = re.split(r"<(\d+)>", record)
        texts = java_array(self.spark, "java.lang.String", parts[::2])
        counts = java_array(self.spark, "long", [int(count) for count in parts[1::2]])
        sender.send(texts, counts, numbers.start, numbers.stop, moment)


@cache
def hosts_of_one_block() -> list[str]:
    """Names of hosts whose points are summed in one block, with those of an honest one."""
    honest = shard_of("host-00000", BUCKETS)  # buckets are chosen as shards are
    names = (f"greedy{number}" for number in count())
    return list(islice((name for name in names if shard_of(name, BUCKETS) == honest), HOSTS))


@cache  # py4j knows a class by its name: a second one of the same name would not be called
def _compiled(jvm: Any) -> Any:
    """The class of senders, in a JVM."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SENDER.read_text())
    return compiler.getClassLoader().loadClass("kappa.bench.Flood")


@contextmanager
def flood_sender(settings: Settings, floods: list[str]) -> Iterator[FloodSender]:
    """What sends some of `FLOODS` at once while the block runs."""
    own = settings.model_copy(update={"home": settings.home.parent / "sender", "jar_folder": settings.jars})
    with own_session(own, "flood") as spark:
        options = jvm_of(spark).java.util.HashMap()
        for name, value in (kafka_connection(settings).prefixed() | PRODUCER | {"kafka.linger.ms": "20"}).items():
            options.put(name.removeprefix("kafka."), value)
        made = _compiled(jvm_of(spark)).getConstructors()[0]
        senders = {}
        for flood in floods:
            kind = FLOODS[flood][0]
            arguments = (options, settings.topic(kind), settings.input_partitions[kind])
            senders[flood] = made.newInstance(java_array(spark, "java.lang.Object", arguments))
        try:
            yield FloodSender(spark, senders)
        finally:
            for sender in senders.values():
                sender.close()
