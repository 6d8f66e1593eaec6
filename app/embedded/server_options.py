"""The Java options that both embedded servers share."""

import shutil
from pathlib import Path

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.xml")


def server_options(home: Path, name: str, log: Path, heap_mib: int) -> list[str]:
    """Heap, logging and scratch space below `home`; nothing is written elsewhere."""
    scratch = home / "tmp" / name
    # Native libraries are unpacked here at each start, and a killed Java leaves them.
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    return [
        f"-Xmx{heap_mib}m",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={home / 'logs' / f'{name}-crash-%p.log'}",
        f"-Djava.io.tmpdir={scratch}",
        "-Djava.awt.headless=true",
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",  # Kafka and netty still use it; four lines of warning each start
        f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}",
        "-Dlog4j2.disable.jmx=true",
        f"-Dkappa.log={log}",
    ]
