"""The body of a webhook: JSON, or a Jinja2 template in a sandbox that can change nothing and call nothing of ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from dataclasses import fields as names_of
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.core.errors import SettingsError
from app.notify.channels.channel import ChannelRefused
from app.notify.notification import Notification

MOST_BODY = 262_144  # characters
FIELDS = (*(one.name for one in names_of(Notification)), "identity")


def compiled(text: str) -> Template:
    """The template. Raises SettingsError, with the line, for one that is malformed or names what a body does not have."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    try:
        parsed = environment.parse(text)
        made = environment.from_string(parsed)
    except TemplateSyntaxError as error:
        msg = f"template is no Jinja2 template: line {error.lineno}: {(error.message or '').rstrip('.')}"
        raise SettingsError(msg) from error
    unknown = meta.find_undeclared_variables(parsed) - environment.globals.keys() - set(FIELDS)
    for name in parsed.find_all(nodes.Name):
        if name.name in unknown:
            msg = f"template names {name.name} in line {name.lineno}, which a notification does not have; it has {', '.join(FIELDS)}"
            raise SettingsError(msg)
    return made


def fields(note: Notification) -> dict[str, Any]:
    """What a body may hold: the fields of the notification, with the key that tells repeats."""
    return asdict(note) | {"identity": note.identity}


def rendered(template: Template | None, note: Notification) -> bytes:
    """The body. Raises ChannelRefused for a template that names what there is not, or makes too much."""
    if template is None:
        return json.dumps(fields(note), ensure_ascii=False).encode()
    try:
        text = template.render(fields(note))
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:
        msg = f"the template of the webhook fails: {error}"
        raise ChannelRefused(msg) from error
    if len(text) > MOST_BODY:
        msg = f"the template of the webhook makes {len(text):,} characters; wanted at most {MOST_BODY:,}"
        raise ChannelRefused(msg)
    return text.encode(errors="replace")
