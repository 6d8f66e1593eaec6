"""Errors of settings and of the embedded servers; `pipelines.errors` has the whole tree."""

from pipelines.errors import KappaError


class SettingsError(KappaError):
    """A setting is unknown, missing, or out of range."""


class StackError(KappaError):
    """The embedded broker or Elasticsearch did not start, stop or answer."""
