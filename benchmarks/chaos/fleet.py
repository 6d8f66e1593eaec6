"""A simulated fleet that writes at the pace of the clock: what cannot be delivered now is delivered later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Self

from kafka.errors import OutOfOrderSequenceNumberError

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.kafka.connection import client_options
from app.kafka.producer import DAY_MS, BoundedProducer
from app.simulator import SimulatorSettings, simulate
from app.simulator.publish import paced, partition_of
from app.simulator.simulation import Block
from pipelines.errors import ServiceUnavailable

MOST_UNDELIVERED = 1_000_000
INPUTS = ("telemetry", "logs")


class LiveFleet:
    """A thread that writes a fleet's records. The broker stamps them, so what waited for it too long is late: it is in the log so."""

    def __init__(self, settings: Settings, seed: int, hosts: int, interval_seconds: int, hours: float) -> None:
        """`hours` is how long there is something to write, at the most."""
        self._settings = settings
        # Aligned to a minute, in the past: what is overdue is written at once, and is late.
        start = wall_clock() // 60_000 * 60_000
        self._simulation = simulate(
            SimulatorSettings(
                hosts=hosts,
                hours=hours,
                seed=seed,
                start=start,
                interval_seconds=interval_seconds,
                late_share=0.01,
                clean_hours=min(0.02, hours / 4),
            ),
            processes=1,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self.events = 0
        self.problem: str = ""

    def _run(self) -> None:
        """Write; where the broker has lost what this producer wrote before, go on with a new one, as a restarted agent does."""
        blocks = paced(self._simulation.blocks(), self._simulation.settings.start, wall_clock, self._stop.wait)
        while not self.problem:
            try:
                self._write(blocks)
            except ServiceUnavailable as error:
                if not isinstance(error.__cause__, OutOfOrderSequenceNumberError):
                    self.problem = str(error)
            else:
                return

    def _write(self, blocks: Iterator[Block]) -> None:
        with BoundedProducer(
            client_options(self._settings), most=MOST_UNDELIVERED, delivery_timeout_ms=DAY_MS, linger_ms=20
        ) as outbox:
            topics = {kind: self._settings.topic(kind) for kind in INPUTS}
            counts = {kind: outbox.partitions(topic) for kind, topic in topics.items()}
            for block in blocks:
                for kind, batch in block.topics.items():
                    for key, value in zip(batch.keys, batch.values, strict=True):
                        outbox.send(topics[kind], value, key=key, partition=partition_of(key, counts[kind]))
                self.events += sum(map(len, block.topics.values()))
                outbox.settle()

    def stop(self) -> None:
        """Write no more, and wait until what was written is acknowledged. Raises ServiceUnavailable where it was not."""
        self._stop.set()
        self._thread.join()
        if self.problem:
            raise ServiceUnavailable(self.problem)

    def __enter__(self) -> Self:
        """Begin to write."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop; after an error without waiting for acknowledgements for long."""
        self._stop.set()
        self._thread.join(5.0 if kind else None)


def pause(seconds: float) -> None:
    """Wait."""
    threading.Event().wait(max(0.0, seconds))
