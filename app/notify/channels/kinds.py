"""The channel that settings describe."""

from __future__ import annotations

import json
from dataclasses import replace

from app.core.errors import SettingsError
from app.core.notify_settings import NotifySettings
from app.notify.channels.alertmanager import Alertmanager
from app.notify.channels.apprise_service import AppriseService
from app.notify.channels.channel import Channel, ChannelRefused
from app.notify.channels.template import compiled, rendered
from app.notify.channels.webhook import Webhook
from app.notify.notification import BEGUN, Notification, channel_test

JSON_TYPE = "application/json"


def open_channel(notify: NotifySettings, name: str) -> Channel:
    """The channel of this name, which has sent nothing yet. Raises SettingsError where there is none, or something in it cannot be used."""
    settings = notify.channels.get(name)
    if settings is None:
        known = ", ".join(notify.channels) or "none"
        msg = f"settings: there is no channel {name!r} in notify.channels; there are {known}: add [notify.channels.{name}]"
        raise SettingsError(msg)
    try:
        if settings.kind == "alertmanager":
            return Alertmanager(settings, notify.resend_seconds)
        return Webhook(settings) if settings.kind == "webhook" else AppriseService(settings)
    except SettingsError as error:
        msg = f"settings: notify.channels.{name}: {error}"
        raise SettingsError(msg) from error


def examined(notify: NotifySettings, name: str) -> str | None:
    """What is doubtful about a channel, of which nothing is sent. Raises SettingsError where it cannot be used."""
    settings = notify.channels[name]
    open_channel(notify, name).close()
    if not settings.template.get_secret_value():
        return None
    template = compiled(settings.template.get_secret_value())
    try:
        bodies = [rendered(template, quoting(status)) for status in BEGUN]
    except ChannelRefused as error:
        msg = f"settings: notify.channels.{name}: {error}"
        raise SettingsError(msg) from error
    if settings.content_type == JSON_TYPE and not all(map(is_json, bodies)):
        return (
            f"channel {name}: its template makes no JSON of a text with quotation marks and line ends, and content_type is {JSON_TYPE}; "
            "write {{ title|tojson }} and no quotation marks around it, or set content_type"
        )
    return None


def quoting(status: str) -> Notification:
    """A notification whose texts have what JSON has to quote."""
    text = 'a "quoted" text\n\\'
    return replace(
        channel_test(0), status=status, title=text, text=text, reason=text, hosts=("web-1",), services=("shop",)
    )


def is_json(body: bytes) -> bool:
    """Whether a body is JSON."""
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
