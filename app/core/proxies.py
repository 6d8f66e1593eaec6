"""Proxies of the environment are for other machines: what is asked of this one goes to it.

`http_proxy` counts for 127.0.0.1 too, unless `no_proxy` names it: the token of the curves, and a client's secret for a token endpoint beside
us, would go to the proxy, and whatever it answered would count as the health of the jobs.
"""

from __future__ import annotations

import os

from app.core.ports import LOOPBACK

NAMES = ("no_proxy", "NO_PROXY")  # as urllib, the first one counts where both are set
HERE = ("localhost", LOOPBACK, "::1")


def spare_loopback() -> None:
    """From now on this process, and all that it starts, ask this machine without a proxy, with whatever client."""
    before = next((text for name in NAMES if (text := os.environ.get(name))), "")
    listed = [one.strip() for one in before.split(",") if one.strip()]
    if "*" not in listed:
        os.environ.update(dict.fromkeys(NAMES, ",".join(dict.fromkeys([*listed, *HERE]))))
