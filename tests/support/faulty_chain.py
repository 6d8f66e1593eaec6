"""`kappa` with a reader that has faults: `python -m support.faulty_chain run extract --config FILE`."""

from __future__ import annotations

from support import killers

from app.cli.main import app

if __name__ == "__main__":
    killers.install()
    app()
