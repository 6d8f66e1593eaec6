"""What is secret, by its name and by its form: settings, options of Spark and Kafka, keys of log lines, addresses with a password."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

MASK = "**********"
# Also the pattern that Spark redacts by, so it is one that Java reads too. A file's path or an address is no secret.
SECRET_NAMES = (
    r"(?i)pass(word|wd|phrase)|secret|token(?![._]?(url|endpoint))|credential|jaas|sasl\S{0,80}config|cookie|authorization"
    r"|(api|access|account|private|shared|encryption)[._-]?key|keystore[._-]key$|[._-]key$"
)
NAMED = re.compile(SECRET_NAMES)
# An option of Java: its name, and its value to the next space, or in quotation marks.
JAVA_OPTION = re.compile(r"(?<![\w-])-D([^\s=]{1,256})=(\"[^\"]*\"|'[^']*'|\S+)")
IN_ADDRESS = re.compile(r"(?<=//)[^\s/]{1,512}@")

# A parameter behind an address: its name and its value.
PARAMETER = re.compile(r"(?<=[?&;])([^\s=&;?]{1,256})=([^\s&;\"']+)")
# Characters of a secret, and of a part of one, that are masked where a server repeats them.
SHORTEST, SHORTEST_WORD = 4, 8
BETWEEN_WORDS = re.compile(r"[/?&=:@;,#\s]+")
JSON_ESCAPE = re.compile(r"\\(?:u00([0-9a-fA-F]{2})|([/\"\\]))")


class SecretInAddress(ValueError):
    """An address that holds a user or a password; the message does not say it."""


def is_secret(name: str) -> bool:
    """Whether something of this name is a secret."""
    return NAMED.search(name) is not None


def masked(value: Any, name: str = "") -> Any:
    """The same value without secrets: those under a secret name, be it one of Java's options in a text, and passwords in addresses."""
    if isinstance(value, Mapping):
        return {key: masked(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner, name) for inner in value]
    if value and is_secret(name) and isinstance(value, str | bytes):
        return MASK
    return without_password(without_options(value)) if isinstance(value, str) else value


def without_options(text: str) -> str:
    """A text in which options of Java that have a secret name (`-Djavax.net.ssl.keyStorePassword=...`) show no value."""

    def shown(option: re.Match[str]) -> str:
        return f"-D{option[1]}={MASK}" if is_secret(option[1]) else option[0]

    return JAVA_OPTION.sub(shown, text) if "-D" in text else text


def without_password(text: str) -> str:
    """A text in which addresses show no user and password, and no value of a parameter that has a secret name."""

    def shown(parameter: re.Match[str]) -> str:
        return f"{parameter[1]}={MASK}" if is_secret(parameter[1]) else parameter[0]

    return PARAMETER.sub(shown, IN_ADDRESS.sub(f"{MASK}@", text)) if "//" in text else text


def masking(address: str, *others: str) -> Callable[[str], str]:
    """What masks a secret address and other secrets in the text of a server, which may repeat them in whole or in part.

    Of the address these are its path, query and user, but not its host. A text that has a secret escaped, as JSON, HTML and addresses
    are, is answered without these escapes.
    """
    rest = address.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind, user = rest.removeprefix(authority), authority.rpartition("@")[0]
    wholes = {address, behind, *behind.split("?", 1), user, *user.split(":", 1), *others}
    words = {word for text in (behind, user, *others) for word in BETWEEN_WORDS.split(text)}
    found = {text for text in wholes if len(text) >= SHORTEST} | {text for text in words if len(text) >= SHORTEST_WORD}
    found |= set(map(without_escapes, found))
    longest_first = sorted(found, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)

    def shown(text: str) -> str:
        decoded = without_escapes(text)
        hidden = pattern.sub(MASK, decoded)
        return pattern.sub(MASK, text) if hidden == decoded else hidden

    return shown


def without_escapes(text: str) -> str:
    """A text in which the escapes of JSON, HTML and addresses are the characters that they stand for."""
    return unquote(html.unescape(JSON_ESCAPE.sub(lambda one: chr(int(one[1], 16)) if one[1] else one[2], text)))


def checked_address(address: str) -> str:
    """An address, or several after commas, as they are. Raises SecretInAddress where one holds a user or a password."""
    if any(
        "@" in one.rpartition("//")[2].partition("?")[0] or is_secret(one.partition("?")[2])
        for one in address.split(",")
    ):
        msg = "an address may hold no user and no password, which logs and pages would show: use the settings for them"
        raise SecretInAddress(msg)
    return address
