"""The version of a state's format: a release reads no state of another one."""

from __future__ import annotations


class OtherFormat(ValueError):
    """A state has another format than this release writes."""


def check_format(what: str, found: object, wanted: object) -> None:
    """Raise OtherFormat unless the two are equal; `what` names the state."""
    if found != wanted:
        msg = f"{what} has format {found}; wanted {wanted}"
        raise OtherFormat(msg)
