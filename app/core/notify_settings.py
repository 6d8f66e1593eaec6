"""Settings of notifications: channels, and which incidents go to which of them."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from app.core.user_path import UserPath
from app.core.version_name import VersionName
from app.core.web_address import Link, web_address
from models.rules.route import CHANNEL_NAME, Route

ChannelName = Annotated[str, Field(pattern=f"^{CHANNEL_NAME.pattern}$")]
OF_WEBHOOK = ("secret", "template", "content_type")
BASE = re.compile(r"(?!.*/api/v\d+(/alerts)?/?$)[^?#]+")  # what a path can be added to
OF_HTTP = ("headers", "ca_certs")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ChannelSettings(BaseModel):
    """Where notifications go. The address is a secret: who knows it may write there. So is the template, as keys of pagers are part of the body."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["alertmanager", "webhook", "apprise"]
    url: SecretStr
    headers: dict[str, SecretStr] = {}
    secret: SecretStr | None = None
    template: SecretStr = SecretStr("")
    content_type: str = "application/json"
    ca_certs: UserPath | None = None
    timeout_seconds: float = Field(default=10.0, gt=0, le=120)
    pipeline: bool = True
    early: bool = False

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        problem = self._problem()
        if problem:
            raise ValueError(problem)
        unused = {"alertmanager": OF_WEBHOOK, "webhook": (), "apprise": (*OF_WEBHOOK, *OF_HTTP)}[self.kind]
        given = [name for name in unused if name in self.model_fields_set]
        if given:
            msg = f"{given[0]} would not be used with kind {self.kind}: leave it out"
            raise ValueError(msg)
        return self

    def _problem(self) -> str | None:
        """What is wrong with address and headers, without a secret in it. Raises ValueError for an address that is none."""
        address = self.url.get_secret_value()
        if self.kind != "apprise":
            web_address(address)
        elif "://" not in address:
            return "url must be an address such as slack://..., mailto://... or https://..."
        if self.kind == "alertmanager" and not BASE.fullmatch(address):
            return "url of an alertmanager is that of its pages, such as http://127.0.0.1:9093: /api/v2/alerts is added to it"
        sent = {name: value.get_secret_value() for name, value in self.headers.items()}
        unnamed = [name for name in sent if not HEADER_NAME.fullmatch(name)]
        if unnamed:
            return f"headers has {unnamed[0]!r}, which is no name of a header"
        odd = [name for name, value in (*sent.items(), ("content_type", self.content_type)) if not is_header(value)]
        if odd:
            return f"the text of {odd[0]} cannot be sent: wanted printable ASCII, no line end and no space at its end"
        if self.secret is not None and not self.secret.get_secret_value():
            return "secret is empty, so that everybody could sign: leave it out, or set it"
        return None


def is_header(text: str) -> bool:
    """Whether a text can be sent as a header as it is."""
    return text.isascii() and text.isprintable() and text == text.strip()


class NotifySettings(BaseModel):
    """Who is notified of incidents. Without channels nobody is, and nothing runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channels: dict[ChannelName, ChannelSettings] = Field(
        default={},
        description="Where notifications go, by name: tables `[notify.channels.NAME]`, see [alerts](alerts.md).",
    )
    routes: tuple[Route, ...] = Field(
        default=(),
        description="Which incidents go to which channels: tables `[[notify.routes]]`, see [alerts](alerts.md).",
    )
    match: Literal["first", "all"] = Field(
        default="first", description="Whether the first route that matches counts, or all that do."
    )
    default: tuple[str, ...] | None = Field(
        default=None, description="Channels of incidents that no route matches. Without it all channels."
    )
    versions: tuple[VersionName, ...] = Field(
        default=(), description="Versions beside the one that serves that notify as well."
    )
    link: Link | None = Field(
        default=None,
        description="Address of the dashboard as people reach it. If it is set, notifications link to the incident.",
    )
    resend_seconds: float = Field(
        default=60.0,
        ge=1,
        le=3600,
        description="How often an Alertmanager gets what is open. What it has not got for five times as long is over for it.",
    )
    patience_hours: float = Field(
        default=24.0, gt=0, description="How long a channel that does not take a notification is tried again."
    )

    storm_incidents: int = Field(
        default=20,
        ge=0,
        description=(
            "How many incidents may open within `notify.storm_minutes` before one notification says that there are too many; 0: "
            "never. An Alertmanager, which groups alerts itself, gets all."
        ),
    )
    storm_minutes: float = Field(default=5.0, gt=0, description="See `notify.storm_incidents`.")
    behind_seconds: float = Field(
        default=300.0,
        gt=0,
        description=(
            "How old the last scored window may be, beyond the length of one, before the channels are notified of that."
        ),
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        names_of_routes = [route.name for route in self.routes if route.name]
        twice = [name for name in names_of_routes if names_of_routes.count(name) > 1]
        if twice:
            msg = f"routes has {twice[0]!r} twice; a route is known by its name"
            raise ValueError(msg)
        named = {
            "default": self.default or (),
            **{f"routes.{i}.channels": route.channels for i, route in enumerate(self.routes)},
            **{f"routes.{i}.escalate_to": route.escalate_to for i, route in enumerate(self.routes)},
        }
        for where, names in named.items():
            unknown = [name for name in names if name not in self.channels]
            if unknown:
                known = ", ".join(self.channels) or "none"
                msg = f"{where} names channel {unknown[0]!r}; there are {known}: add [notify.channels.{unknown[0]}]"
                raise ValueError(msg)
        return self
