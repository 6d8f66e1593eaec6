"""`kappa simulate` refuses what cannot be done before it simulates anything, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.cli.simulation import to_log
from app.core.settings import Settings
from app.simulator import SimulatorSettings
from pipelines.errors import InputError

SMALL = SimulatorSettings(hosts=2, hours=0.01)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["simulate", "--hosts", "2", "--hours", "0.01", "--out", str(tmp_path / "file/x")])
    assert isinstance(result.exception, InputError)
    assert "cannot make" in str(result.exception)


def test_a_truth_that_would_not_be_written_is_wrong_usage(tmp_path: Path) -> None:
    out, truth = tmp_path / "out", tmp_path / "truth.json"
    result = CliRunner().invoke(app, ["simulate", "--out", str(out), "--truth", str(truth)])
    assert result.exit_code == 2
    assert not out.exists()


def test_a_truth_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """No broker listens there: an error about Kafka would show that sending was tried first."""
    settings = Settings(home=tmp_path)
    own = settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"}),
            "topics": settings.topics.model_copy(update={"timestamps": "create"}),
        }
    )
    with pytest.raises(InputError, match=r"cannot write .*truth\.json"):
        to_log(SMALL, own, tmp_path / "missing" / "truth.json")
