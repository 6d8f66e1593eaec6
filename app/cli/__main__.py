"""The program `kappa`, and `python -m app.cli`: loads the commands, and runs one."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. Ctrl-C before it has begun and after it has ended ends the process at once, without a stack trace."""
    interrupt = signal.getsignal(signal.SIGINT)
    heard = interrupt != signal.SIG_IGN
    if heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.cli.main import main as run  # loads all commands: half a second

    try:
        signal.signal(signal.SIGINT, interrupt)
        run()
    finally:
        if heard:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
