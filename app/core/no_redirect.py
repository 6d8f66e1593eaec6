"""Questions that carry a secret go to the server that the settings name, and nowhere else."""

from __future__ import annotations

from typing import Any
from urllib.request import HTTPRedirectHandler


class NoRedirect(HTTPRedirectHandler):
    """Follows nowhere: `urllib` would send the password along, to another machine and without encryption as well."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Nothing to ask for."""
