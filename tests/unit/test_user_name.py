"""Who runs a command: also a user without a name, as containers may have."""

from __future__ import annotations

import os

import pytest

from app.core.user_name import user_name

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
NOBODY = 987_654_321


def test_the_environment_says_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert user_name() == "ada"


def test_a_user_without_a_name_is_known_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    assert user_name() == f"uid-{NOBODY}"
