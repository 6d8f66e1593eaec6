"""Who looks at the pages, and what they may do.

The way to sign in and the names in each role come with the environment (KAPPA_DASHBOARD_ACCESS, JSON). Without it nobody can
sign in. Roles are decided on the server, each time that a page runs; commands ask for them again before they start.

    code     whoever types the code that `kappa dashboard` prints is the user who started it, and an operator
    oidc     Streamlit's own login, with an OpenID Connect provider
    proxy    headers of a proxy that knows a secret
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.runtime.context import StreamlitHeaders

from dashboards.queries.search import PREFIX
from dashboards.words import plain

VIEWER, RESPONDER, OPERATOR = ROLES = ("viewer", "responder", "operator")
NOBODY_ROLE = "nobody"  # may not even read
MAY = {
    VIEWER: "read",
    RESPONDER: "read, label incidents, write rules about them and ask models",
    OPERATOR: "read, label incidents, write rules about them, ask models, promote versions and roll back",
}
EVERYBODY = "*"  # in a list of names: everybody who has signed in
GROUP = "group:"  # before the name of a group
CODE, OIDC, PROXY = WAYS = ("code", "oidc", "proxy")
MOST_NAME = 100  # characters of a name, as of the author of a label
SIGNED_IN = "signed in"
VERIFIED = (None, True, "true")
PROXY_SECRET_HEADER = "X-Kappa-Proxy-Secret"
NO_WAY = "nobody can sign in here: `dashboard.sign_in` in the settings has ways for an address that others reach"


@dataclass(frozen=True)
class Identity:
    """Somebody: a name, None for who has not signed in, and a role of ROLES, or NOBODY_ROLE."""

    name: str | None
    role: str

    def may(self, role: str) -> bool:
        """Whether they have a role, or one that includes it."""
        order = (NOBODY_ROLE, *ROLES)
        return order.index(self.role) >= order.index(role)


NOBODY = Identity(None, VIEWER)


@dataclass(frozen=True)
class Access:
    """How to sign in (`way`, one of WAYS or empty), and who has which role.

    `code` and `user` are those of `code`; `user_header`, `groups_header` and `secret` those of `proxy`. `viewers`: empty for everybody,
    signed in or not.
    """

    way: str = ""
    code: str = ""
    user: str = ""
    user_header: str = ""
    groups_header: str = ""
    secret: str = ""
    viewers: tuple[str, ...] = ()
    responders: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Access:
        """What the environment says. Raises ValueError or TypeError for what is no such thing."""
        found = json.loads(environment.get(f"{PREFIX}ACCESS") or "{}")
        kept: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
        }
        return cls(**kept)

    def identity(self, name: str | None, groups: tuple[str, ...] = ()) -> Identity:
        """The identity of who has this name, and is in these groups."""
        if name is None:
            return Identity(None, NOBODY_ROLE if self.viewers else VIEWER)
        known = {EVERYBODY, *(f"{GROUP}{group}" for group in groups)}
        if not name.startswith((EVERYBODY, GROUP)):  # a name may be chosen by its bearer
            known.add(name)
        for role, names in ((OPERATOR, self.operators), (RESPONDER, self.responders)):
            if known & set(names):
                return Identity(name, role)
        return Identity(name, VIEWER if not self.viewers or known & set(self.viewers) else NOBODY_ROLE)


def current_identity() -> Identity:
    """Who looks at this page now."""
    access = Access.of(os.environ)
    if access.way == CODE:
        given = st.session_state.get(SIGNED_IN, "")
        signed_in = bool(access.code) and hmac.compare_digest(str(given).encode(), access.code.encode())
        return Identity(access.user, OPERATOR) if signed_in else access.identity(None)
    if access.way == OIDC:
        return identity_of_claims(access, dict(st.user)) if st.user.is_logged_in else access.identity(None)
    if access.way == PROXY:
        return identity_of_headers(access, single_headers(st.context.headers))
    return access.identity(None)


def identity_of_claims(access: Access, claims: Mapping[str, Any]) -> Identity:
    """The identity in an OpenID Connect provider's claims.

    The name is the e-mail address if the provider has verified it or says nothing of that, else `preferred_username`, else the subject. Some
    providers say it as text. Where the address is not verified, a user name that looks like one is not either: its bearer may have chosen it.
    """
    verified = claims.get("email_verified") in VERIFIED
    email, username = claims.get("email") if verified else None, claims.get("preferred_username")
    chosen = username if verified or "@" not in str(username) else None
    name = next((str(found) for found in (email, chosen, claims.get("sub")) if found), None)
    groups = claims.get("groups")
    listed = tuple(str(group) for group in groups) if isinstance(groups, (list, tuple)) else ()
    return access.identity(None if name is None else name[:MOST_NAME], listed)


def single_headers(headers: StreamlitHeaders) -> dict[str, str]:
    """Headers that were sent once: of two, one may be the browser's own, beside which a proxy has put its own instead of in its place."""
    return {name: values[0] for name in headers if len(values := headers.get_all(name)) == 1}


def decode_utf8(header: str) -> str:
    """The text of a header that is UTF-8; servers read each byte as a character."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def identity_of_headers(access: Access, headers: Mapping[str, str]) -> Identity:
    """The identity in the headers of a proxy; nobody where the proxy's secret is missing or another one."""
    sent = {key.lower(): decode_utf8(value) for key, value in headers.items()}
    given = sent.get(PROXY_SECRET_HEADER.lower(), "")
    if not access.secret or not hmac.compare_digest(given.encode(), access.secret.encode()):
        return access.identity(None)
    name = sent.get(access.user_header.lower(), "").strip()[:MOST_NAME]
    groups = tuple(part.strip() for part in sent.get(access.groups_header.lower(), "").split(",") if part.strip())
    return access.identity(name or None, groups)


def show_identity(who: Identity) -> None:
    """Who has signed in, and the way to do it or to sign out."""
    way = Access.of(os.environ).way
    if not way and who.name is None:
        return
    with st.popover(plain(who.name) if who.name else "Sign in", icon=":material/account_circle:", width="stretch"):
        if who.name is not None:
            st.markdown(f"Signed in as **{plain(who.name)}**, {who.role}: may {MAY.get(who.role, 'not read')}.")
            if way in (CODE, OIDC):
                st.button("Sign out", icon=":material/logout:", on_click=st.logout if way == OIDC else sign_out)
        elif way == OIDC:
            st.button("Sign in", icon=":material/login:", on_click=st.login)
        elif way == CODE:
            st.text_input(
                "Code that `kappa dashboard` printed", type="password", max_chars=200, key="code", on_change=sign_in
            )
            if st.session_state.pop("wrong code", False):
                st.error("This is not the code.", icon=":material/block:")
        else:
            st.markdown("The proxy before this dashboard signs you in; it has named nobody.")


def sign_in() -> None:
    """Take the code that was typed."""
    st.session_state[SIGNED_IN] = st.session_state.get("code", "").strip()
    st.session_state["wrong code"] = current_identity().name is None
    st.session_state["code"] = ""


def sign_out() -> None:
    """Forget that the code was typed."""
    st.session_state.pop(SIGNED_IN, None)


def show_refusal(who: Identity) -> None:
    """Say that somebody may not read."""
    if who.name is None:
        more = "" if Access.of(os.environ).way else f", and {NO_WAY}"
        st.warning(f"This dashboard is for people who have signed in{more}.", icon=":material/lock:")
    else:
        st.warning(
            f"{plain(who.name)} may not read this dashboard: an administrator can put the name, or a group, into `dashboard.viewers`.",
            icon=":material/lock:",
        )


def role_text(role: str, what: str = "This") -> str:
    """What to tell somebody who lacks a role, of what they may not do."""
    if not Access.of(os.environ).way:
        return f"{what} needs the role {role}, and {NO_WAY}."
    return f"{what} needs the role {role}: sign in above, or ask for it (`dashboard.{role}s` in the settings)."
