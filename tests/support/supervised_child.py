"""A child of `app.supervision.parent` without jobs: does what its arguments say, at each start the next of them.

    python -m support.supervised_child FOLDER WHAT... --supervised DESCRIPTOR

Each start writes its process's id, and that of a helper process in a group of its own, into FOLDER/NUMBER.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from app.supervision.link import ChildError, ParentLink

HELPER = [sys.executable, "-c", "import signal; signal.pause()"]


def main(folder: Path, plan: list[str], extra: list[str], descriptor: int) -> int:
    """One start."""
    parent = ParentLink(descriptor)
    number = len(list(folder.glob("*.json")))
    helper = subprocess.Popen(HELPER, process_group=0)
    facts = {
        "pids": [os.getpid(), helper.pid],
        "restarts": parent.history.restarts,
        "last_error": parent.history.last_error,
        "killed": parent.history.killed,
        "extra": extra,
    }
    read_end, write_end = os.pipe()  # an event could be set while this thread holds its lock
    signal.signal(signal.SIGUSR1, lambda *_: (folder / "asked for stacks").touch())
    what = plan[min(number, len(plan) - 1)]
    if what != "imports":
        signal.signal(signal.SIGTERM, lambda *_: os.write(write_end, b"x"))
    parent.expect("job")
    if what.startswith("waits"):
        parent.expect("index")
        parent.progress("index", waits=True)
    if what != "silent":
        parent.progress("job", done=what != "waits alone")
    if what == "hindered":
        parent.hindered("heartbeats are not written: Kafka does not answer")
    if what in ("positioned", "stays"):
        parent.positioned()
    draft = folder / "draft"
    draft.write_text(json.dumps(facts))
    draft.rename(folder / f"{number}.json")
    match what:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fails" | "positioned" | "waits" | "waits alone":
            parent.failed(ChildError("the job failed"))
            return 1
        case "lasting":
            parent.failed(ChildError("a setting is wrong", lasting=True))
            sys.stderr.write("kappa: a setting is wrong\n")
            return 1
        case "away":
            parent.failed(ChildError("Kafka does not answer", waits=True))
            return 1
        case "stopped" | "hindered":
            os.kill(os.getpid(), signal.SIGSTOP)
    os.read(read_end, 1)
    (folder / "asked to stop").touch()
    return 0


if __name__ == "__main__":
    at = sys.argv.index("--supervised")
    mine = sys.argv[2:at]
    words = [word for word in mine if not word.startswith("--")]
    sys.exit(main(Path(sys.argv[1]), words, [word for word in mine if word.startswith("--")], int(sys.argv[at + 1])))
