"""Records of the log as documents for Elasticsearch: fields of the Elastic Common Schema, and our own under `novelty`.

Everything is built in the JVM. Ids come from the records alone, so that a repeated record becomes the same document:

    kind        index                               id                                       version
    scores      scores-VERSION-date of the window   hash of version, series, window, kind    none: written once
    novelties   novelties-VERSION-date of start     the novelty's                            the last window and status
    incidents   incidents-VERSION-date of start     the incident's                           the last window and status
    pipeline    pipeline-VERSION-date of append     source position of the refused record    none: written once
    labels      labels-month of append              where and when it was appended           none: written once
    deliveries  deliveries-month of delivery        hash of channel, incident and what       the time
                                                    was sent
    early       early-month of the record's event       the alarm's                              whether it is settled

Labels, deliveries and early alarms are shared by all versions, as their topics are: whichever version's job writes one, it is the same document.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.records.index_names import DELIVERIES, EARLY, LABELS, PREFIX, SHARED, alias_of
from models.records.records import (
    EARLY_STATUSES,
    LETTER_BYTES,
    RAISED,
    DeliveriesUntil,
    Delivery,
    EarlyAlarm,
    EpisodeEvent,
    HeldAlarms,
    IncidentEvent,
    Label,
    Score,
    WatermarkMessage,
)
from models.records.schema import fields_of, spark_ddl, spark_type
from pipelines.inputs import labels
from pipelines.inputs.fields import record_text, unquote
from pipelines.letters import MOST_BYTES

# The release of the Elastic Common Schema whose fields these are.
ECS_VERSION = "9.4.0"
OURS = "kappa"  # the module, the observer and the set of rules of every alert
DATASETS = ("scores", "novelties", "incidents", "late", "dead-letters", *SHARED)
SAMPLE_CHARACTERS = 512
ID = "^[0-9a-f]{1,64}$"
MOST_HEADER = 4_096  # bytes: a reason of 1,000 characters
LAST_MS = 7_258_118_399_999  # before 2200-01-01, as of events
STATUSES = 8  # a power of two above the number of statuses: versions are window * 8 + status

# All records that become documents in one schema. `series` comes as text: in an incident it is the JSON of an array.
RECORD = spark_ddl(Score, EpisodeEvent, IncidentEvent)
WANTED = {"scores": Score.KIND, "novelties": EpisodeEvent.KIND, "incidents": IncidentEvent.KIND}
LABEL = spark_ddl(Label)
DELIVERY = spark_ddl(Delivery)
ALARM = spark_ddl(EarlyAlarm)
CONTRIBUTIONS = spark_type(fields_of(IncidentEvent)["series"].type)
ALARM_FIELDS = (
    *("version", "status", "series", "window_end", "value", "lower", "upper", "typical", "chance", "bound_window_end"),
    *("template", "incident", "seconds_won", "settled_at"),
)
INCIDENT_FIELDS = (
    *("novelties", "scope", "affected", "population", "share", "false_alarms_per_day", "episodes", "episodes_omitted"),
    "severity",
)


def documents(raw: DataFrame, version: str, topics: Mapping[str, str], scores_since: int | None = None) -> DataFrame:
    """Documents of records as Kafka gives them, headers included; `topics` says how each kind's topic is called.

    Scores of windows that end before `scores_since`, epoch milliseconds, are left out.

    Answers `index, id, version, document, problem` and where the record is: `topic, partition, offset, timestamp`. `version` is null
    for what is written once; `problem` says why a record is no document. Watermark messages are left out, positions among
    deliveries, what was held back among early alarms, heartbeats among labels, and what is no label: `extract` reads it too, and makes it
    a dead letter.
    """
    dataset, value = F.col("dataset"), F.col("value").cast("string")
    if scores_since is not None:
        # By the text alone, before anything is parsed. One without a window is no score, and is reported as none.
        end = F.nullif(F.regexp_extract(value, r'"window_end":\s*(\d+)', 1), F.lit("")).cast("long")
        raw = raw.where((F.col("topic") != topics["scores"]) | F.coalesce(end >= scores_since, F.lit(True)))
    is_label, is_delivery, is_alarm = dataset == LABELS, dataset == DELIVERIES, dataset == EARLY
    is_record = ~dataset.isin("late", "dead-letters", *SHARED)
    parsed = raw.withColumn("dataset", dataset_of(topics)).select(
        "dataset",
        F.when(dataset.isin(*SHARED) | is_record, dataset).otherwise(F.lit("pipeline")).alias("kind"),
        F.when(is_record, F.from_json(value, RECORD)).alias("r"),
        # As `extract` reads it, so that both take the same for labels.
        F.when(is_label, F.from_json(record_text(F.col("value"))["json"], LABEL)).alias("l"),
        F.when(is_delivery, F.from_json(value, DELIVERY)).alias("d"),
        F.when(is_alarm, F.from_json(value, ALARM)).alias("e"),
        *["topic", "partition", "offset", "timestamp", "key", "value", "headers"],
    )
    # Spark filters before it parses, by parsing twice: only where there can be watermark messages, heartbeats or no labels. A
    # heartbeat is known by what it says, as in `extract`, and not by its key, which a label may have as well.
    is_watermark = (dataset == "novelties") & of("record").eqNullSafe(WatermarkMessage.KIND)
    is_none = is_label & labels.label_problem(F.col("l"), F.col("value")).isNotNull()
    is_position = is_delivery & F.col("d.record").eqNullSafe(DeliveriesUntil.KIND)
    is_held = is_alarm & F.col("e.record").eqNullSafe(HeldAlarms.KIND)
    return parsed.where(~is_watermark & ~is_none & ~is_position & ~is_held).select(
        index_of(version).alias("index"),
        id_of(version).alias("id"),
        version_of().alias("version"),
        document_of(version).alias("document"),
        F.when(~is_sound(), F.lit("not a record of this topic")).alias("problem"),
        "topic",
        "partition",
        "offset",
        "timestamp",
    )


def newest(found: DataFrame) -> DataFrame:
    """Of the documents with one id, the newest."""
    version = F.coalesce("version", F.lit(0))
    return found.groupBy("id", "index").agg(F.max_by(F.struct(*found.columns), version).alias("d")).select("d.*")


def of(name: str) -> Column:
    """A field of the parsed record."""
    return F.col(f"r.{name}")


def dataset_of(topics: Mapping[str, str]) -> Column:
    """What a record is, by its topic."""
    found = F.lit(None).cast("string")
    for name in DATASETS:
        found = F.when(F.col("topic") == topics[name], F.lit(name)).otherwise(found)
    return found


def is_sound() -> Column:
    """Whether the record has what its id and its index need."""
    kind = F.col("kind")
    wanted = F.create_map(*(F.lit(text) for pair in WANTED.items() for text in pair))[kind]
    return (
        kind.isin("pipeline", LABELS)
        | (
            (of("record") == wanted)
            & within_range(of("window_end"))
            & of("series").isNotNull()
            & (F.octet_length("value") <= MOST_BYTES)
            & ((kind == "scores") | (of("id").rlike(ID) & within_range(of("start"))))
        )
        | (
            (F.col("d.record") == Delivery.KIND)
            & within_range(F.col("d.at"))
            & F.col("d.channel").isNotNull()
            & F.col("d.incident").isNotNull()
            & (F.octet_length("value") <= MOST_BYTES)
        )
        | (
            (F.col("e.record") == EarlyAlarm.KIND)
            & within_range(F.col("e.window_end"))
            & within_range(F.col("e.event_time"))
            & F.col("e.id").rlike(ID)
            & F.col("e.series").isNotNull()
            & F.col("e.status").isin(*EARLY_STATUSES)
            & (F.octet_length("value") <= MOST_BYTES)
        )
    ).eqNullSafe(True)


def within_range(millis: Column) -> Column:
    """Whether a time is one that events have: 1970 to 2200, epoch milliseconds."""
    return millis.between(F.lit(0), F.lit(LAST_MS))


def event_time() -> Column:
    """The time that a document stands under, epoch milliseconds: it never changes for an id."""
    kind = F.col("kind")
    at_append = kind.isin("pipeline", LABELS)
    found = F.when(kind == "scores", of("window_end")).when(at_append, append_time())
    found = found.when(kind == DELIVERIES, F.col("d.at")).when(kind == EARLY, F.col("e.event_time"))
    found = found.otherwise(of("start"))
    # What is no document has no date, and may say anything.
    return F.when(is_sound(), found).otherwise(F.unix_millis("timestamp"))


def index_of(version: str) -> Column:
    """The index: kind, version, date of the event; of what versions share, which is little, the month alone."""
    at = F.timestamp_millis(event_time())
    own = F.concat(F.lit(PREFIX), F.col("kind"), F.lit(f"-{version}-"), F.date_format(at, "yyyy.MM.dd"))
    for kind in SHARED:
        own = F.when(F.col("kind") == kind, F.date_format(at, f"'{alias_of(kind)}'-yyyy.MM")).otherwise(own)
    return own


def id_of(version: str) -> Column:
    """The document's id; for what is no document, that of its record."""
    kind = F.col("kind")
    score = digest(F.lit(version), of("series"), of("window_end"), of("kind"))
    own = digest(F.col("topic"), F.col("partition"), F.col("offset"))
    # Its topic may have been made again since: then another label has its offset.
    label = digest(F.col("topic"), F.col("partition"), F.col("offset"), append_time())
    delivery = digest(*(F.col(f"d.{name}") for name in ("channel", "incident", "status", "severity")))
    return (
        F.when(~is_sound(), own)
        .when(kind == DELIVERIES, delivery)
        .when(kind == EARLY, F.col("e.id"))
        .when(kind == "scores", score)
        .when(kind == "pipeline", digest(F.col("dataset"), *source_position(), without_offset()))
        .when(kind == LABELS, label)
        .otherwise(of("id"))
    )


def digest(*parts: Column) -> Column:
    """96 bits of a hash, as hex. A separator keeps `ab, c` and `a, bc` apart."""
    return F.substring(F.sha2(F.concat_ws("\x1f", *parts), 256), 1, 24)


def version_of() -> Column:
    """Grows with what is known: an older event that comes again never replaces a newer one."""
    status = F.when(of("status") == "open", 0).when(of("status") == "update", 1).otherwise(2)
    found = F.when(F.col("kind").isin("novelties", "incidents"), of("window_end") * STATUSES + status)
    settled = F.when(F.col("e.status") == RAISED, 1).otherwise(2)
    return found.when(F.col("kind") == DELIVERIES, F.col("d.at")).when(F.col("kind") == EARLY, settled)


def document_of(version: str) -> Column:
    """The document, as JSON without the fields that are null; of what is no document, the record as text."""
    kind, value = F.col("kind"), F.coalesce("value", F.lit("").cast("binary"))
    return (
        F.when(~is_sound(), F.make_valid_utf8(F.substring(value, 1, LETTER_BYTES).cast("string")))
        .when(kind == "scores", F.to_json(score_document(version)))
        .when(kind == "novelties", F.to_json(novelty_document(version)))
        .when(kind == "incidents", F.to_json(incident_document(version)))
        .when(kind == LABELS, F.to_json(label_document()))
        .when(kind == DELIVERIES, F.to_json(delivery_document()))
        .when(kind == EARLY, F.to_json(alarm_document()))
        .otherwise(F.to_json(pipeline_document(version)))
    )


def score_document(version: str) -> Column:
    """What a series scored in a window."""
    return F.struct(
        date(of("window_end")).alias("@timestamp"),
        ecs(),
        F.struct(F.lit("metric").alias("kind"), F.lit("kappa.scores").alias("dataset")).alias("event"),
        named(part(2)).alias("host"),
        named(part(3)).alias("service"),
        F.struct(
            F.lit(version).alias("version"),
            of("series").alias("series"),
            of("kind").alias("kind"),
            finite(of("score")).alias("score"),
            *expectation(),
            F.when(part(1).isin("gauge", "counter"), part(4)).alias("metric"),
            filled(of("template")).alias("template"),
        ).alias("novelty"),
    )


def novelty_document(version: str) -> Column:
    """What is known of an episode."""
    end = F.when(of("status") == "close", date(of("window_end")))
    return F.struct(
        date(of("start")).alias("@timestamp"),
        ecs(),
        alert("kappa.novelties", end, F.floor(finite(of("score")))).alias("event"),
        rule(F.concat_ws("/", of("kind"), filled(of("part"))), F.coalesce(filled(of("part")), of("kind"))),
        observer(),
        named(of("host")).alias("host"),
        named(of("service")).alias("service"),
        F.when(filled(of("level")).isNotNull(), F.struct(of("level").alias("level"))).alias("log"),
        of("reason").alias("message"),
        F.array_compact(F.array(of("kind"))).alias("tags"),
        F.struct(
            *event_fields(version),
            of("series").alias("series"),
            finite(of("evidence")).alias("evidence"),
            *expectation(),
            *explanation(),
            filled(of("unit")).alias("unit"),
            filled(of("metric")).alias("metric"),
            filled(of("template")).alias("template"),
            filled(of("sample")).alias("sample"),
        ).alias("novelty"),
    )


def incident_document(version: str) -> Column:
    """What is known of an incident."""
    return F.struct(
        date(of("start")).alias("@timestamp"),
        ecs(),
        alert("kappa.incidents", date(of("end")), of("severity_points")).alias("event"),
        rule(of("kind"), of("kind")),
        observer(),
        all_named(of("hosts")).alias("host"),
        all_named(of("services")).alias("service"),
        of("reason").alias("message"),
        F.array_compact(F.array(of("kind"), of("severity"), of("scope"))).alias("tags"),
        F.struct(
            *event_fields(version),
            *(of(name).alias(name) for name in INCIDENT_FIELDS),
            of("templates").alias("template"),
            F.from_json(of("series"), CONTRIBUTIONS).alias("contributions"),
            F.when(F.size(of("causes")) > 0, F.transform(of("causes"), cause)).alias("causes"),
        ).alias("novelty"),
    )


def cause(found: Column) -> Column:
    """A cause of an incident, its onset as a date."""
    names = ("kind", "host", "service", "metric", "series", "why")
    return F.struct(
        *(filled(found[name]).alias(name) for name in names),
        date(found["onset"]).alias("onset"),
        finite(found["score"]).alias("score"),
    )


def pipeline_document(version: str) -> Column:
    """A record that was too late or could not be read: a sample of it, where it stood and why it is here."""
    topic, partition, offset, stage = source_position()
    return F.struct(
        date(append_time()).alias("@timestamp"),
        ecs(),
        F.struct(
            F.lit("pipeline_error").alias("kind"),
            F.concat(F.lit("kappa."), F.col("dataset")).alias("dataset"),
            header("kappa.reason").alias("reason"),
        ).alias("event"),
        printable(F.col("value")).alias("message"),
        F.struct(
            F.lit(version).alias("version"),
            topic.alias("topic"),
            partition.cast("long").alias("partition"),
            offset.cast("long").alias("offset"),
            stage.alias("stage"),
            F.coalesce(header("kappa.length").cast("long"), F.octet_length("value"), F.lit(0)).alias("length"),
            header("kappa.sha256").alias("sha256"),
        ).alias("pipeline"),
    )


def label_document() -> Column:
    """The label of an incident: the fields of the record, and when it was appended."""
    own = F.col("l")
    about = [filled(own[name]).alias(name) for name in ("label", "incident", "version", "author")]
    event = [F.lit("event").alias("kind"), F.lit("kappa.labels").alias("dataset")]
    return F.struct(
        date(append_time()).alias("@timestamp"),
        ecs(),
        F.struct(*event, *(own[name].alias(name) for name in ("start", "end"))).alias("event"),
        all_named(own["host"]).alias("host"),
        filled(own["comment"]).alias("message"),
        F.struct(*about, own["series"].alias("series")).alias("label"),
    )


def delivery_document() -> Column:
    """What became of a notification."""
    own = F.col("d")
    texts = ("channel", "incident", "version", "status", "severity", "outcome", "why", "answer")
    event = [F.lit("event").alias("kind"), F.lit("kappa.deliveries").alias("dataset")]
    return F.struct(
        date(own["at"]).alias("@timestamp"),
        ecs(),
        F.struct(*event).alias("event"),
        filled(own["title"]).alias("message"),
        F.struct(*(filled(own[name]).alias(name) for name in texts), own["attempts"].alias("attempts")).alias(
            "delivery"
        ),
    )


def alarm_document() -> Column:
    """An early alarm, and what became of it."""
    own = F.col("e")
    parts = F.split(own["series"], "/")
    event = [F.lit("event").alias("kind"), F.lit("kappa.early").alias("dataset")]
    dates = ("window_end", "bound_window_end", "settled_at")
    texts = ("version", "status", "series", "template", "incident")
    found = {
        name: date(own[name]) if name in dates else finite(own[name]) for name in ALARM_FIELDS if name not in texts
    }
    found |= {name: filled(own[name]) for name in texts}
    return F.struct(
        date(own["event_time"]).alias("@timestamp"),
        ecs(),
        F.struct(*event).alias("event"),
        named(unquote(F.get(parts, F.lit(1)))).alias("host"),
        named(unquote(F.get(parts, F.lit(2)))).alias("service"),
        F.struct(*(found[name].alias(name) for name in ALARM_FIELDS)).alias("alarm"),
    )


def source_position() -> tuple[Column, Column, Column, Column]:
    """Topic, partition and offset that a refused record came from, and the stage that refused it."""
    return (
        F.coalesce(header("kappa.topic"), F.col("topic")),
        F.coalesce(header("kappa.partition"), F.col("partition").cast("string")),
        F.coalesce(header("kappa.offset"), F.col("offset").cast("string")),
        F.coalesce(header("kappa.stage"), F.lit("unknown")),
    )


def without_offset() -> Column:
    """What tells refused records apart whose offset is not known. Null for others.

    It is the hash of a value; letters about losses have none, so it is what was lost, and since when.
    """
    is_loss = F.coalesce(F.octet_length("value"), F.lit(0)) == 0
    loss = [F.when(is_loss, header(f"kappa.{name}")) for name in ("reason", "timestamp")]
    return F.when(header("kappa.offset") == "None", F.concat_ws("\x1f", header("kappa.sha256"), *loss))


def header(name: str) -> Column:
    """The text of a Kafka header, null where the record has none of that name."""
    found = F.filter(F.col("headers"), lambda h: h["key"] == name)
    # Anybody who may write to the topic may write anything there.
    return F.make_valid_utf8(F.substring(F.get(found, F.lit(0))["value"], 1, MOST_HEADER).cast("string"))


def append_time() -> Column:
    """When the refused record was appended to its topic, epoch milliseconds; when the letter was, where that cannot be."""
    given = header("kappa.timestamp").try_cast("long")
    return F.when(within_range(given), given).otherwise(F.unix_millis("timestamp"))


def alert(dataset: str, end: Column, severity: Column) -> Column:
    """The `event` of a novelty or an incident."""
    return F.struct(
        F.lit("alert").alias("kind"),
        F.array(F.lit("host")).alias("category"),
        F.array(F.when(of("kind") == "change", F.lit("change")).otherwise(F.lit("info"))).alias("type"),
        F.lit(OURS).alias("module"),
        F.lit(dataset).alias("dataset"),
        of("id").alias("id"),
        date(of("start")).alias("start"),
        end.alias("end"),
        of("reason").alias("reason"),
        severity.alias("severity"),
    )


def ecs() -> Column:
    """Which release of the Elastic Common Schema a document follows."""
    return F.struct(F.lit(ECS_VERSION).alias("version")).alias("ecs")


def rule(identity: Column, name: Column) -> Column:
    """What raised an alert: the part of the model, where one did."""
    return F.struct(
        identity.alias("id"), name.alias("name"), of("kind").alias("category"), F.lit(OURS).alias("ruleset")
    ).alias("rule")


def observer() -> Column:
    """Who raised an alert."""
    return F.struct(F.lit(OURS).alias("name")).alias("observer")


def event_fields(version: str) -> list[Column]:
    """What novelties and incidents have in common under `novelty`."""
    return [
        F.lit(version).alias("version"),
        of("kind").alias("kind"),
        of("status").alias("status"),
        date(of("window_end")).alias("window_end"),
        finite(of("score")).alias("score"),
    ]


def expectation() -> list[Column]:
    """What was seen and what was expected."""
    return [finite(of(name)).alias(name) for name in ("value", "typical", "lower", "upper")]


def explanation() -> list[Column]:
    """Which part of the model raised it, how sure it is, and of a change what was before and what is after it."""
    return [
        filled(of("part")).alias("part"),
        of("provisional").alias("provisional"),
        *(finite(of(name)).alias(name) for name in ("certainty", "before", "after")),
    ]


def date(millis: Column) -> Column:
    """Epoch milliseconds as ISO 8601; null for what is no time of an event, of which Spark could not make one."""
    time = F.timestamp_millis(F.when(within_range(millis), millis))
    return F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")


def finite(value: Column) -> Column:
    """The number, or null where it is none: JSON has neither NaN nor infinity."""
    return F.when(F.abs(value) < float("inf"), value)


def filled(text: Column) -> Column:
    """The text, or null where it is empty."""
    return F.when(text != "", text)


def named(name: Column) -> Column:
    """An object with a `name`, or null where there is none."""
    return F.when(F.length(name) > 0, F.struct(name.alias("name")))


def all_named(names: Column) -> Column:
    """An object with several names, or null where there are none."""
    return F.when(F.size(names) > 0, F.struct(names.alias("name")))


def part(number: int) -> Column:
    """A part of the series' name, counted from 1, decoded as models.core.series.unquote."""
    text = F.get(F.split(of("series"), "/", -1), F.lit(number - 1))
    return F.replace(F.replace(text, F.lit("%2F"), F.lit("/")), F.lit("%25"), F.lit("%"))


def printable(raw: Column) -> Column:
    """The beginning of raw bytes as text that can be shown: `?` for what is no printable character."""
    # A character has at most 4 bytes; more than that need not be looked at.
    head = F.make_valid_utf8(F.substring(raw, 1, 4 * SAMPLE_CHARACTERS).cast("string"))
    return F.substring(F.regexp_replace(head, r"\p{C}", "?"), 1, SAMPLE_CHARACTERS)
