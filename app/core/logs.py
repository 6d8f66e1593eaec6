"""Logs: structlog key-value events on stderr, configured once."""

from __future__ import annotations

import logging
import sys

import structlog

from app.core.secrets import masked
from models.core.printable import printable_lines


def configure(as_json: bool = False, level: int = logging.INFO) -> None:
    """Set the form of logs: coloured lines on a terminal, JSON lines where asked for."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            *([] if as_json else [made_printable]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # The clients log every reconnect; our own events report what matters.
    for name in ("kafka", "elastic_transport", "elasticsearch", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def without_secrets(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """A line without what stands under a secret name, and without passwords in addresses."""
    return {key: masked(value, key) for key, value in event.items()}


def made_printable(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """A line that a terminal does not obey, whatever the texts in it hold. JSON is ASCII as it is."""
    return {key: _printable(value) for key, value in event.items()}


def _printable(value: object) -> object:
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value if isinstance(value, int | float | None) else printable_lines(str(value))
