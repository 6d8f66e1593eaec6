"""Writes docs/settings.md from the settings classes: `python -m app.cli.settings_page`, or `make docs`.

Names, types, bounds and defaults are those of the classes. The text of a setting is its `description` in
`app.core.settings`; for the dataclasses of `models` and `pipelines` it is the entry of their docstring.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.core.settings import PROJECT, Settings, variable_of

PAGE = PROJECT / "docs" / "settings.md"
WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    Path: "path",
    SecretStr: "secret text",
}
LIMITS = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}", "pattern": "matching `{}`"}
HEAD = """# Settings

<!-- Written by `make docs` from the settings classes; edit the descriptions there. -->

Settings stand in `kappa.toml` of the working directory, or in the file given with `--config`: a table for each group, a key for
each setting. Each can also be set by its environment variable; lists and tables are then JSON. Arguments of the command line win
over the environment, the environment over the file, the file over the defaults. An unknown key is an error, and so is a file of
`--config` that is missing. A path may begin with `~`; one that does not begin with `/` is below the working directory.
`kappa config show` prints what is in effect, secrets masked.

```toml
[windowing]
lateness_seconds = 30       # or KAPPA_WINDOWING__LATENESS_SECONDS=30
```

The groups `windowing`, `detection`, `correlation`, `limits` and `control` are pinned: a version keeps the values that it began with
([decision 6](decisions/0006-the-configuration-is-pinned.md)). So are the numbers of input partitions, and
`spark.shuffle_partitions`. Other values need another version, see [replay](replay.md).
"""


@dataclasses.dataclass(frozen=True)
class SettingEntry:
    """One row of the page: dotted name, type and bounds in words, default, meaning."""

    name: str
    type: str
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return variable_of(self.name)


def shown(default: Any) -> str:
    """A default as the documents write it."""
    if default is None:
        return "none"
    if default in ("", {}, ()):
        return "empty"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:,}".removesuffix(".0") if isinstance(default, int | float) else str(default)


def described(group: type) -> dict[str, str]:
    """The texts of the section Parameters of a class's docstring (numpydoc), by parameter, each on one line."""
    section = inspect.cleandoc(group.__doc__ or "").partition("Parameters\n----------\n")[2]
    entries = re.findall(r"^(\w+)(?: :.*)?\n((?:    .*\n?)+)", section, re.M)
    return {name: " ".join(text.split()) for name, text in entries}


def entries() -> dict[str, list[SettingEntry]]:
    """All settings by their group, in the order of the classes. Settings without a group come first, under ''."""
    found: dict[str, list[SettingEntry]] = {"": []}
    for name, field in Settings.model_fields.items():
        group: Any = field.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            found[name] = [_of_field(f"{name}.{key}", inner) for key, inner in group.model_fields.items()]
        elif dataclasses.is_dataclass(group):
            found[name] = list(_of_dataclass(name, typing.cast(type, group)))
        else:
            found[""].append(_of_field(name, field))
    return found


def page() -> str:
    """The whole of docs/settings.md."""
    parts = [HEAD]
    for group, settings in entries().items():
        parts.append(f"## {group or 'General'}\n")
        parts.append("| setting | default | type | meaning | environment variable |\n| --- | --- | --- | --- | --- |")
        rows = (
            f"| `{one.name}` | {_default(one)} | {one.type} | {one.meaning} | `{one.variable}` |" for one in settings
        )
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _default(one: SettingEntry) -> str:
    return one.default if one.default in ("none", "empty") else f"`{one.default}`"


def _of_field(name: str, field: FieldInfo) -> SettingEntry:
    limits = [
        text.format(getattr(rule, key))
        for rule in field.metadata
        for key, text in LIMITS.items()
        if getattr(rule, key, None) is not None
    ]
    default = ".kappa" if name == "home" else shown(field.get_default(call_default_factory=True))
    return SettingEntry(name, ", ".join([_type(field.annotation), *limits]), default, field.description or "")


def _of_dataclass(group: str, kind: type) -> Iterator[SettingEntry]:
    hints, texts = typing.get_type_hints(kind), described(kind)
    for field in dataclasses.fields(kind):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        meaning = re.sub(rf"`({'|'.join(hints)})`", rf"`{group}.\1`", texts.get(field.name, ""))
        yield SettingEntry(f"{group}.{field.name}", _type(hints[field.name]), shown(default), meaning)


def _type(hint: Any) -> str:
    """A type in words; None, which means "not set", is left out."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " or ".join(_type(one) for one in typing.get_args(hint) if one is not type(None))
    if typing.get_origin(hint) is Literal:
        return ", ".join(f"`{one}`" for one in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "list"
    if typing.get_origin(hint) is dict:
        return "table"
    if typing.get_origin(hint) is typing.Annotated:
        return _type(typing.get_args(hint)[0])
    return WORDS.get(hint, "date and time")


if __name__ == "__main__":
    PAGE.write_text(page())
