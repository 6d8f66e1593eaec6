"""Values of the parameters in log lines: a column of random integers becomes a column of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

USERS = (
    "root",
    "alice",
    "bob",
    "carol",
    "deploy",
    "www-data",
    "postgres",
    "jenkins",
    "mallory",
    "dave",
    "svc_etl",
    "erin",
)
WORDS = ("orders", "users", "billing", "events", "stock", "audit", "mail", "prices", "carts", "media", "reviews", "geo")
METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE")
ROOTS = ("/api/v1/orders", "/api/v1/users", "/static/js", "/cart", "/search", "/login", "/products", "/admin/reports")
SCRIPTS = ("/usr/bin/php", "/usr/local/bin/rotate.sh", "/opt/app/bin/sync", "/usr/sbin/anacron", "/opt/agent/run")
EXTENSIONS = ("csv", "parquet", "html", "js", "idx", "dat")
MASK64 = (1 << 64) - 1


def _pick(words: tuple[str, ...]) -> Callable[[list[int]], list[str]]:
    n = len(words)
    return lambda column: [words[x % n] for x in column]


def _uuids(column: list[int]) -> list[str]:
    out = []
    for x in column:
        h = f"{x:016x}{(x * 0x9E3779B97F4A7C15) & MASK64:016x}"
        out.append(f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}")
    return out


def _files(column: list[int]) -> list[str]:
    return [
        f"/var/lib/{WORDS[x % 12]}/{x >> 8 & 0xFFFF}/{WORDS[x >> 24 & 7]}-{x >> 28 & 0xFFF}.{EXTENSIONS[(x >> 40) % 6]}"
        for x in column
    ]


COLUMN: dict[str, Callable[[list[int]], list[str]]] = {
    "small": lambda column: [str(x % 97 + 1) for x in column],
    "id": lambda column: [str(x % 900_000 + 100_000) for x in column],
    "big": lambda column: [str(x % 10**9) for x in column],
    "bytes": lambda column: [str(x % (1 << (8 + (x >> 40) % 16)) + 64) for x in column],
    "pid": lambda column: [str(x % 32_000 + 300) for x in column],
    "port": lambda column: [str(x % 64_000 + 1024) for x in column],
    "ms": lambda column: [str(x % (1 << (3 + (x >> 40) % 9)) + 1) for x in column],
    "us": lambda column: [str(x % 9_000 + 20) for x in column],
    "percent": lambda column: [str(x % 99 + 1) for x in column],
    "decimal": lambda column: [f"{x % 900 + 1}.{x >> 20 & 63:02d}" for x in column],
    "ip": lambda column: [f"10.{x >> 8 & 31}.{x >> 16 & 255}.{x >> 24 & 255}" for x in column],
    "hex": lambda column: [f"{x & 0xFFFFFFFFFFFF:012x}" for x in column],
    "lsn": lambda column: [f"{x & 0xFF:X}/{x >> 8 & 0xFFFFFFF:08X}" for x in column],
    "uuid": _uuids,
    "file": _files,
    "path": lambda column: [f"{ROOTS[x % 8]}/{x >> 8 & 0xFFFF}" for x in column],
    "url": lambda column: [f"https://{WORDS[x % 12]}.internal:8443/v2/{x >> 8 & 0xFFF}" for x in column],
    "node": lambda column: [f"node-{x % 24 + 1:02d}" for x in column],
    "date": lambda column: [f"2025-{x % 12 + 1:02d}-{(x >> 8) % 28 + 1:02d}" for x in column],
    "user": _pick(USERS),
    "word": _pick(WORDS),
    "method": _pick(METHODS),
    "script": _pick(SCRIPTS),
}
