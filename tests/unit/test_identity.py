"""Who may do what on the pages, for each way to sign in; and that text from outside stays text."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import SecretStr
from streamlit.runtime.context import StreamlitHeaders
from streamlit.testing.v1 import AppTest
from support.markdown import HOSTILE, MARKUP, as_read

from app.core.errors import SettingsError
from app.core.settings import DashboardSettings, Settings
from app.runtime import dashboard
from dashboards import commands, identity
from dashboards.commands import CommandError
from dashboards.identity import NOBODY_ROLE, OPERATOR, RESPONDER, ROLES, VIEWER, Access, Identity
from dashboards.words import MOST_TEXT, code, one_line, plain

LISTS: dict[str, Any] = {
    "viewers": ("*",),
    "responders": ("ada@example.net", "group:on-call"),
    "operators": ("group:platform",),
}


def settings(home: Path, **own: Any) -> Settings:
    """Settings of pages with these ways to sign in."""
    return Settings(home=home, dashboard=DashboardSettings(**own))


@pytest.mark.parametrize(
    ("name", "groups", "role"),
    [
        (None, (), NOBODY_ROLE),
        ("bob@example.net", (), VIEWER),
        ("ada@example.net", (), RESPONDER),
        ("bob@example.net", ("on-call",), RESPONDER),
        ("ada@example.net", ("platform", "on-call"), OPERATOR),
        ("group:platform", (), VIEWER),  # a name that looks like a group is no group
        ("*", (), VIEWER),
    ],
)
def test_role_is_the_highest_that_a_name_or_a_group_has(name: str | None, groups: tuple[str, ...], role: str) -> None:
    found = Access(way="oidc", **LISTS).identity(name, groups)
    assert (found.name, found.role) == (name, role)


def test_without_lists_everybody_reads_and_nobody_does_more() -> None:
    assert Access().identity(None).role == VIEWER
    assert Access(way="oidc").identity("ada").role == VIEWER


def test_roles_include_those_below() -> None:
    for at, role in enumerate(ROLES):
        assert [Identity("ada", role).may(other) for other in ROLES] == [n <= at for n in range(len(ROLES))]
    assert not Identity(None, NOBODY_ROLE).may(VIEWER)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "ada@example.net", "email_verified": True, "sub": "1"}, "ada@example.net"),
        ({"email": "ada@example.net", "sub": "1"}, "ada@example.net"),
        ({"email": "ada@example.net", "email_verified": False, "preferred_username": "mallory"}, "mallory"),
        ({"email": "ada@example.net", "email_verified": "true", "sub": "1"}, "ada@example.net"),
        ({"email": "ada@example.net", "email_verified": "false", "sub": "mallory"}, "mallory"),
        ({"email": "ada@example.net", "email_verified": "no", "sub": "mallory"}, "mallory"),
        ({"email": "ada@example.net", "email_verified": 0, "sub": "mallory"}, "mallory"),
        ({"email_verified": False, "preferred_username": "ada@example.net", "sub": "mallory"}, "mallory"),
        ({"preferred_username": "ada@example.net", "sub": "1"}, "ada@example.net"),
        ({"sub": "17"}, "17"),
        ({}, None),
    ],
)
def test_an_address_that_the_provider_has_not_verified_is_no_name(claims: dict[str, Any], name: str | None) -> None:
    assert identity.identity_of_claims(Access(way="oidc", **LISTS), claims).name == name


def test_groups_come_from_the_claims() -> None:
    found = identity.identity_of_claims(Access(way="oidc", **LISTS), {"sub": "1", "groups": ["platform", 7]})
    assert found.role == OPERATOR
    assert identity.identity_of_claims(Access(way="oidc", **LISTS), {"sub": "1", "groups": "platform"}).role == VIEWER


@pytest.mark.parametrize("secret", ["", "another", "s3cret "])
def test_headers_count_only_with_the_secret_of_the_proxy(secret: str) -> None:
    access = Access(
        way="proxy", user_header="X-Forwarded-User", groups_header="X-Forwarded-Groups", secret="s3cret", **LISTS
    )
    headers = {"X-Forwarded-User": "ada@example.net", "X-Forwarded-Groups": "platform , x"}
    assert identity.identity_of_headers(access, headers | {"X-Kappa-Proxy-Secret": secret}).name is None
    assert identity.identity_of_headers(access, headers).name is None
    found = identity.identity_of_headers(access, headers | {"X-Kappa-Proxy-Secret": "s3cret"})
    assert (found.name, found.role) == ("ada@example.net", OPERATOR)


def test_a_proxy_without_a_secret_signs_nobody_in() -> None:
    access = Access(way="proxy", user_header="X-Forwarded-User", groups_header="X-Forwarded-Groups")
    assert identity.identity_of_headers(access, {"X-Forwarded-User": "ada", "X-Kappa-Proxy-Secret": ""}).name is None


def test_of_a_header_that_is_there_twice_one_may_be_the_browsers_own() -> None:
    access = Access(way="proxy", user_header="X-Forwarded-User", groups_header="x-groups", secret="s3cret", **LISTS)

    def role(*users: str) -> tuple[str | None, str]:
        sent = [("x-kappa-proxy-secret", "s3cret"), *(("x-forwarded-user", user) for user in users)]
        found = identity.identity_of_headers(access, identity.single_headers(StreamlitHeaders(sent)))
        return found.name, found.role

    assert role("ada@example.net") == ("ada@example.net", RESPONDER)
    assert role("ada@example.net", "mallory@example.net") == (None, NOBODY_ROLE)


@pytest.mark.parametrize("sent", ["José".encode().decode("latin-1"), "José"])
def test_a_name_in_a_header_is_the_same_in_utf_8_and_in_latin_1(sent: str) -> None:
    access = Access(way="proxy", user_header="X-User", secret="s3cret", responders=("José",))
    found = identity.identity_of_headers(access, {"X-User": sent, "X-Kappa-Proxy-Secret": "s3cret"})
    assert (found.name, found.role) == ("José", RESPONDER)


@pytest.mark.parametrize(
    ("arguments", "least"),
    [
        (["savepoint", "list"], VIEWER),
        (["label"], RESPONDER),
        (["state"], RESPONDER),
        (["replay", "promote"], OPERATOR),
    ],
)
def test_a_command_is_run_for_whoever_has_its_role_alone(
    arguments: list[str], least: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps(["true"]))
    for role in (NOBODY_ROLE, *ROLES):
        who = Identity("ada", role)
        if who.may(least):
            commands.check(arguments, who)
            continue
        with pytest.raises(CommandError, match="needs the role"):
            commands.answer(arguments, 1, who)
        with pytest.raises(CommandError, match="needs the role"):
            commands.CommandRunner().begin(arguments, who)


def page(monkeypatch: pytest.MonkeyPatch, access: dict[str, Any]) -> AppTest:
    """What the pages show of who it is."""

    def script() -> None:
        import streamlit as st

        from dashboards import identity

        who = identity.current_identity()
        identity.show_identity(who)
        st.text(f"{who.name} {who.role}")

    monkeypatch.setenv("KAPPA_DASHBOARD_ACCESS", json.dumps(access))
    return AppTest.from_function(script, default_timeout=60).run()


def test_code_signs_in_whoever_types_it_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    test = page(monkeypatch, {"way": "code", "code": "c0de", "user": "ada"})
    assert test.text[0].value == "None viewer"
    test.text_input[0].set_value("guess").run()
    assert (test.text[0].value, test.error[0].value) == ("None viewer", "This is not the code.")
    test.text_input[0].set_value(" c0de ").run()
    assert test.text[0].value == "ada operator"
    test.button[0].click().run()
    assert test.text[0].value == "None viewer"


@pytest.mark.parametrize("access", [{}, {"way": "code", "code": ""}])
def test_without_a_code_nobody_signs_in(monkeypatch: pytest.MonkeyPatch, access: dict[str, Any]) -> None:
    test = page(monkeypatch, access)
    for box in test.text_input:
        box.set_value("").run()
    assert test.text[0].value == "None viewer"


def test_pages_on_an_address_that_others_reach_have_no_code(tmp_path: Path) -> None:
    assert dashboard.new_code(settings(tmp_path), "127.0.0.1") != dashboard.new_code(settings(tmp_path), "127.0.0.1")
    assert [dashboard.new_code(settings(tmp_path), host) for host in ("0.0.0.0", "::", "10.0.0.7", "example.net")] == [
        ""
    ] * 4
    assert dashboard.new_code(settings(tmp_path, sign_in="proxy", proxy_secret=SecretStr("s")), "127.0.0.1") == ""


@pytest.mark.parametrize(("host", "can"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_pages_ask_for_a_code_where_there_is_one_and_say_that_nobody_can_sign_in_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, can: bool
) -> None:
    own = settings(tmp_path)
    test = page(monkeypatch, dashboard.access(own, dashboard.new_code(own, host)))
    assert (len(test.text_input), "sign in above" in identity.role_text(RESPONDER)) == (int(can), can)
    assert ("nobody can sign in here" in identity.role_text(RESPONDER)) is not can


def test_secrets_of_openid_connect_are_in_a_file_of_the_user_alone(tmp_path: Path) -> None:
    own = settings(
        tmp_path,
        sign_in="oidc",
        oidc_metadata_url="https://id.example.net/.well-known/openid-configuration",
        oidc_client_id='kappa "x"',
        oidc_client_secret=SecretStr("s3cret\n"),
        oidc_redirect_url="https://kappa.example.net/oauth2callback",
    )
    file = dashboard.write_secrets(own, tmp_path)
    assert file is not None
    assert file.stat().st_mode & 0o777 == 0o600
    auth = tomllib.loads(file.read_text())["auth"]
    assert (auth["client_id"], auth["client_secret"]) == ('kappa "x"', "s3cret\n")
    assert len(auth["cookie_secret"]) >= 32


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ({"sign_in": "oidc", "oidc_client_id": "kappa"}, "dashboard.oidc_metadata_url"),
        ({"sign_in": "proxy"}, "dashboard.proxy_secret"),
    ],
)
def test_what_is_missing_to_sign_in_is_named(tmp_path: Path, own: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        dashboard.write_secrets(settings(tmp_path, **own), tmp_path)


# --- text from outside

ANYTHING = st.text(max_size=60) | st.lists(
    st.sampled_from([*"`*_[]()<>#$:~|!&\\-+.=>\n\t 1ax", "](", "://", "www."]), max_size=30
).map("".join)


def rendered(markdown: str) -> tuple[set[str], str]:
    """The kinds of elements, and the text, that a reader of Markdown makes of it."""
    kinds, text = set(), ""
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown):
        kinds.add(token.type)
        for child in token.children or ():
            kinds.add(child.type)
            text += child.content
    return kinds, text


@given(ANYTHING)
def test_any_text_is_read_as_it_is_and_is_nothing_but_text(text: str) -> None:
    kinds, read = rendered(f"before {plain(text)} after")
    assert kinds <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    assert read.replace("\N{WORD JOINER}", "") == f"before {one_line(text)} after"


@given(ANYTHING)
def test_any_text_is_a_code_span_and_nothing_else(text: str) -> None:
    kinds, read = rendered(f"before {code(text)} after")
    found = one_line(text)
    assert kinds <= {"paragraph_open", "inline", "text", "code_inline", "paragraph_close"}
    assert read.removeprefix("before ").removesuffix(" after").strip() == found.strip()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_has_no_markup_left(text: str) -> None:
    assert not MARKUP.search(plain(text))
    assert as_read(plain(text)) == one_line(text)


def test_a_name_between_colons_is_no_picture_and_a_time_is_left_as_it_is() -> None:
    assert ":smile:" not in plain(":smile: at 12:30:45").replace("\\", "")
    assert plain("12:30:45").replace("\\", "") == "12:30:45"


def test_long_text_is_cut() -> None:
    assert len(one_line("x" * 1_000_000)) <= MOST_TEXT + 2
