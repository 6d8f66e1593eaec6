"""Every use of a part of Spark that is not its public API.

Tested with the Spark of `TESTED_WITH`; `tests/unit/test_spark_internals.py` fails with another one, and where another module
uses a private attribute of Spark. After an upgrade: run `make test` and `make bench`, read each function's "Without it", then
set `TESTED_WITH`.

    private part of Spark                        used for                                  without it
    environment of a context's functions         `own_workers`                             a model is loaded again for every batch
    JVM side of a listener                       `ProgressListener`                        17 % of a core at three batches a second
    Java API of sessions and DataFrames          `register_functions`, `map_partitions`    records are parsed by SQL expressions
    Java API of columns                          `aggregate_bytes`                         each series is a row of its own state
    objects of the JVM                           `java_array`, `java_object`               the same
    its connection to the JVM                    `has_jvm`                                 secrets stand on the command line
    layout of Spark's home                       `home_without_archive`                    Python workers start in 1.2 s, not 0.3
    file system of checkpoints                   `undocumented_options`                    60 ms for each of a batch's six files
    cache of generated classes                   `undocumented_options`                    classes are compiled for every batch
    optimizer of a session                       `optimize`                                a long plan takes twice as long in each batch
    expressions, and functions of connectors     `precompile`                              every batch plans all that readers are made of
    debugging of expressions                     `undocumented_options`                    13,000 calls to the JVM for a plan
    where state readers report to                `prepare_state_reader`                    state cannot be read in a new session
    metrics of a batch that is being written     `dropped_by_watermark`                    a crash may hide that the watermark dropped rows
    how Kafka's bytes become Spark's             `ByteArrayDeserializer.java`              a record of 250 MB ends the JVM
    how Kafka reads a record's headers           `DefaultRecord.java`                      one of a hundred million empty headers does
    its own copy of protobuf's reader            `OtlpText.java`                           a reader of the wire format of our own
    where a poll of Kafka's consumer ends        `ConsumerInterceptors.java`               250 records of 1 MB in a small batch do
    manager of a session's streaming queries     `GatedQueries.java`, `use_gate`           a batch begins each second, with nothing to do
    clock of a streaming query                   `Gate.java`, `use_gate`                   the same
    how the JVM ended                            `was_killed`                              a kill from outside costs a search for a bad record
    status of running stages                     `active_stage_progress`                   a long batch looks like one that hangs
    text of an error                             `strip_plan`                              50 kB of plan are logged with each that ends a job
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar

import pyspark
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType, StructType

TESTED_WITH = "4.2.1"
PLAN = "\nLogical Plan:\n"  # what stands before it in the text of an error that has ended a query

# SQL name -> class in the package `kappa`, type of its answer, arguments of its constructor
Functions = Mapping[str, tuple[str, DataType, tuple[Any, ...]]]

_environment = threading.Lock()


def undocumented_options() -> dict[str, str]:
    """Options that Spark does not document.

    Without the file system, Hadoop starts a process for each change of a file's rights and each rename (60 ms a file). The
    default cache of 100 generated classes is smaller than what a batch uses, so all are compiled every time. Recording where
    in Python an expression was made costs two more calls to the JVM for each of thousands of expressions.
    """
    return {
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "kappa.LocalFiles",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


def has_jvm() -> bool:
    """Whether Spark's JVM runs already: options on its command line come too late, and are given over its connection."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def home_without_archive(folder: Path) -> Path:
    """A home of Spark that has no archive of its Python modules, so that workers import those that are installed.

    Without it every worker compiles the modules of the archive at each start, which takes 1.2 s instead of 0.3; a job whose
    worker has not started after ten seconds, on a busy machine, has failed.

    Parameters
    ----------
    folder
        Where to make it; it may be in use by another process.

    Returns
    -------
    Path
        The same folder, for the environment variable `SPARK_HOME`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        link = folder / f"{name}.{token_hex(8)}"
        link.symlink_to(Path(pyspark.__file__).with_name(name))
        link.replace(folder / name)  # another process may be using it
    return folder


def register_functions(spark: SparkSession, functions: Functions, changing: Mapping[str, str]) -> None:
    """Register our classes in the JVM under SQL names. Those of `changing`, by name, make functions that Spark calls once for each row.

    Uses the Java API of the session: the Python one wants a class with generics, which the compiler of our classes leaves
    out. Without it, records are parsed and written by Spark's SQL functions (decision 10 has figures).
    """
    java: Any = spark._jsparkSession
    for name, (kind, answer, arguments) in functions.items():
        java.udf().register(name, java_object(spark, kind, *arguments), java.parseDataType(answer.json()))
    for name, kind in changing.items():
        java.udf().register(name, java_object(spark, kind).function())


def aggregate_bytes(frame: DataFrame, column: str, kind: str, *arguments: Any) -> Column:
    """One array of bytes of many in a column, by a class of ours. PySpark has no function that takes an aggregator with arguments.

    Parameters
    ----------
    frame
        Whose column it is.
    column
        Its name.
    kind
        A class in the package `kappa` that is an `Aggregator` of arrays of bytes.
    *arguments
        Of its constructor.

    Returns
    -------
    Column
        What the class makes of a group.
    """
    spark, sql = frame.sparkSession, jvm_of(frame.sparkSession).org.apache.spark.sql
    function = sql.functions.udaf(java_object(spark, kind, *arguments), sql.Encoders.BINARY())
    return Column(function.apply(java_array(spark, "org.apache.spark.sql.Column", [frame._jdf.col(column)])))


def map_partitions(
    frame: DataFrame, schema: StructType, kind: str, *arguments: Any, record: str | None = None
) -> DataFrame:
    """Rows through a class of ours, a partition at a time. PySpark has such a call for functions in Python only.

    Parameters
    ----------
    frame
        The rows.
    schema
        Of the result.
    kind
        A class in the package `kappa` that implements `MapPartitionsFunction`.
    *arguments
        Of its constructor.
    record
        A class in the package `kappa` with properties named like columns, of which the function gets objects instead of rows.

    Returns
    -------
    DataFrame
        The rows that the class makes of each partition.
    """
    java: Any = frame.sparkSession
    encoders = java._jvm.org.apache.spark.sql.Encoders
    rows = encoders.row(java._jsparkSession.parseDataType(schema.json()))
    read = frame._jdf
    if record is not None:
        read = getattr(read, "as")(encoders.bean(java_object(frame.sparkSession, record).getClass()))
    mapping = java_object(frame.sparkSession, kind, *arguments)
    return DataFrame(read.mapPartitions(mapping, rows), frame.sparkSession)


def optimize(frame: DataFrame) -> DataFrame:
    """The same rows with their plan optimized once, which halves the time that Spark needs to plan each batch of a stream with a long plan.

    For every batch Spark applies its optimizer's rules until none changes the plan; of an optimized plan they change nothing.
    Raises ValueError for a plan with the current time, such as `current_timestamp`: every batch would have the time of this call.
    """
    java, sql = frame.sparkSession._jsparkSession, jvm_of(frame.sparkSession).org.apache.spark.sql
    plan = frame._jdf.queryExecution().analyzed()
    if plan.containsPattern(sql.catalyst.trees.TreePattern.CURRENT_LIKE()):
        msg = "a plan asks for the current time; wanted one that says the same whenever it runs"
        raise ValueError(msg)
    optimizer = java.sessionState().optimizer()
    return DataFrame(sql.classic.Dataset.ofRows(java, optimizer.execute(plan.clone())), frame.sparkSession)


def precompile(spark: SparkSession, column: Column, inputs: StructType) -> Column:
    """The same column as one opaque function of the columns `inputs`, optimized once and sent to tasks as an array of bytes.

    Without it every rule of Spark's planner traverses a large expression for every batch, and every task deserializes it. The function is
    interpreted, as Spark does with higher-order functions: no code is generated for it.

    Parameters
    ----------
    spark
        A session, whose time zone and other options it has from now on.
    column
        An expression of `inputs`, the same whenever it is evaluated.
    inputs
        Columns that are there, by name and type, where the answer is used.

    Returns
    -------
    Column
        With the same values.
    """
    java, jvm = spark._jsparkSession, jvm_of(spark)
    catalyst, classic = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.classic
    context: Any = spark.sparkContext
    nothing = java.createDataFrame(context._jsc.emptyRDD(), java.parseDataType(inputs.json()))
    plan = optimize(DataFrame(nothing, spark).select(column))._jdf.queryExecution().analyzed()
    attributes = plan.child().output()
    by_place = getattr(catalyst, "package$AttributeSeq")(attributes)
    body = catalyst.BindReferences.bindReference(plan.projectList().head().child(), by_place, False)
    types = [attributes.apply(place).dataType() for place in range(len(inputs))]
    function = java_object(
        spark, "PreparedExpression", body, java_array(spark, "org.apache.spark.sql.types.DataType", types)
    )
    columns = [classic.ExpressionUtils.expression(F.col(f"`{name}`")._jc) for name in inputs.names]
    applied = catalyst.ApplyFunctionExpression(function, jvm.PythonUtils.toSeq(columns))
    return Column(classic.ExpressionUtils.column(applied))


def jvm_of(spark: SparkSession) -> Any:
    """Spark's JVM: packages and classes by their names."""
    return spark._jvm


def is_session_alive(spark: SparkSession) -> bool:
    """Whether the session's JVM answers and its context has not been stopped. Without it, a dead JVM would look like a failed query."""
    try:
        return not jvm_of(spark).org.apache.spark.SparkContext.getOrCreate().isStopped()
    except Exception:  # py4j raises whatever its socket does
        return False


def java_object(spark: SparkSession, kind: str, *arguments: Any) -> Any:
    """An object of a class in the package `kappa`."""
    return getattr(jvm_of(spark).kappa, kind)(*arguments)


def java_array(spark: SparkSession, kind: str, values: Sequence[Any]) -> Any:
    """An array in the JVM, of a primitive type or of a class with this name."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(getattr(gateway.jvm, kind), len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


@contextmanager
def own_workers(spark: SparkSession, job: str) -> Iterator[None]:
    """Give Python functions that are defined in the block a worker of their own for each partition.

    What a worker keeps in memory is there for the partition's next task. PySpark has no argument for it: it takes the environment of a
    function's workers from the context. Without it, the models of a shard are loaded for every batch.

    Parameters
    ----------
    spark
        A session.
    job
        The workers' names begin with it.
    """
    context: Any = spark.sparkContext
    with _environment:
        before = context.environment
        context.environment = java_object(spark, "OwnWorkers", before, job)
        try:
            yield
        finally:
            context.environment = before


def prepare_gates(spark: SparkSession) -> None:
    """Let queries of the session have gates. Call it before listeners are added: those that were there before get no events.

    Spark takes another clock for the triggers of a query from its own tests alone. Without it a batch begins at each multiple of an interval, and
    costs 0.3 to 0.5 s of a core though it closes no window.
    """
    jvm_of(spark).kappa.GatedQueries.of(spark._jsparkSession)


@contextmanager
def use_gate(spark: SparkSession, gate: Any) -> Iterator[None]:
    """Let the query that is started in the block begin its batches when `gate` opens.

    Parameters
    ----------
    spark
        A session.
    gate
        A `kappa.Gate` of its JVM. Spark looks at it only where the trigger is an interval above 0.
    """
    queries = jvm_of(spark).kappa.GatedQueries.of(spark._jsparkSession)
    queries.setClock(gate)
    try:
        yield
    finally:
        queries.setClock(None)


def strip_plan(error: StreamingQueryException) -> StreamingQueryException:
    """The same error without the query's plan, which Spark appends to its text: for `extract` 50 kB, twice in the log at each restart."""
    error._desc = str(error._desc).partition(PLAN)[0].rstrip()  # type: ignore[attr-defined]
    return error


def progress_of(query: StreamingQuery) -> Any:
    """A `kappa.QueryProgress` of a running query: how far it has read, and the watermark of its next batch."""
    running: Any = query._jsq
    return SparkContext._jvm.kappa.QueryProgress(running.streamingQuery())  # type: ignore[union-attr]


class ProgressListener(StreamingQueryListener):
    """A listener that takes the text of the JVM's own events; subclasses override `query_started`, `query_progress`, `query_idle`.

    Without it PySpark makes Python objects of all that is in an event, at the cost of an exception and a search through every
    jar for each map in it: 17 % of a core at three batches a second.
    """

    class Java:
        """Tells py4j which interface this is."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

    def query_started(self, query: str, name: str) -> None:
        """A query has started. `query` is its id."""

    def query_progress(self, progress: Mapping[str, Any]) -> None:
        """A batch has ended. `progress` is as in `StreamingQuery.lastProgress`."""

    def query_idle(self, query: str) -> None:
        """A query with this id has found no data."""

    @cached_property
    def _jlistener(self) -> Any:  # what PySpark hands to the JVM
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(self)  # type: ignore[union-attr]

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Spark's name."""
        self.query_started(event.id().toString(), event.name() or "?")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Spark's name."""
        self.query_progress(json.loads(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Spark's name."""
        self.query_idle(event.id().toString())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Spark's name."""


def prepare_state_reader(spark: SparkSession) -> None:
    """Let the session read states of streaming queries.

    Spark creates what state stores report to when queries are first looked at. Without it, a new session that has started no
    query fails when it reads a state.
    """
    _ = spark.streams


def was_killed(patience_seconds: float = 5.0) -> bool:
    """Whether a signal from outside has ended Spark's JVM, which this process started. Without memory it ends itself, with a code."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        return process.wait(patience_seconds) in (-signal.SIGKILL, -signal.SIGTERM)
    return False


def active_stage_progress(spark: SparkSession) -> dict[str, tuple[int, ...]]:
    """How far the running stages of each streaming query are, by the query's name.

    Returns
    -------
    dict of tuple of int
        For each stage: its id, the tasks that have ended, the records that these have read, exchanged and written, and how often its tasks
        have polled records of Kafka, or made another 10,000 rows. Only the last number grows while a task runs: Spark's own counts of a running
        task stay 0. Executors of a cluster count in their own JVMs, so there it is 0. A query without a running stage has no entry.
        Without it, a batch that takes long looks like one that hangs.
    """
    context: Any = spark.sparkContext._jsc.sc()
    stages = context.statusStore().activeStages()
    found: dict[str, tuple[int, ...]] = {}
    for number in range(stages.size()):
        stage = stages.apply(number)
        description = stage.description()
        if description.isDefined():
            name = query_name(description.get())
            done = (
                *(stage.stageId(), stage.numCompleteTasks(), stage.inputRecords()),
                *(stage.shuffleReadRecords(), stage.shuffleWriteRecords(), stage.outputRecords()),
                jvm_of(spark).kappa.TaskProgress.ofStage(stage.stageId()),
            )
            found[name] = found.get(name, ()) + done
    return found


def query_name(description: str) -> str:
    """The name of a streaming query from the description of a Spark job: its first line, which ends with `<br/>` or a line break."""
    return description.replace("<br/>", "\n").partition("\n")[0]


def dropped_by_watermark(spark: SparkSession, query: str) -> int:
    """Rows that the watermark has dropped in the batch that a streaming query is writing now; 0 if there is no such query.

    Without it, they are known only from the report of a committed batch: a crash between commit and report would hide them.
    """
    java: Any = spark._jsparkSession
    for running in java.streams().active():
        if running.name() == query:
            plan = running.streamingQuery().lastExecution().executedPlan()
            return int(jvm_of(spark).kappa.DroppedRows.of(plan))
    return 0
