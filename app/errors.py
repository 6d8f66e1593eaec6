"""Every error that this project raises on purpose.

KappaError                what went wrong, where, got, wanted, what to do: one line
├── SettingsError         a setting is unknown, missing or out of range
├── InputError            a file, an argument or a record is not what it should be
├── StackError            the embedded broker or Elasticsearch did not do as told
├── ServiceUnavailable    Kafka or Elasticsearch cannot be reached
└── LawBroken             a result can no longer be a pure function of the log: the job stops
"""


class KappaError(Exception):
    """One line for a person: what happened, where, what was found, what was wanted, what to do next."""


class SettingsError(KappaError):
    """A setting is unknown, missing, or out of range."""


class InputError(KappaError):
    """A file, an argument or a record is not what it should be."""


class StackError(KappaError):
    """The embedded broker or Elasticsearch did not start, stop or answer."""


class ServiceUnavailable(KappaError):
    """Kafka or Elasticsearch cannot be reached."""


class LawBroken(KappaError):
    """A result would no longer be a pure function of the log; going on would hide it."""
