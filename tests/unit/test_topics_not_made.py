"""No client makes a topic by asking for it, as a broker with `auto.create.topics.enable`, Kafka's default, lets it.

It would have the broker's partitions and the senders' times, which `kappa run` refuses from then on.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.settings import PROJECT

CLIENTS = {"KafkaConsumer", "KafkaProducer"}
FOLDERS = ("app", "dashboards", "models", "pipelines", "replay")


def clients() -> Iterator[tuple[Path, ast.Call]]:
    """Where a client is made."""
    for file in sorted(file for folder in FOLDERS for file in (PROJECT / folder).rglob("*.py")):
        text = file.read_text()
        if not any(name in text for name in CLIENTS):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLIENTS:
                yield file.relative_to(PROJECT), node


@pytest.mark.parametrize(
    ("file", "call"), [pytest.param(*found, id=f"{found[0]}:{found[1].lineno}") for found in clients()]
)
def test_a_client_makes_no_topics(file: Path, call: ast.Call) -> None:
    given = {word.arg: word.value for word in call.keywords}
    makes = given.get("allow_auto_create_topics")
    assert isinstance(makes, ast.Constant), file
    assert makes.value is False, file


def test_clients_are_found() -> None:
    assert len(list(clients())) > 5
