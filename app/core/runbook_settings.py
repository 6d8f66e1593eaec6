"""Settings of runbooks: which link an incident has."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from app.core.secrets import checked_address
from models.rules.runbook import Runbook


class RunbookSettings(BaseModel):
    """A runbook, and the incidents that it is for. All that is given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, AfterValidator(checked_address)]
    kinds: tuple[Literal["anomaly", "change", "new", "silence"], ...] = ()
    host: str | None = None
    service: str | None = None
    labels: dict[str, str] = {}

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        _ = self.runbook  # raises ValueError for a malformed pattern
        return self

    @property
    def runbook(self) -> Runbook:
        """The same, ready to choose."""
        return Runbook(**self.model_dump())
