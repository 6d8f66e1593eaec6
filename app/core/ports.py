"""Addresses on which we listen, and ports on loopback."""

import random
import socket
from collections.abc import Iterable
from ipaddress import ip_address

from app.core.errors import StackError

LOOPBACK = "127.0.0.1"
# Below the range that systems give to outgoing connections: such a port stays free while the stack is down.
_CANDIDATES = range(20_000, 30_000)


def is_loopback(host: str) -> bool:
    """Whether an address, or `localhost`, is one of this machine alone."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def family_of(host: str) -> socket.AddressFamily:
    """The family of an address on which to listen; a name is taken for one of IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def location(host: str, port: int) -> str:
    """`HOST:PORT` as addresses have it, with brackets around one of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def asked_at(host: str, port: int) -> str:
    """Where this machine asks by HTTP what listens on an address: all addresses are none to ask at."""
    return f"http://{location({'0.0.0.0': LOOPBACK, '::': '::1'}.get(host, host), port)}"


def port_is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on this port of an address now."""
    with socket.socket(family_of(host), socket.SOCK_STREAM) as probe:
        # As Java does: otherwise a connection that was closed a minute ago would keep the port in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(earlier: int | None, taken: Iterable[int] = ()) -> int:
    """The earlier port if it is free, else any; none of `taken`. StackError where nothing is free."""
    avoided = set(taken)
    if earlier and earlier not in avoided and port_is_free(earlier):
        return earlier
    for port in random.sample(_CANDIDATES, 200):
        if port not in avoided and port_is_free(port):
            return port
    msg = f"no free port on {LOOPBACK} between {_CANDIDATES.start} and {_CANDIDATES.stop}"
    raise StackError(msg)


def required_port(port: int, setting: str) -> int:
    """The port, if it is free; StackError that names the setting otherwise."""
    if not port_is_free(port):
        msg = f"port {port} on {LOOPBACK} is in use by another program: end that or change {setting} (0: any free port)"
        raise StackError(msg)
    return port
