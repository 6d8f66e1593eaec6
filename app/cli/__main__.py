"""`python -m app.cli` is the command `kappa`."""

from app.cli.main import main

main()
