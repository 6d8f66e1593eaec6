"""docker-compose.yml as compose reads it: merged, with its variables put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from app.core.settings import PROJECT

TEXT = (PROJECT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = YAML(typ="safe").load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# Services of ours, by what their commands are to `kappa`.
OWN = [name for name, service in SERVICES.items() if service["image"] == COMPOSE["x-kappa"]["image"]]
COMMANDS: dict[str, list[str]] = {name: SERVICES[name]["command"] for name in OWN}
VARIABLE = re.compile(r"\$(?:\$|\{([A-Z_]+)(:[?-])?([^}]*)\})")
VARIABLES = {match for match in VARIABLE.findall(TEXT) if match[0]}


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """The text with `${A}`, `${A:-default}` and `${A:?message}` put in; `$$` is a `$`. KeyError for one that is not set."""

    def value(match: re.Match[str]) -> str:
        name, operator, rest = match.groups()
        if name is None:
            return "$"
        return values.get(name, rest) if operator == ":-" else values[name]

    return VARIABLE.sub(value, text)


def environment_of(service: str) -> dict[str, str]:
    """The variables of ours that a service is given, with some password for each that is asked for."""
    values = {name: f"some-{name.lower()}" for name, operator, _ in VARIABLES if operator == ":?"}
    found = SERVICES[service].get("environment", {})
    return {name: interpolated(str(text), values) for name, text in found.items() if name.startswith("KAPPA_")}
