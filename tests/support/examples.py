"""The number of examples of a property that takes long: fewer of them in `make test-fast`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

FULL = 100  # examples of a property that names no number, in `make test`
SHARE = settings().max_examples / FULL  # of the profile that is loaded


def examples(count: int, **more: Any) -> settings:
    """So many examples in `make test`, and the profile's share of them elsewhere."""
    return settings(max_examples=max(1, round(count * SHARE)), **more)
