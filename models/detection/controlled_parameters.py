"""The parameters of the detector, with what people and limits say: values alone, which settings hold without loading the detector."""

from __future__ import annotations

from dataclasses import dataclass

from models.core.limits import LimitParameters
from models.core.parameters import DetectorParameters
from models.rules.rule import Rule, rules_of


@dataclass(frozen=True)
class ControlledParameters(DetectorParameters):
    """The parameters of the detector with rules about some series, and limits.

    Parameters
    ----------
    rules
        Rules, or mappings of their keys as in JSON; of several that contradict each other the last one counts.
    rules_from
        Offset in the topic `rules` from which records count: `rules` has what those before say.
    limits
        What a host and the shard may cost; None for no limits.

    Raises
    ------
    ValueError
        For a parameter out of range, or an unknown or malformed key of a rule.
    """

    rules: tuple[Rule, ...] = ()
    rules_from: int = 0
    limits: LimitParameters | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and build rules from mappings."""
        super().__post_init__()
        object.__setattr__(self, "rules", rules_of(self.rules))
