"""What holds for all tests, and the one Spark session that they share."""

from __future__ import annotations

import app  # noqa: F401 - before anything that imports numpy, whose functions depend on the processor

# isort: split
import signal
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings
from pyspark.sql import SparkSession

from app.core import logs
from app.core.settings import PROJECT, Settings, load

# Plain modules beside the tests: their assertions explain themselves as those of tests do.
pytest.register_assert_rewrite("support", "golden")

# A shell ignores Ctrl-C for what it starts in the background, and all that this starts would ignore it too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Times belong in `make bench`: a busy machine must not fail a property. The same code is tried on the same examples, so that a change fails
# by what it changes; new examples are looked for by `make test-long`.
settings.register_profile("kappa", deadline=None, derandomize=True)
settings.register_profile("fast", deadline=None, derandomize=True, max_examples=10)  # `make test-fast`
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("kappa")

JARS = PROJECT / ".kappa" / "jars"


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that takes the Spark session is marked as such, so that no other part of `make test` starts one."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Streamlit's AppTest leaves its script as `__main__`, which processes that are spawned later would run."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(autouse=True)
def own_process_state() -> Iterator[None]:
    """A command that a test calls leaves the form of logs, on a stderr that is closed later, and the settings' file."""
    yield
    logs.configure()
    structlog.reset_defaults()
    load()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The product's own session, with the Kafka connector, in a folder of its own."""
    from app.runtime.spark import session

    started = session(Settings(home=tmp_path_factory.mktemp("home"), jar_folder=JARS))
    yield started
    started.stop()
