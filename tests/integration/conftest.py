"""A real Kafka and a real Elasticsearch for the whole test run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.core.settings import PROJECT
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses

JARS = PROJECT / ".kappa" / "jars"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """One embedded stack in a home of its own."""
    with running_stack(Stack(tmp_path_factory.mktemp("stack"), jars=JARS)) as addresses:
        yield addresses


@pytest.fixture
def unique() -> str:
    """A name that no other test has: for topics, versions and indices of the shared stack."""
    return uuid.uuid4().hex[:12]


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The shared session: it has the Kafka connector."""
    return spark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test keeps its files."""
    return tmp_path
