"""Records of the topic `rules` under keys of all kinds: which are rules, whoever reads them."""

from __future__ import annotations

from app.kafka.heartbeats import HEARTBEAT_KEY
from models.rules.rule_log import record_of


def rule(name: str, more: str = '"mute":true') -> bytes:
    """A rule whose name is this JSON."""
    return f'{{"record":"rule","name":{name},{more}}}'.encode()


def is_rule(text: str | None) -> bool:
    """Whether what has been read takes effect, by the code that applies rules."""
    try:
        return text is not None and record_of(text) is not None
    except ValueError:
        return False


# What it is -> key, value, whether it is a rule.
KEYED_RULES: dict[str, tuple[bytes | None, bytes, bool]] = {
    "its name": (b"a b", rule('"a b"'), True),
    "its end": (b"a b", rule('"a b"', '"removed":true'), True),
    "letters beyond ASCII": ("Nächte é 夜".encode(), rule('"Nächte é 夜"'), True),
    "the same as escapes": ("ä夜".encode(), rule(r'"\u00e4\u591c"'), True),
    "a pair as escapes": ("\U0001f600".encode(), rule(r'"\ud83d\ude00"'), True),
    "escapes of JSON": (b'a"/\\b', rule(r'"a\"\/\\b"'), True),
    "an escape in a member": (b"a", rule('"a"').replace(b"name", rb"n\u0061me"), True),
    "a name that heartbeats once had as key": (b"heartbeat", rule('"heartbeat"'), True),
    "a byte order mark": (b"a", b"\xef\xbb\xbf" + rule('"a"'), True),
    "no key": (None, rule('"a"'), False),
    "no key of an end": (None, rule('"a"', '"removed":true'), False),
    "an empty key": (b"", rule('"a"'), False),
    "nothing under an empty key": (b"", rule('""'), False),
    "another key": (b"b", rule('"a"'), False),
    "another key of an end": (b"b", rule('"a"', '"removed":true'), False),
    "a key with a space behind": (b"a ", rule('"a"'), False),
    "a key with NUL behind": (b"a\x00", rule('"a"'), False),
    "a key with half the name": (b"a", rule('"a b"'), False),
    "a key in capitals": (b"A", rule('"a"'), False),
    "a key in Latin-1": ("ä".encode("latin-1"), rule('"ä"'), False),
    "a key in UTF-16": ("a".encode("utf-16-le"), rule('"a"'), False),
    "a key of parts that look the same": ("a\u0308".encode(), rule('"ä"'), False),
    "a key with the escapes": (rb"\u00e4", rule(r'"\u00e4"'), False),
    "a key in quotes": (b'"a"', rule('"a"'), False),
    "half a pair under a question mark": (b"?", rule(r'"\ud800"'), False),
    "half a pair under its bytes": (b"\xed\xa0\x80", rule(r'"\ud800"'), False),
    "a name with a space behind": (b"a ", rule('"a "'), False),
    "a name that is a number": (b"5", rule("5"), False),
    "a name that is null": (b"null", rule("null"), False),
    "a name that is a list": (b'["a"]', rule('["a"]'), False),
    "the key of heartbeats": (HEARTBEAT_KEY, rule('"heartbeat"'), False),
    "a name that is the key of heartbeats": (HEARTBEAT_KEY, rule(r'"\u0000heartbeat"'), False),
    "a longer key than there is": (b"a" * (1 << 21), rule('"a"'), False),
}
