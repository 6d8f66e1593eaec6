"""A Kafka producer with bounded memory, which reports records that were not delivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import structlog
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from app.kafka.connection import connection_error, translate_errors
from pipelines.errors import KappaError, ServiceUnavailable

log = structlog.get_logger()

MOST_PENDING = 50_000
DAY_MS = 24 * 3600 * 1000


def close_producer(producer: KafkaProducer, timeout: float) -> bool:
    """Wait up to `timeout` seconds for acknowledgements, then close a producer, whatever waits. Returns whether all was acknowledged."""
    try:
        producer.close(timeout=timeout)
    except KafkaTimeoutError:
        # kafka-python has closed nothing then, and its thread would send the rest when the broker is back
        producer._sender.force_close()
        return False
    return True


class BoundedProducer:
    """A producer with a bounded number of unacknowledged records: `send` blocks while there are as many.

    kafka-python has no bound of its own since version 3. Records of a partition are appended in the order of `send`.
    """

    def __init__(self, options: Mapping[str, Any], most: int = MOST_PENDING, **tuning: Any) -> None:
        """Connect to the broker.

        Parameters
        ----------
        options
            Arguments of kafka-python's clients, as `client_options` gives them.
        most
            The greatest number of unacknowledged records.
        **tuning
            Further arguments of the producer, such as `linger_ms`.

        Raises
        ------
        ServiceUnavailable
            No broker answers.
        """
        self._most = most
        self._pending: deque[Any] = deque()
        self._where = options.get("bootstrap_servers")
        self.sent = 0
        self._options = options
        with translate_errors(options):
            self._producer = KafkaProducer(
                allow_auto_create_topics=False, **{"acks": "all", "metrics_enabled": False, **tuning, **options}
            )

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic. Raises ServiceUnavailable when the topic is not there."""
        try:
            found = self._producer.partitions_for(topic)
        except (KafkaError, OSError) as error:
            raise self._unavailable(error) from error
        if not found:
            msg = f"Kafka at {self._where} has no topic {topic}; run `kappa topics create`"
            raise ServiceUnavailable(msg)
        return len(found)

    def send(
        self, topic: str, value: bytes, *, key: bytes, partition: int | None = None, timestamp_ms: int | None = None
    ) -> Any:
        """Queue one record; returns kafka-python's future of it. Raises ServiceUnavailable when it, or an earlier one, could not be delivered."""
        if len(self._pending) >= self._most:
            self.settle()
            if len(self._pending) >= self._most:
                self.flush()
        try:
            future = self._producer.send(topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms)
        except (KafkaError, OSError) as error:
            raise self._unavailable(error) from error
        self._pending.append(future)
        self.sent += 1
        return future

    def settle(self) -> int:
        """Forget acknowledged records; returns how many are not acknowledged yet."""
        waiting = self._pending
        while waiting and waiting[0].is_done:
            future = waiting.popleft()
            if future.failed():
                raise self._unavailable(future.exception) from future.exception
        return len(waiting)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all is acknowledged."""
        try:
            self._producer.flush(timeout)
        except (KafkaError, OSError) as error:
            raise self._unavailable(error) from error
        self.settle()

    def close(self, timeout: float = 10.0) -> None:
        """Wait up to `timeout` seconds for acknowledgements, then close. Records that were waited for in vain are counted in the log."""
        if not close_producer(self._producer, timeout) and timeout > 0:
            # those that closing has failed by now are done as well
            waiting = sum(not future.succeeded() for future in self._pending)
            log.warning("records were given up", kafka=self._where, records=waiting)

    def __enter__(self) -> Self:
        """The producer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all acknowledgements, unless there was an error."""
        try:
            if error is None:
                self.flush()
        finally:
            self.close(0.0 if error else 10.0)

    def _unavailable(self, error: Exception) -> KappaError:
        return connection_error(self._options, error, "did not take records")
