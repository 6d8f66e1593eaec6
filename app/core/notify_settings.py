"""Settings of notifications: channels, and which incidents go to which of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from app.core.secrets import checked_address
from models.rules.route import CHANNEL_NAME, Route

ChannelName = Annotated[str, Field(pattern=f"^{CHANNEL_NAME.pattern}$")]
OF_WEBHOOK = ("secret", "template", "content_type")
OF_HTTP = ("headers", "ca_certs")


class ChannelSettings(BaseModel):
    """Where notifications go. The address is a secret: who knows it may write there. So is the template, as keys of pagers are part of the body."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["alertmanager", "webhook", "apprise"]
    url: SecretStr
    headers: dict[str, SecretStr] = {}
    secret: SecretStr | None = None
    template: SecretStr = SecretStr("")
    content_type: str = "application/json"
    ca_certs: Path | None = None
    timeout_seconds: float = Field(default=10.0, gt=0, le=120)
    pipeline: bool = True
    early: bool = False

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        address = self.url.get_secret_value()
        if self.kind != "apprise" and not (
            urlsplit(address).scheme in ("http", "https") and urlsplit(address).hostname
        ):
            msg = f"url of kind {self.kind} must begin with http:// or https:// and name a host"
            raise ValueError(msg)
        if "://" not in address:
            msg = "url must be an address such as slack://..., mailto://... or https://..."
            raise ValueError(msg)
        unused = {"alertmanager": OF_WEBHOOK, "webhook": (), "apprise": (*OF_WEBHOOK, *OF_HTTP)}[self.kind]
        given = [name for name in unused if name in self.model_fields_set]
        if given:
            msg = f"{given[0]} would not be used with kind {self.kind}: leave it out"
            raise ValueError(msg)
        return self


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
    versions: tuple[str, ...] = Field(
        default=(), description="Versions beside the one that serves that notify as well."
    )
    link: Annotated[str, AfterValidator(checked_address)] | None = Field(
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
        description="How old the last scored window may be before the channels are notified of that.",
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
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
