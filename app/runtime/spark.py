"""The one Spark session of a process."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from pyspark.sql import SparkSession

from app import PORTABLE_NUMPY
from app.core import private_files
from app.core.allowance import cores
from app.core.errors import SettingsError
from app.core.report import Report, silent
from app.core.secrets import SECRET_NAMES
from app.core.settings import PROJECT, Settings
from app.embedded.jars import ensure_jars
from app.embedded.java import spark_java_home
from app.embedded.java_compiler import ensure_compiled
from app.embedded.server_options import LATER_COMPILED
from app.kafka.connection import java_properties
from app.runtime import scratch
from app.supervision import processes
from pipelines import spark_internals
from pipelines.jvm import CHANGING, functions

LEAST_TASKS = 6
TASK_TRIES = 4  # as Spark has it on a cluster
ROCKSDB_MIB = 512  # of native memory
# Of glibc, in processes with RocksDB. Its memtables are allocated in blocks of 1 MiB, by whichever thread writes. As part of a heap, of
# which glibc has many, such blocks are neither returned when they are freed nor used by threads of another heap; mapped on their own they are.
NATIVE_MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
LOCAL_DIR = "spark.local.dir"
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
# What is larger than half of a region is laid by the collector into regions of its own, and each such starts a look over the whole heap. A region
# has 1 MiB by default in a heap of 2 GiB, and what is read of Kafka and written of a shard's state is larger.
REGIONS = "-XX:G1HeapRegionSize=8m"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(settings: Settings, name: str = "kappa", report: Report = silent) -> SparkSession:
    """Start Spark, or return the session that this process has already.

    Parameters
    ----------
    settings
        `spark` has master, memory and further options; jars and logs lie in `home`.
    name
        The application's name, in Spark's own logs and on a cluster.
    report
        Gets a line for each step that takes long, such as fetching jars.

    Returns
    -------
    SparkSession
        With the SQL functions of `pipelines.jvm`.

    Raises
    ------
    StackError
        A jar or a Java runtime is missing and cannot be fetched.
    """
    private_files.tighten(settings.home)
    configured = configuration(settings, report)
    own_files = scratch.folder_of_process(settings.home)
    if is_local(settings) and LOCAL_DIR not in settings.spark.extra:
        configured[LOCAL_DIR] = str(own_files)
    os.environ["JAVA_HOME"] = str(spark_java_home(settings.home))
    # Python workers are started by the JVM: they must be this Python, not the first on the PATH.
    processes.leave_out_working_directory()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    for key, value in NATIVE_MEMORY.items():
        os.environ.setdefault(key, value)
    # Spark binds to the host's name, which need not resolve; without a cluster, loopback is enough.
    if is_local(settings):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_HOME", str(spark_internals.home_without_archive(settings.home / "spark-home")))
    builder = SparkSession.builder.appName(name)
    interrupt = signal.getsignal(signal.SIGINT)
    with stderr_into(settings.home / "logs" / "spark.log"), given_by_file(own_files, configured) as given:
        for key, value in () if given else configured.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    # Spark's context puts its own handler in place, which would break off the batch in hand.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    spark.sparkContext.setLogLevel("ERROR")
    spark_internals.register_functions(spark, functions(), CHANGING)
    return spark


def configuration(settings: Settings, report: Report = silent) -> dict[str, str]:
    """Spark's whole configuration, `spark.extra` last. Missing jars are fetched, and ours compiled, first."""
    ensure_jars(settings.jars, report)
    own = ensure_compiled(settings.jars, report)
    elsewhere = {} if is_local(settings) else on_a_cluster() | between_machines(settings)
    extra, needed = settings.spark.extra, java_properties(settings)
    joined = {name: " ".join([extra[name], *needed]) for name in JAVA_OPTIONS if name in extra}
    return {"spark.master": master_of(settings)} | options(settings, own) | elsewhere | extra | joined


def properties(options: Mapping[str, str]) -> str:
    """Options as a file of Java's properties: a backslash is doubled, and a line is one option."""
    lines = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in options.items()}
    return "".join(f"{key}={value}\n" for key, value in sorted(lines.items()))


@contextmanager
def given_by_file(folder: Path, configured: Mapping[str, str]) -> Iterator[bool]:
    """Give a JVM that starts inside the block its options by a file that only we can read, which is gone after it.

    PySpark gives them on the command line, which everybody sees, and some are secrets. Yields whether a JVM will start; one
    that runs already gets them over its own connection.
    """
    if spark_internals.has_jvm():
        yield False
        return
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with NamedTemporaryFile("w", dir=folder, prefix="submit-", suffix=".conf", encoding="utf-8") as file:
        file.write(properties(configured))
        file.flush()
        own = f"--load-spark-defaults --properties-file {shlex.quote(file.name)} {before or 'pyspark-shell'}"
        os.environ["PYSPARK_SUBMIT_ARGS"] = own
        try:
            yield True
        finally:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
            if before is not None:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before


def between_machines(settings: Settings) -> dict[str, str]:
    """Options by which the processes of a cluster know each other, and encrypt what they send and what they spill.

    Raises SettingsError where a standalone cluster has no secret, and where `spark.extra` switches any of it off.
    """
    own = settings.spark
    wanted = {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
    }
    off = sorted(name for name, value in wanted.items() if own.extra.get(name, value).lower() != value)
    if off:
        msg = f"settings: spark.extra: {off[0]} is {own.extra[off[0]]}, wanted {wanted[off[0]]} outside local: leave it out"
        raise SettingsError(msg)
    if own.secret:
        wanted["spark.authenticate.secret"] = own.secret.get_secret_value()
    elif own.master.startswith("spark://") and "spark.authenticate.secret" not in own.extra:
        msg = (
            "settings: spark.secret is not set, and spark.master is a standalone cluster: set KAPPA_SPARK__SECRET to what its master "
            "and workers have as spark.authenticate.secret (docs/cluster.md)"
        )
        raise SettingsError(msg)
    return wanted


def is_local(settings: Settings) -> bool:
    """Whether all of Spark is in this process."""
    return settings.spark.master.startswith("local")


def on_a_cluster() -> dict[str, str]:
    """Options for executors on other machines, which get the jars from the driver."""
    return {
        # Python workers import the jobs' modules: on each machine from the same folder as here.
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        f"spark.executorEnv.{PORTABLE_NUMPY[0]}": PORTABLE_NUMPY[1],
        **{f"spark.executorEnv.{key}": value for key, value in NATIVE_MEMORY.items()},
        # Hadoop loads the class of a file system in threads of executors whose class loaders may not have the jars of the driver.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
    }


@contextmanager
def own_session(settings: Settings, name: str, report: Report = silent) -> Iterator[SparkSession]:
    """A session inside the block; it is stopped at the end, unless this process had one before."""
    before = SparkSession.getActiveSession()
    spark = session(settings, name, report)
    try:
        yield spark
    finally:
        if before is None:
            spark.stop()


@contextmanager
def stderr_into(file: Path) -> Iterator[None]:
    """Redirect the stderr of processes that are started inside the block: Spark's JVM and, through it, Python workers.

    Both write a banner to stderr whatever the log level, between the lines of the command.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    own = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)


def options(settings: Settings, own: Path) -> dict[str, str]:
    """Spark's options, with the reason where it is not obvious. `own` is the jar of our classes."""
    # Ours first: one of its classes takes the place of one of Kafka's.
    jars = [str(own), *sorted(str(p) for p in (settings.jars / "spark").glob("*.jar"))]
    own_files = settings.home / "spark"
    return {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": settings.spark.driver_memory,
        **parallelism(settings),
        # A JVM without memory would go on without the threads that wanted some; its process is started again instead. Its own
        # messages, such as the stacks that SIGQUIT asks for, go to the log.
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dlog4j2.configurationFile={log_configuration().as_uri()}",
                "-XX:+ExitOnOutOfMemoryError",
                "-XX:+DisplayVMOutputToStderr",
                *LATER_COMPILED,
                REGIONS,
                *java_properties(settings),
            ]
        ),
        **(
            {"spark.executor.extraJavaOptions": " ".join(java_properties(settings))}
            if java_properties(settings)
            else {}
        ),
        # What Spark shows of its options and of a query's.
        "spark.redaction.regex": SECRET_NAMES,
        "spark.sql.redaction.options.regex": SECRET_NAMES,
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        LOCAL_DIR: str(own_files),
        "spark.sql.warehouse.dir": str(own_files / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        # One bad record must not stop the job: a failed cast gives null, and null a reason for the dead letter.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.shuffle.partitions": str(settings.spark.shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "false",
        # All stores of a process share it; without a bound each has two write buffers of its own, whatever the heap is.
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": str(ROCKSDB_MIB),
        # Each window overwrites the same values: a larger buffer merges them before they are written.
        "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "256",
        # Counting rows costs a read for each one that is written.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        # Blocks of sums, of up to 11 MB in a flood: so many are in memory at once. More are sorted first, on disk if need be.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "8",
        # What is sorted or kept goes to disk earlier than by default: the blocks at hand, and what Spark makes of them, need room beside it.
        "spark.memory.fraction": "0.3",
        # A hundred of these are in memory as they are written and read, of names of 2,048 bytes too.
        "spark.sql.inMemoryColumnarStorage.batchSize": "1000",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        # Rows of packed records are up to 256 KiB: a batch of these is bounded by bytes.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
        # Batches are small: planning again after each shuffle costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        # A worker keeps the models of the shards that it has processed.
        "spark.python.worker.reuse": "true",
        **spark_internals.undocumented_options(),
    }


def master_of(settings: Settings) -> str:
    """Spark's master. `local[*]` is a task slot for each core that we may use, and at least `LEAST_TASKS`; a task is tried `TASK_TRIES` times.

    Tasks of four jobs run at the same time, and many of them wait: for Python, for Elasticsearch, for a commit. With two
    slots on two cores, jobs waited for one another. Without a number of tries a task in one process is tried once: a Python worker
    that is killed would end all jobs, and cost a start of the JVM.
    """
    own = settings.spark.master
    slots = f"local[{max(LEAST_TASKS, cores())}]" if own == "local[*]" else own
    one_try = re.fullmatch(r"local(?:\[(\d+)\])?", slots)
    return slots if one_try is None else f"local[{one_try[1] or 1},{TASK_TRIES}]"


def parallelism(settings: Settings) -> dict[str, str]:
    """The default parallelism: tasks of a bounded run do not wait, so one for each core."""
    return {"spark.default.parallelism": str(cores())} if settings.spark.master == "local[*]" else {}


def log_configuration() -> Path:
    return Path(__file__).with_name("log4j2.properties")
