"""Settings of runbooks: which link an incident has."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from app.core.web_address import Link
from models.rules.runbook import Runbook


class RunbookSettings(BaseModel):
    """A runbook, and the incidents that it is for. All that is given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Link
    kinds: tuple[Literal["anomaly", "change", "new", "silence"], ...] = ()
    host: str | None = None
    service: str | None = None
    labels: dict[str, str] = {}

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        _ = (
            self.runbook
        )  # raises ValueError for a malformed pattern, and for a name in braces that an incident does not have
        return self

    @property
    def runbook(self) -> Runbook:
        """The same, ready to choose."""
        return Runbook(**self.model_dump())
