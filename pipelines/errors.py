"""Errors that the jobs raise on purpose, and the root of all of this project's errors.

KappaError                      what went wrong, where, got, wanted, what to do: one line
├── InputError                  a file, an argument or a record is not what it should be
│   ├── CheckpointLost          a job cannot go on from its checkpoint: however often it is started, it ends by the same
│   └── OfAnotherRelease        another release has written what a version keeps, and this one does not read it
├── ServiceUnavailable          Kafka or Elasticsearch cannot be reached
├── DeterminismViolation        a result can no longer be a pure function of the log: the job stops
├── SettingsError               a setting is unknown, missing or out of range (`app.core.errors`)
└── StackError                  the embedded broker or Elasticsearch failed (`app.core.errors`)
"""


class KappaError(Exception):
    """One line for a person: what happened, where, what was found, what was wanted, what to do next."""


class InputError(KappaError):
    """A file, an argument or a record is not what it should be."""


class CheckpointLost(InputError):
    """A job cannot go on from its checkpoint."""


class OfAnotherRelease(InputError):
    """Another release has written what a version keeps, its state or its configuration, and this one does not read it."""


class ServiceUnavailable(KappaError):
    """Kafka or Elasticsearch cannot be reached."""


class DeterminismViolation(KappaError):
    """A result would no longer be a pure function of the log; going on would hide it."""
