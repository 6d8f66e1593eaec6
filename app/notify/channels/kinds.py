"""The channel that settings describe."""

from __future__ import annotations

from app.core.errors import SettingsError
from app.core.notify_settings import NotifySettings
from app.notify.channels.alertmanager import Alertmanager
from app.notify.channels.apprise_service import AppriseService
from app.notify.channels.channel import Channel
from app.notify.channels.webhook import Webhook


def opened(notify: NotifySettings, name: str) -> Channel:
    """The channel of this name. Raises SettingsError where there is none, or something in it cannot be used."""
    settings = notify.channels.get(name)
    if settings is None:
        msg = f"settings: there is no channel {name!r} in notify.channels; there are {', '.join(notify.channels) or 'none'}"
        raise SettingsError(msg)
    if settings.kind == "alertmanager":
        return Alertmanager(settings, notify.resend_seconds)
    return Webhook(settings) if settings.kind == "webhook" else AppriseService(settings)
