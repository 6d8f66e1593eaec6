"""Logs on stderr, configured once: key-value lines for people, or one JSON object a record for programs that collect them."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Literal

import structlog

from app.core.secrets import masked
from models.core.printable import printable_lines

LogFormat = Literal["text", "json"]
# The clients log every reconnect; our own events report what matters.
QUIET = ("kafka", "elastic_transport", "elasticsearch", "py4j")


def configure(form: LogFormat = "text", level: int = logging.INFO) -> None:
    """Set the form of logs. With `json`, what other libraries log and an error that ends a thread or the process are records, too."""
    as_json = form == "json"
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        without_secrets,
    ]
    text: list[structlog.typing.Processor] = [made_printable, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    structlog.configure(
        processors=[*shared, *([structlog.processors.JSONRenderer()] if as_json else text)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, RecordsOfLibraries)]:
        root.removeHandler(handler)
    if as_json:
        root.addHandler(RecordsOfLibraries(shared))
    logging.captureWarnings(as_json)
    sys.excepthook = log_error if as_json else sys.__excepthook__
    threading.excepthook = log_error_of_thread if as_json else threading.__excepthook__


def are_json() -> bool:
    """Whether programs read stderr: then nothing but records may be written there."""
    return isinstance(structlog.get_config()["processors"][-1], structlog.processors.JSONRenderer)


class RecordsOfLibraries(logging.StreamHandler):  # type: ignore[type-arg]
    """What libraries log by Python's own logging, from warnings on, as JSON on stderr."""

    def __init__(self, processors: list[structlog.typing.Processor]) -> None:
        super().__init__(sys.stderr)
        self.setLevel(logging.WARNING)
        last: list[structlog.typing.Processor] = [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ]
        named = [structlog.stdlib.add_logger_name, *processors]
        self.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=named, processors=last))


def log_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log the error that ends the process, with its stack in the field `exception`."""
    structlog.get_logger().critical("ended by an error", exc_info=(kind, error, trace))


def log_error_of_thread(what: threading.ExceptHookArgs) -> None:
    """Log the error that ends a thread."""
    if what.exc_value is not None:
        trace = (what.exc_type, what.exc_value, what.exc_traceback)
        name = what.thread.name if what.thread else ""
        structlog.get_logger().critical("thread ended by an error", thread=name, exc_info=trace)


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
