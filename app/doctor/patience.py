"""How long a check waits for Kafka."""

from __future__ import annotations

from app.core.settings import Settings

MOST_CONNECT_SECONDS = 5.0  # less than all checks together may take, so that a check says why there is no answer


def impatient(settings: Settings) -> Settings:
    """The same settings with a client of Kafka that gives up in time."""
    seconds = min(settings.kafka.connect_seconds, MOST_CONNECT_SECONDS)
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"connect_seconds": seconds})})
