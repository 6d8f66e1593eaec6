"""Channels and routes that could not be used are refused where settings are read, or by `kappa config check`, before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import answer, kappa
from support.receiver import Receiver, receiving
from typer.testing import CliRunner

from app.cli.main import app
from app.core.errors import SettingsError
from app.core.notify_settings import ChannelSettings
from app.core.settings import load
from app.notify.channels.channel import ChannelRefused
from app.notify.channels.kinds import open_channel
from app.notify.channels.webhook import Webhook
from app.notify.notification import channel_test

HOOK = "http://127.0.0.1:9/hook"
CANARY = "c4nary"


def notify(**of_channel: Any) -> Any:
    own = {"kind": "webhook", "url": HOOK} | of_channel
    return load(notify={"channels": {"own": own}}).notify


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"url": f"http://127.0.0.1:99999/{CANARY}"}, "perhaps a port of 1 to 65535"),
        ({"url": f"http://127.0.0.1:port/{CANARY}"}, "perhaps a port of 1 to 65535"),
        ({"url": f"{HOOK}/{CANARY}\n"}, "no spaces and no line ends"),
        ({"url": f"http://ho st/{CANARY}"}, "no spaces and no line ends"),
        ({"kind": "alertmanager", "url": "http://127.0.0.1:9093/api/v2/alerts"}, "/api/v2/alerts is added"),
        ({"kind": "alertmanager", "url": "http://127.0.0.1:9093/?a=b"}, "/api/v2/alerts is added"),
        ({"headers": {"Authorization": f"Bearer {CANARY}\n"}}, "the text of Authorization cannot be sent"),
        ({"headers": {"Authorization": f"Bearer {CANARY}ü"}}, "the text of Authorization cannot be sent"),
        ({"headers": {"Author ization": CANARY}}, "'Author ization', which is no name of a header"),
        ({"content_type": "text/plain\n"}, "the text of content_type cannot be sent"),
        ({"secret": ""}, "secret is empty"),
        ({"ca_certs": ""}, "wanted a path, and this is empty"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_settings_and_shows_no_secret(given: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError, match=r"^settings: notify\.channels\.own") as found:
        notify(**given)
    assert what in str(found.value) and CANARY not in str(found.value)


def test_the_home_folder_in_a_path_of_authorities_is_that_of_the_user() -> None:
    assert notify(ca_certs="~/ca.pem").channels["own"].ca_certs == Path.home() / "ca.pem"


@pytest.mark.parametrize(
    "url", ["https://am.example.net/alertmanager", "http://127.0.0.1:9093/", "https://g.example.net/api/am/grafana"]
)
def test_an_alertmanager_may_be_below_a_path(url: str) -> None:
    assert notify(kind="alertmanager", url=url)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"template": '{"a":\n {{ title }'}, "template is no Jinja2 template: line 2: unexpected '}'"),
        ({"template": "{{ title|shout }}"}, "line 1: No filter named 'shout'"),
        ({"template": '{"a": 1,\n\n "b": {{ titel|tojson }}}'}, "template names titel in line 3, which a notification"),
        ({"template": "{{ 1 / 0 }}"}, "the template of the webhook fails: division by zero"),
        (
            {"template": "{{ 'x' if status == 'close' else title() }}"},
            "the template of the webhook fails: 'str' object",
        ),
        ({"template": '{% include "other" %}'}, "the template of the webhook fails: no loader"),
        ({"secret": "whsec_!"}, "is not Base64"),
        ({"secret": "whsec_"}, "whsec_ alone"),
        ({"ca_certs": "/nobody/here.pem"}, "No such file or directory"),
        ({"kind": "apprise", "url": f"nonsense://{CANARY}"}, "apprise knows no such address of nonsense://"),
    ],
)
def test_config_check_refuses_each_channel_that_cannot_be_used(
    tmp_path: Path, given: dict[str, Any], what: str
) -> None:
    file = tmp_path / "kappa.json"
    channels = {"good": {"kind": "webhook", "url": HOOK}, "own": {"kind": "webhook", "url": HOOK} | given}
    file.write_text("".join(table(f"notify.channels.{name}", one) for name, one in channels.items()))
    shown = CliRunner().invoke(app, ["config", "check", "--config", str(file)])
    (line,) = shown.stderr.splitlines()
    assert shown.exit_code == 1 and line.startswith("kappa: settings: notify.channels.own: ")
    assert what in line and CANARY not in line


def table(name: str, values: dict[str, Any]) -> str:
    """A table of TOML, whose strings are those of JSON."""
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def test_config_check_names_the_channels_and_warns_of_a_body_that_is_no_json_once_a_text_has_quotation_marks(
    tmp_path: Path,
) -> None:
    file = tmp_path / "kappa.toml"
    templates = {
        "plain": '{"text": "{{ title }}"}',
        "quoted": '{"text": {{ title|tojson }}, "at": {{ start }}, "hosts": {{ hosts|tojson }}}',
    }
    text = "".join(
        table(f"notify.channels.{name}", {"kind": "webhook", "url": HOOK, "template": one})
        for name, one in templates.items()
    )
    file.write_text(
        text
        + table(
            "notify.channels.words",
            {"kind": "webhook", "url": HOOK, "template": "{{ title }}", "content_type": "text/plain"},
        )
    )
    shown = CliRunner().invoke(app, ["config", "check", "--json", "--config", str(file)])
    found = json.loads(shown.stdout)
    assert found["channels"] == ["plain", "quoted", "words"]
    (warning,) = found["warnings"]
    assert warning.startswith("channel plain: its template makes no JSON of a text with quotation marks")
    assert "tojson" in CliRunner().invoke(app, ["config", "check", "--config", str(file)]).stderr


@pytest.fixture
def receiver() -> Any:
    with receiving() as made:
        yield made


def test_a_header_of_the_settings_takes_the_place_of_ours(receiver: Receiver) -> None:
    open_channel(notify(url=receiver.url, headers={"content-type": "application/cloudevents+json"}), "own").send(
        channel_test(0), 0
    )
    assert receiver.posts[0].headers["content-type"] == "application/cloudevents+json"


def test_what_a_header_holds_is_in_no_answer_even_where_it_was_not_checked(receiver: Receiver) -> None:
    """Answers go to `deliveries` and to pages."""
    unchecked = notify(url=receiver.url).channels["own"]
    odd = ChannelSettings.model_construct(**{**dict(unchecked), "content_type": f"{CANARY}\n"})
    with pytest.raises(ChannelRefused) as error:
        Webhook(odd).send(channel_test(0), 0)
    assert CANARY not in str(error.value) and not receiver.posts


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"link": "kappa.example.net"}, "notify.link: wanted an address that begins with http:// or https://"),
        ({"versions": ["Next One"]}, "notify.versions.0: wanted a name of a to z"),
        ({"routes": [{"name": "a"}, {"name": "a"}]}, "routes has 'a' twice"),
        ({"routes": [{"chanels": ["own"]}]}, "did you mean channels?"),
        ({"routes": [{"channels": "own"}]}, "wanted a list, in brackets"),
        ({"routes": [{"channels": ["x"]}]}, "names channel 'x'; there are own: add [notify.channels.x]"),
        (
            {"channels": {"own": {"kind": "webhook", "ur": HOOK}}},
            "notify.channels.own.ur: unknown setting, did you mean url?",
        ),
    ],
)
def test_what_routes_and_links_could_not_mean_is_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError) as found:
        load(notify={"channels": {"own": {"kind": "webhook", "url": HOOK}}} | given)
    assert what in str(found.value)


@pytest.mark.parametrize(
    "given",
    [
        {"runbook_url": "https://wiki.example.net/{servce}"},
        {"runbooks": [{"url": "https://wiki.example.net/{servce}"}]},
    ],
)
def test_a_runbook_names_what_an_incident_has(given: dict[str, Any]) -> None:
    with pytest.raises(
        SettingsError, match=r"has \{servce\}, which an incident does not have; there are kind, severity"
    ):
        load(dashboard=given)


def test_notifying_without_a_channel_asks_no_server(tmp_path: Path) -> None:
    where = {"KAPPA_HOME": str(tmp_path), "KAPPA_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9"}
    status, out, err = answer(kappa("run", "notify", **where))
    (line,) = err.splitlines()
    assert (status, out) == (1, "") and line.startswith("kappa: notify: there is no channel to tell anybody")
