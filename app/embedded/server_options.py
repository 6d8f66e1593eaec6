"""The Java options that both embedded servers share, and those that Spark's JVM has as well."""

import shutil
from pathlib import Path

# The JVM's second compiler takes half of the processor time of a start. It begins with what has run twenty times as often as by default: a
# session and its first batch cost 42 s of a core instead of 56, and long batches go as fast (decision 13); Kafka and Elasticsearch start with
# 7 s instead of 11.
LATER_COMPILED = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
)
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
        *LATER_COMPILED,
        f"-XX:ErrorFile={home / 'logs' / f'{name}-crash-%p.log'}",
        f"-Djava.io.tmpdir={scratch}",
        "-Djava.awt.headless=true",
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",  # Kafka and netty still use it; four lines of warning each start
        f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}",
        "-Dlog4j2.disable.jmx=true",
        f"-Dkappa.log={log}",
    ]
