"""Promoting and rolling back from the pages: what was shown is what is run."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from support.markdown import as_read

from app.core.settings import PROJECT, Settings
from app.runtime.score_server import serving_scores
from app.versions import serving
from dashboards import chrome, commands

# Stands for `kappa replay rollback` and `promote`: the versions that served, the oldest first, are in a file, and every call in another one.
STAND_IN = """
import json, sys
from pathlib import Path
file, calls, asked = Path({served!r}), Path({calls!r}), sys.argv[1:]
calls.write_text(calls.read_text() + json.dumps(asked) + chr(10))
served = json.loads(file.read_text())
named = next((one.removeprefix("--to=") for one in asked if one.startswith("--to=")), None)
new = asked[2] if asked[1] == "promote" else named or [one for one in served if one != served[-1]][-1]
if new == served[-1] and named:
    sys.exit(f"kappa: version {{new}} serves now; wanted one that served before")
times = dict.fromkeys(("covers_from_time", "reached_time", "previous_reached_time"), "2026-11-21T12:00:00Z")
if "--dry-run" in asked:
    plan = {{"version": new, "previous": served[-1], "already": new == served[-1], "previous_running": True}}
    print(json.dumps(plan | times | {{"reached": 1, "previous_reached": None}}))
else:
    file.write_text(json.dumps([*served, new]))
    print("done")
"""


class Deployment:
    """Versions that served, and what the pages called `kappa` with."""

    def __init__(self, folder: Path) -> None:
        self.file, self.calls = folder / "served.json", folder / "calls.jsonl"
        self.file.write_text(json.dumps(["live", "v2"]))
        self.calls.write_text("")

    @property
    def served(self) -> list[str]:
        found: list[str] = json.loads(self.file.read_text())
        return found

    @property
    def called(self) -> list[list[str]]:
        return [json.loads(line) for line in self.calls.read_text().splitlines()]


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """Version v2 serves, and live did before."""
    made = Deployment(tmp_path)
    program = STAND_IN.format(served=str(made.file), calls=str(made.calls))
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-c", program]))
    commands.command_runner.clear()
    yield made
    commands.command_runner.clear()


def dialog(*arguments: str) -> AppTest:
    """The dialog for a command as one session sees it, opened."""

    def script(arguments: list[str]) -> None:
        from dashboards import versions
        from dashboards.identity import Identity

        versions.show_dialog("Change over", arguments, Identity("Ada", "operator"))
        versions.show_work()

    test = AppTest.from_function(script, default_timeout=60, args=(list(arguments),)).run()
    assert not test.exception
    return test


def confirmed(test: AppTest) -> AppTest:
    """The dialog after its button was clicked and the command has ended."""
    test.button[0].click().run()
    assert not test.exception
    command = commands.command_runner().command
    assert command is not None
    command.process.wait(60)
    return test.run()


def test_operators_who_roll_back_one_after_the_other_do_not_undo_each_other(deployment: Deployment) -> None:
    one, other = dialog("replay", "rollback"), dialog("replay", "rollback")
    for test in (one, other):
        shown = as_read("".join(each.value for each in test.markdown))
        assert "kappa replay rollback --to=live" in shown
        assert "Version `live` would take over from `v2`" in shown
        assert "is indexed up to 2026-11-21T12:00:00Z; `v2` is not indexed yet." in shown
    assert "is done" in confirmed(one).success[0].value
    assert "version live serves now" in as_read(confirmed(other).error[0].value)
    assert deployment.served == ["live", "v2", "live"]
    assert [call for call in deployment.called if "--dry-run" not in call] == [
        ["replay", "rollback", "--to=live", "--by=Ada"]
    ] * 2


def test_the_click_runs_what_was_shown_though_another_version_serves_by_then(deployment: Deployment) -> None:
    deployment.file.write_text(json.dumps(["live", "v2", "v3"]))
    test = dialog("replay", "rollback")
    deployment.file.write_text(json.dumps(["live", "v2", "v3", "v4"]))
    confirmed(test)
    assert deployment.served[-1] == "v2"
    assert [call[:3] for call in deployment.called] == [
        ["replay", "rollback", "--dry-run"],
        ["replay", "rollback", "--to=v2"],
    ], "the plan is made once"


def test_a_plan_is_made_anew_whenever_the_dialog_is_opened(deployment: Deployment) -> None:
    def script() -> None:
        from dashboards import versions
        from dashboards.identity import Identity

        versions.open_dialog("Change over", ["replay", "rollback"], Identity("Ada", "operator"))

    test = AppTest.from_function(script, default_timeout=60).run()
    assert "`live` would take over from `v2`" in as_read(test.markdown[1].value)
    deployment.file.write_text(json.dumps(["live", "v2", "v3"]))
    assert "`v2` would take over from `v3`" in as_read(test.run().markdown[1].value)


def test_a_version_is_promoted_by_the_command_that_was_shown_whatever_its_name(deployment: Deployment) -> None:
    test = dialog("replay", "promote", "rollback")
    assert "`kappa replay promote rollback`" in as_read(test.markdown[0].value)
    confirmed(test)
    assert deployment.served[-1] == "rollback"
    assert deployment.called[-1] == ["replay", "promote", "rollback", "--by=Ada"]


def test_a_version_that_serves_already_is_said_and_not_promoted_again(deployment: Deployment) -> None:
    test = dialog("replay", "promote", "v2")
    assert "Version `v2` serves already." in as_read(test.markdown[1].value)
    assert not test.button
    assert deployment.served == ["live", "v2"]


def promote(settings: Settings, version: str, after: int) -> None:
    with serving.locked(settings.home):
        serving.write(settings.home, serving.read(settings.home).then(version, after))


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A deployment whose settings name no version, and pages that were started by its `kappa dashboard`."""
    own = Settings(home=tmp_path)
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("KAPPA_DASHBOARD_VERSION", "live")
    chrome.listed_versions.clear()
    with serving_scores(own) as served:
        for name, text in served.items():
            monkeypatch.setenv(f"KAPPA_DASHBOARD_{name}", text)
        yield own


def page(**query: str) -> AppTest:
    """The pages at an address."""
    test = AppTest.from_file(str(PROJECT / "dashboards" / "navigation.py"), default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def version_of(test: AppTest) -> str:
    assert not test.exception
    return str(next(box.value for box in test.selectbox if box.label == "Version"))


def test_pages_go_over_to_the_version_that_serves_now(followed: Settings) -> None:
    open_before, other = page(), page(version="trial")
    assert (version_of(open_before), version_of(other)) == ("live", "trial")
    promote(followed, "v2", 1_000)
    assert version_of(open_before.run()) == "v2"
    assert version_of(page()) == "v2"
    assert version_of(other.run()) == "trial", "which the address names"
    promote(followed, "v3", 2_000)
    assert version_of(open_before.run()) == "v3"


def test_pages_stay_with_a_version_that_the_settings_name_and_with_the_last_one_while_nobody_answers(
    followed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    promote(followed, "v2", 1_000)
    test = page()
    monkeypatch.setenv("KAPPA_DASHBOARD_SERVING_URL", "http://127.0.0.1:9/serving")
    assert version_of(test.run()) == "v2"
    with serving_scores(followed.model_copy(update={"version": "trial"})) as served:
        for name, text in served.items():
            monkeypatch.setenv(f"KAPPA_DASHBOARD_{name}", text)
        assert version_of(page()) == "trial"


def test_a_part_that_is_read_again_has_all_of_the_page_go_over(followed: Settings) -> None:
    def script(home: str) -> None:
        from pathlib import Path
        from zoneinfo import ZoneInfo

        import streamlit as st

        from app.versions import serving
        from dashboards import chrome

        named = chrome.requested_version()
        if named == "live":  # promoted between the page and its part
            serving.write(Path(home), serving.read(Path(home)).then("v2", 1_000))
        view = chrome.View(named, [named], "1h", ZoneInfo("UTC"), 5)

        def part() -> None:
            st.text(f"a part of {named}")

        chrome.show_refreshed(view, part)

    test = AppTest.from_function(script, default_timeout=60, args=(str(followed.home),)).run()
    assert not test.exception
    assert [one.value for one in test.text] == ["a part of v2"]
