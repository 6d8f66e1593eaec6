"""Options that most commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path | None, typer.Option("--config", "-c", help="Settings as TOML. Default: kappa.toml, if there.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")]
