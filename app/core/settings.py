"""All settings, in one frozen object: arguments over environment over file over defaults.

Environment variables are named `KAPPA_<SETTING>`, `__` between parts (`KAPPA_KAFKA__BOOTSTRAP_SERVERS`). The file is
TOML: the one given with `--config`, else `kappa.toml` in the working directory where there is one. An unknown key is an
error, and so is a named file that is missing.
"""

from __future__ import annotations

import codecs
import dataclasses
import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings import SettingsError as UnreadableVariable

from app.core.errors import SettingsError
from app.core.java_size import java_size
from app.core.logs import LogFormat
from app.core.notify_settings import ChannelSettings, NotifySettings
from app.core.runbook_settings import RunbookSettings
from app.core.secrets import SecretInAddress, checked_address, is_secret, masked
from app.core.user_path import UserPath
from app.core.version_name import VersionName
from app.core.web_address import Link
from models.core.limits import LimitParameters
from models.core.parameters import DetectorParameters
from models.detection.controlled_parameters import ControlledParameters
from models.incidents.parameters import CorrelationParameters
from models.rules.route import Route
from models.rules.rule import Rule, check_selected
from models.rules.runbook import Runbook
from pipelines.windowing import WindowingConfig

PROJECT = Path(__file__).resolve().parents[2]
DEFAULT_FILE = Path("kappa.toml")
CONFIGURATION = "configuration.json"  # of a version, beside its checkpoints
PREFIX = "KAPPA_"  # of environment variables
OF_PAGES = f"{PREFIX}DASHBOARD_"  # `kappa dashboard` gives its pages variables that begin so
BROKER = re.compile(
    r"([A-Za-z][A-Za-z0-9_+]*://)?[^\s:/,]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}"
)  # host:port, which Java's client wants
Address = Annotated[str, AfterValidator(checked_address)]  # no user and no password in it


# Tables of which there may be several: what their keys are of, and where they are described.
TABLES = {
    "control.rules": (Rule, "docs/control.md"),
    "notify.routes": (Route, "docs/alerts.md"),
    "notify.channels": (ChannelSettings, "docs/alerts.md"),
    "dashboard.runbooks": (RunbookSettings, "docs/alerts.md"),
}
INPUTS = ("telemetry", "logs", "labels", "changes", "rules")
FEW = ("labels", "changes", "rules")  # inputs of one partition, as what people and tools write is little
SHARED = (*INPUTS, "quarantine", "deliveries", "early")  # topics that all versions share


def default_home() -> Path:
    """`.kappa` of the checkout that this runs from, else of the user's data folder."""
    in_checkout = (PROJECT / "pyproject.toml").exists()
    return PROJECT / ".kappa" if in_checkout else Path.home() / ".local" / "share" / "kappa"


class SettingsGroup(BaseModel):
    """A group of settings: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSettings(SettingsGroup):
    """The connection to Kafka. Without `bootstrap_servers` it is the embedded broker."""

    bootstrap_servers: Address | None = Field(
        default=None,
        description="Addresses of brokers, `host:port`, separated by commas. Without it the embedded broker of `kappa up` is used.",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="How the brokers are reached."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="PLAIN",
        description=(
            "Who we are is shown by a password (`PLAIN`, SCRAM) or by a token (`OAUTHBEARER`), with `SASL_PLAINTEXT` and "
            "`SASL_SSL`."
        ),
    )
    sasl_username: str | None = Field(default=None, description="User name for SASL.")
    sasl_password: SecretStr | None = Field(default=None, description="Password for SASL.")
    sasl_oauth_token_url: Address | None = Field(
        default=None,
        description="Where `OAUTHBEARER` gets its token with the client's id and secret, `https://` or, on loopback, `http://`.",
    )
    sasl_oauth_client_id: str | None = Field(default=None, description="The client's id for `OAUTHBEARER`.")
    sasl_oauth_client_secret: SecretStr | None = Field(
        default=None, description="The client's secret for `OAUTHBEARER`."
    )
    sasl_oauth_scope: str | None = Field(
        default=None, description="The scope that the token is asked for, if there is one."
    )
    ssl_cafile: UserPath | None = Field(
        default=None,
        description=(
            "Certificate authorities that the brokers' certificates are checked against, a PEM file. Without it those that "
            "Java and Python trust."
        ),
    )
    ssl_certfile: UserPath | None = Field(
        default=None,
        description="The client's certificate with those above it, a PEM file, for brokers that ask for one (`ssl.client.auth`).",
    )
    ssl_keyfile: UserPath | None = Field(
        default=None, description="The private key of `kafka.ssl_certfile`, a PEM file."
    )
    ssl_key_password: SecretStr | None = Field(
        default=None, description="Password of `kafka.ssl_keyfile`, if it has one."
    )
    connect_seconds: float = Field(
        default=30.0,
        ge=0.1,
        le=3600.0,
        description="How long a command that starts waits for the first answer of a broker before it says that none answers.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        problem = self._problem()
        if problem:
            raise ValueError(problem)
        return self

    def _problem(self) -> str | None:
        """What makes no sense, and what to do."""
        # Of nothing between two commas kafka-python makes port 9092 of this machine.
        servers = self.bootstrap_servers.split(",") if self.bootstrap_servers else []
        odd = [one for one in servers if not BROKER.fullmatch(one.strip())]
        if odd:
            return f"bootstrap_servers has {odd[0].strip()!r}; wanted host:port, several with commas between them"
        given = {name for name in type(self).model_fields if getattr(self, name) is not None}
        password = {"sasl_username", "sasl_password"}
        token = {"sasl_oauth_token_url", "sasl_oauth_client_id", "sasl_oauth_client_secret"}
        of_token, protocol, mechanism = token | {"sasl_oauth_scope"}, self.security_protocol, self.sasl_mechanism
        needed, other = (token, password) if mechanism == "OAUTHBEARER" else (password, of_token)
        is_sasl, is_tls = protocol.startswith("SASL"), protocol.endswith("SSL")
        unused = set() if is_sasl else given & (password | of_token)
        unused |= set() if is_tls else {name for name in given if name.startswith("ssl_")}
        if unused:
            return f"{min(unused)} would not be used with security_protocol {protocol}: wanted SASL_SSL or SSL, or leave it out"
        if is_sasl and needed - given:
            missing = sorted(needed - given)
            variables = " and ".join(f"KAPPA_KAFKA__{name.upper()}" for name in missing)
            return f"security_protocol {protocol} with {mechanism} needs {' and '.join(missing)}: set {variables} in the environment"
        if is_sasl and other & given:
            return f"{min(other & given)} would not be used with sasl_mechanism {mechanism}: leave it out"
        if len(given & {"ssl_certfile", "ssl_keyfile"}) == 1 or (self.ssl_key_password and not self.ssl_keyfile):
            return "ssl_certfile and ssl_keyfile belong together, and ssl_key_password to them: set both, or neither"
        return None


class ElasticsearchSettings(SettingsGroup):
    """The connection to Elasticsearch, and its indices. Without `url` it is the embedded node."""

    url: Address | None = Field(
        default=None,
        description="Address of the cluster, `http://` or `https://`. Without it the embedded node of `kappa up` is used.",
    )
    username: str | None = Field(default=None, description="User name for basic authentication.")
    password: SecretStr | None = Field(default=None, description="Password for basic authentication.")
    api_key: SecretStr | None = Field(
        default=None,
        description="API key: `encoded` of the answer that made it. Used instead of user name and password where it is set.",
    )
    ca_certs: UserPath | None = Field(
        default=None,
        description="Certificate authorities that the server's certificate is checked against, a PEM file.",
    )
    client_cert: UserPath | None = Field(
        default=None,
        description="The client's certificate with those above it, a PEM file, for clusters that ask for one.",
    )
    client_key: UserPath | None = Field(
        default=None, description="The private key of `elasticsearch.client_cert`, a PEM file without a password."
    )
    replicas: int = Field(
        default=0, ge=0, description="Copies of each shard of new indices. Use 1 or more on a cluster of several nodes."
    )
    score_shards: int = Field(
        default=1,
        ge=1,
        le=1024,
        description=(
            "Primary shards of each day's new index of scores, where `index.scores` is on. One holds 2,147,483,519 documents at most, "
            "which are 248,000 series in windows of 10 s. `kappa plan` says how many are advised."
        ),
    )
    retention_days: int | None = Field(
        default=None,
        ge=1,
        description=(
            "Days after which an index is deleted, by an index lifecycle policy on servers that have them. Without it "
            "indices are kept until somebody deletes them."
        ),
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            msg = "url must begin with http:// or https://"
            raise ValueError(msg)
        if self.api_key is not None and ":" in self.api_key.get_secret_value():
            msg = "api_key has a colon: wanted `encoded` of the answer that made the key, not its id and api_key"
            raise ValueError(msg)
        if (self.client_cert is None) != (self.client_key is None):
            msg = "client_cert and client_key belong together: set both, or neither"
            raise ValueError(msg)
        of_tls = self.ca_certs or self.client_cert
        if of_tls and self.url and not self.url.startswith("https://"):
            msg = "ca_certs and client_cert are for an address that begins with https://"
            raise ValueError(msg)
        if (self.username is None) != (self.password is None):
            msg = "username and password belong together: set both, or neither"
            raise ValueError(msg)
        return self


class StackSettings(SettingsGroup):
    """The embedded broker and Elasticsearch. Port 0 is any free one, kept from then on."""

    kafka_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port of the embedded broker. 0 takes a free port, which is kept from then on.",
    )
    elasticsearch_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port of the embedded Elasticsearch node. 0 takes a free port, which is kept from then on.",
    )


class TopicSettings(SettingsGroup):
    """Names, partitions and retention of topics. Topics of versions other than `live` carry the version as suffix, inputs do not."""

    prefix: str = Field(
        default="",
        description=(
            "Put before the name of every topic. Letters, digits, `.`, `_` and `-`. Fixed for the life of a version: with another prefix its jobs "
            "are refused."
        ),
    )
    telemetry_partitions: int = Field(
        default=2,
        ge=1,
        le=16,
        description=(
            "Partitions of `telemetry`. More allow more parallel reading and make the query plan of `extract` larger. Takes "
            "effect when the topic is created."
        ),
    )
    logs_partitions: int = Field(
        default=2, ge=1, le=16, description="Partitions of `logs`; see `topics.telemetry_partitions`."
    )
    partitions: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Partitions of each topic that the jobs write. Takes effect when a topic is created.",
    )
    replication: int = Field(
        default=1,
        ge=1,
        description="Copies of each partition; 3 is usual on a cluster. Takes effect when a topic is created.",
    )
    timestamps: Literal["append", "create"] = Field(
        default="append",
        description=(
            "Who sets the timestamps of input records: the broker (`append`), or the producer (`create`), which is for "
            "importing history."
        ),
    )
    input_retention_hours: int = Field(
        default=24 * 14,
        ge=1,
        description=(
            "How long `telemetry`, `logs`, `labels` and `changes` are kept, and so how far back a replay reaches; of `rules` the last record "
            "of each name stays. Not used with `create` timestamps: those topics are kept for ever. Takes effect when a topic is created; "
            "`kappa doctor` has the command for topics that are there."
        ),
    )
    retention_hours: int = Field(
        default=24 * 14,
        ge=1,
        description=(
            "How long the topics that the jobs write are kept, and so for how long a job or Elasticsearch may be away. Takes effect when a topic "
            "is created; `kappa doctor` has the command for topics that are there."
        ),
    )
    compression: Literal["producer", "lz4", "zstd", "snappy", "gzip", "uncompressed"] = Field(
        default="lz4", description="Compression on the broker. Takes effect when a topic is created."
    )

    @field_validator("prefix")
    @classmethod
    def _legal(cls, prefix: str) -> str:
        if prefix and not all(c.isascii() and (c.isalnum() or c in "._-") for c in prefix):
            msg = "a topic's name may hold letters of a to z and A to Z, digits, '.', '_' and '-' only"
            raise ValueError(msg)
        return prefix


class SparkSettings(SettingsGroup):
    """How jobs are run. `shuffle_partitions` is fixed for the life of a checkpoint.

    `max_records_per_batch` bounds the batches of `extract`. The other jobs, whose records cost more, read a quarter of it, and
    half a million at most.
    """

    master: str = Field(
        default="local[*]",
        description=(
            "Where tasks run. `local[*]` is this machine, with a task for each core that a container or service may use, and at least 6. "
            "Anything but `local` needs `home` on a file system that all machines see."
        ),
    )
    secret: SecretStr | None = Field(
        default=None,
        description=(
            "What the processes of a standalone Spark cluster know each other by (`spark.authenticate.secret`); needed with "
            "`spark://`, see [cluster](cluster.md). With YARN and Kubernetes Spark makes one itself."
        ),
    )
    driver_memory: Annotated[str, AfterValidator(java_size)] = Field(
        default="2g",
        description="Heap of the JVM, such as `2g` or `1500m`. Raise it for larger batches and more state.",
    )
    shuffle_partitions: int = Field(
        default=2,
        ge=1,
        description="Parallel tasks of aggregations and of `detect`. More cost more for each small batch. Fixed for the life of a checkpoint.",
    )
    trigger_seconds: float = Field(
        default=1.0,
        ge=0,
        description="Least time between the starts of two batches, apart from the one that closes a window. Raising it delays results.",
    )
    max_records_per_batch: int = Field(
        default=6_000_000,
        ge=100,
        description=(
            "Most records that a batch of `extract` reads; the other jobs read a quarter of it and at most 500,000. Raising "
            "it processes a backlog faster and takes more memory."
        ),
    )
    extra: dict[str, str] = Field(
        default_factory=dict, description="Further Spark settings by name. They win over kappa's own."
    )


class SavepointSettings(SettingsGroup):
    """Savepoints that the process of `detect` takes by itself. They bound how much of the log a [recovery](recovery.md) reads."""

    every: str = Field(
        default="6h",
        pattern=r"^(off|[1-9]\d{0,4}[mhd])$",
        description="How often, such as `30m`, `6h` or `1d`; `off` takes none.",
    )
    keep: int = Field(
        default=4,
        ge=1,
        description="How many of them stay; older ones are removed. Those that people name always stay.",
    )

    @property
    def every_ms(self) -> int | None:
        """How often, in milliseconds; None for never."""
        if self.every == "off":
            return None
        return int(self.every[:-1]) * {"m": 60_000, "h": 3_600_000, "d": 86_400_000}[self.every[-1]]


class IndexSettings(SettingsGroup):
    """Which scores go to Elasticsearch: with `scores`, a document per window and series, of windows from `scores_since` on."""

    scores: bool = Field(
        default=False,
        description=(
            "Whether every score becomes a document: one for each series and window. Switched on later, `index` begins with the first score that "
            "the log still has; see `index.scores_since`."
        ),
    )
    scores_since: AwareDatetime | None = Field(
        default=None,
        description="Scores of windows that ended before this moment are not indexed. A date and time with a zone.",
    )


class EarlySettings(SettingsGroup):
    """The lane in real time: single records against [bounds](early.md) that `detect` publishes."""

    enabled: bool = Field(
        default=False,
        description="Whether `detect` publishes bounds, and `kappa run all` starts the lane. The same for all processes.",
    )
    false_alarms_a_day: float = Field(
        default=1.0,
        gt=0,
        le=1000,
        description="Early alarms that chance makes in a day in the whole fleet. Raising it moves the bounds closer to what is usual.",
    )
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description=(
            "Port of `/metrics` and `/healthz` of the lane's process, on `health.host`; 0 takes a free one and prints it. "
            "Without a port they are not served."
        ),
    )


def matching_some(rule: Rule) -> Rule:
    """The same rule. Raises ValueError for patterns that no series can match."""
    check_selected(rule.selected)
    return rule


class ControlSettings(SettingsGroup):
    """Rules about alarms and learning."""

    rules: tuple[Annotated[Rule, AfterValidator(matching_some)], ...] = Field(
        default=(),
        description="What may be reported of which series and when, and what is learnt: tables `[[control.rules]]`, see [control](control.md).",
    )
    rules_from: int = Field(
        default=0,
        ge=0,
        description=(
            "Offset in the topic `rules` from which records count. `kappa replay --rules-as-known-now` sets it: `control.rules` has "
            "what those before say."
        ),
    )


class LogSettings(SettingsGroup):
    """What the commands write to stderr."""

    format: LogFormat = Field(
        default="text",
        description=(
            "`text`: lines for people. `json`: an object a line, see [logs](running.md#logs), of every command that talks to a server."
        ),
    )


class HealthSettings(SettingsGroup):
    """Where a process of `kappa run` serves its `/metrics` and `/healthz`. Port 0 is any free one; without a port they are not served."""

    host: str = Field(
        default="127.0.0.1",
        description="Address on which `/metrics`, `/healthz` and `/state` listen. They ask for no password.",
    )
    names: tuple[str, ...] = Field(
        default=(),
        description=(
            "Names by which others ask for them, without a port, such as `web-1.example.net`. Requests to an address, `localhost` and "
            "`health.host` are answered in any case. Those to other names may come from a page of the web: they are refused on loopback, and "
            "elsewhere once there are names."
        ),
    )
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description=(
            "Their port; 0 takes a free one and prints it. Without a port nothing listens. Processes on one machine need "
            "different ports."
        ),
    )
    stale_seconds: float = Field(
        default=120.0,
        gt=0,
        description=(
            "How long a job may make no progress and still count as healthy. `kappa run` then ends and restarts its "
            "jobs, after 30 s at the earliest."
        ),
    )


class DashboardSettings(SettingsGroup):
    """The pages: who may do what on them, Kibana's address for links, and the jobs whose health they show.

    A role is a list of names (of OpenID Connect the verified e-mail address), groups as `group:NAME`, or `*` for everybody who
    has signed in. Operators are responders, and responders viewers.
    """

    sign_in: Literal["code", "oidc", "proxy"] = Field(
        default="code",
        description=(
            "How people sign in: with the `code` that `kappa dashboard` prints, on loopback only; with an OpenID Connect provider "
            "(`oidc`); or by a proxy that says who they are (`proxy`). Who has not signed in can only read."
        ),
    )
    viewers: tuple[str, ...] = Field(
        default=(), description="Who may read the dashboard. Empty: everybody who reaches it, signed in or not."
    )
    responders: tuple[str, ...] = Field(
        default=(), description="Who may also label incidents, write rules about them and ask a model for its state."
    )
    operators: tuple[str, ...] = Field(
        default=(), description="Who may also promote versions and roll back. With `code`, whoever has the code is one."
    )
    oidc_metadata_url: Address | None = Field(
        default=None,
        description="With `oidc`: the provider's address that ends in `/.well-known/openid-configuration`.",
    )
    oidc_client_id: str | None = Field(default=None, description="With `oidc`: the client's id at the provider.")
    oidc_client_secret: SecretStr | None = Field(default=None, description="With `oidc`: the client's secret.")
    oidc_redirect_url: Address | None = Field(
        default=None,
        description="With `oidc`: the dashboard's address as browsers reach it, with `/oauth2callback` at its end.",
    )
    proxy_secret: SecretStr | None = Field(
        default=None,
        description="With `proxy`: what the proxy sends in the header `X-Kappa-Proxy-Secret`, which it must take from nobody else.",
    )
    proxy_user_header: str = Field(
        default="X-Forwarded-User", description="With `proxy`: the header with the name of who has signed in."
    )
    proxy_groups_header: str = Field(
        default="X-Forwarded-Groups", description="With `proxy`: the header with their groups, separated by commas."
    )

    names: tuple[str, ...] = Field(
        default=(),
        description=(
            "Names, or addresses, by which browsers reach the dashboard, without a port, such as that of a proxy before it. On loopback it is "
            "opened by names of loopback, those of `notify.link` and `dashboard.oidc_redirect_url`, and these alone; with another `--host` by these "
            "alone once there are any."
        ),
    )
    kibana_url: Link | None = Field(
        default=None,
        description="Address of Kibana. If it is set, the dashboard links to it with time range and filter.",
    )
    runbook_url: Link | None = Field(
        default=None,
        description=(
            "Address of runbooks, to which an incident's page and its notifications link: `{kind}`, `{severity}`, `{service}`, `{host}`, "
            "`{series}` and `{incident}` in it stand for those of the incident."
        ),
    )
    runbooks: tuple[RunbookSettings, ...] = Field(
        default=(),
        description=(
            "Runbooks by kind, host, service and labels: tables `[[dashboard.runbooks]]`, see [runbooks](alerts.md#runbooks). The first that "
            "matches counts, else `dashboard.runbook_url`."
        ),
    )
    jobs: tuple[Address, ...] = Field(
        default=(),
        description=(
            "Addresses of the processes that run jobs, `http://host:port`, for the page Pipeline. Empty: `health.host` and "
            "`health.port`. The process that runs `detect` in the same `home` is found without."
        ),
    )

    @field_validator("runbook_url")
    @classmethod
    def _known_names(cls, url: str | None) -> str | None:
        return (
            None if url is None else Runbook(url).url
        )  # raises ValueError for a name in braces that an incident does not have

    @property
    def all_runbooks(self) -> tuple[Runbook, ...]:
        """The runbooks in the order in which they count, the one of all other incidents last."""
        others = () if self.runbook_url is None else (Runbook(self.runbook_url),)
        return (*(one.runbook for one in self.runbooks), *others)


class Settings(BaseSettings):
    """All settings of one deployment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=PREFIX, env_nested_delimiter="__")

    home: UserPath = Field(
        default_factory=default_home,
        description=(
            "Folder of checkpoints, savepoints, logs, jars and the data of embedded servers: `.kappa` in the checkout, else "
            "`~/.local/share/kappa`."
        ),
    )
    jar_folder: UserPath | None = Field(default=None, description="Folder of the jars. Without it `jars` in `home`.")
    version: VersionName = Field(
        default="live",
        description=(
            "Name of this run over the log, of which each has its own topics, checkpoints and indices: 1 to 41 of a to z, 0 to 9, `_` and `-`, "
            "a letter or digit first. `live` stands for the "
            "version that [serves](replay.md#promote-a-version-roll-back)."
        ),
    )
    windowing: WindowingConfig = WindowingConfig()
    detection: DetectorParameters = DetectorParameters()
    correlation: CorrelationParameters = CorrelationParameters()
    limits: LimitParameters = LimitParameters()
    control: ControlSettings = ControlSettings()
    kafka: KafkaSettings = KafkaSettings()
    elasticsearch: ElasticsearchSettings = ElasticsearchSettings()
    stack: StackSettings = StackSettings()
    topics: TopicSettings = TopicSettings()
    spark: SparkSettings = SparkSettings()
    savepoints: SavepointSettings = SavepointSettings()
    index: IndexSettings = IndexSettings()
    early: EarlySettings = EarlySettings()
    log: LogSettings = LogSettings()
    health: HealthSettings = HealthSettings()
    dashboard: DashboardSettings = DashboardSettings()
    notify: NotifySettings = NotifySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then environment, then the file."""
        file = TomlConfigSettingsSource(settings_cls, toml_file=_FileInUse.path)
        return init_settings, env_settings, file

    @property
    def detector(self) -> ControlledParameters:
        """The models' parameters, with the window length of `windowing`, the rules, and the limits of a shard."""
        own = dataclasses.asdict(self.detection) | {"window_seconds": float(self.windowing.window_seconds)}
        limits = self.limits.of_shard(self.windowing.shards)
        control = self.control
        return ControlledParameters(**own, rules=control.rules, rules_from=control.rules_from, limits=limits)

    @property
    def input_partitions(self) -> dict[str, int]:
        """How many partitions each input topic has."""
        own = {"telemetry": self.topics.telemetry_partitions, "logs": self.topics.logs_partitions}
        return own | dict.fromkeys(FEW, 1)

    @property
    def jars(self) -> Path:
        """Where the jars lie that this project has fetched."""
        return self.jar_folder or self.home / "jars"

    def topic(self, kind: str) -> str:
        """The name of a topic of this version: telemetry, logs, statistics, scores, ..."""
        shared = kind in SHARED or self.version == "live"
        return f"{self.topics.prefix}{kind}" if shared else f"{self.topics.prefix}{kind}.{self.version}"

    def checkpoint(self, job: str) -> Path:
        """Where a job of this version keeps its progress and state."""
        return self.home / "checkpoints" / self.version / job

    @property
    def configuration_file(self) -> Path:
        """Where this version keeps the configuration that it began with."""
        return self.checkpoint(CONFIGURATION)

    def shown(self) -> dict[str, Any]:
        """Effective settings as JSON types, secrets masked."""
        shown: dict[str, Any] = masked(self.model_dump(mode="json"))
        return shown


class _FileInUse:
    """Which file `Settings` reads: pydantic-settings asks for it on the class."""

    path: Path | None = None


def file_in_use(config: Path | None) -> Path | None:
    """The file that settings are read from: the one that is named, else `kappa.toml` in the working directory, if there is one."""
    return config or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)


def load(config: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings: arguments over environment over file over defaults.

    Parameters
    ----------
    config
        A TOML file; None for `kappa.toml` in the working directory, if there is one.
    **overrides
        Settings by name, over all others.

    Returns
    -------
    Settings
        Frozen, and checked.

    Raises
    ------
    SettingsError
        A missing file, an unknown key or a bad value, in one line.
    """
    if config is not None and not config.is_file():
        msg = f"settings: no file {config}; wanted a TOML file; check --config"
        raise SettingsError(msg)
    _FileInUse.path = file_in_use(config)
    _known_variables()
    try:
        return checked(Settings(**overrides))
    except ValidationError as error:
        raise SettingsError(_first(error)) from error
    except UnreadableVariable as error:
        named = ", ".join(not_json()) or str(error)
        msg = f'settings: {named} in the environment: wanted JSON, such as ["a", "b"] for a list and {{"a": "b"}} for a table'
        raise SettingsError(msg) from None
    except RecursionError as error:
        msg = f"settings: {_FileInUse.path or 'the environment'}, or a variable of the environment, nests too deeply"
        raise SettingsError(msg) from error
    except ValueError as error:  # of TOML, of UTF-8, and of a number of thousands of digits
        why = "it begins with a byte order mark, save it as UTF-8 without one" if begins_with_mark() else error
        msg = f"settings: {_FileInUse.path} is not TOML: {why}"
        raise SettingsError(msg) from error
    except OSError as error:
        msg = f"settings: {_FileInUse.path} cannot be read: {error.strerror}; check its rights, or name another with --config"
        raise SettingsError(msg) from error


def begins_with_mark() -> bool:
    """Whether the file in use begins with the byte order mark that some editors put before UTF-8, which no line of it shows."""
    return _FileInUse.path is not None and _FileInUse.path.read_bytes().startswith(codecs.BOM_UTF8)


def _known_variables() -> None:
    """Refuse variables of groups that there are not: pydantic looks at those of known groups alone."""
    flat = {one.replace("__", "_"): one for one in map(variable_of, dotted_settings()) if "__" in one}
    for name in sorted(os.environ):
        parts = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and len(parts) > 1 and parts[0] not in Settings.model_fields:
            msg = f"settings: {name} in the environment: unknown setting{nearest('.'.join(parts))}"
            raise SettingsError(msg)
        if name in flat and not name.startswith(OF_PAGES) and not name.endswith("_PORT"):  # Kubernetes sets such
            msg = f"settings: {name} in the environment: unknown setting, did you mean {flat[name]}?"
            raise SettingsError(msg)


def variable_of(setting: str) -> str:
    """The environment variable of a setting with a dotted name."""
    return f"{PREFIX}{setting}".upper().replace(".", "__")


def dotted_settings() -> list[str]:
    """The dotted names of all settings and groups."""
    return [key for name, field in Settings.model_fields.items() for key in (name, *_within(name, field))]


def not_json() -> list[str]:
    """The variables of groups, lists and tables that hold something else than JSON."""
    given = {name: os.environ[variable_of(name)] for name in dotted_settings() if variable_of(name) in os.environ}
    return [variable_of(name) for name, text in given.items() if is_composed(name) and not is_json(text)]


def is_composed(setting: str) -> bool:
    """Whether a setting is a group, a list or a table."""
    group, _, own = setting.partition(".")
    default = Settings.model_fields[group].default
    value = getattr(default, own) if own else default
    return isinstance(value, tuple | dict | BaseModel) or dataclasses.is_dataclass(value)


def is_json(text: str) -> bool:
    """Whether a text is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def problems(error: ValidationError) -> list[str]:
    """A sentence for each invalid setting."""
    return [_sentence(one) for one in error.errors()]


def dotted_names(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs of dotted name and value."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from dotted_names(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def toml_text(value: Any) -> str:
    """A value of JSON types as the file has it. TOML has no null: keys without a value are left out, and such a value by itself is "nothing"."""
    if isinstance(value, Mapping):
        held = [f"{key} = {toml_text(inner)}" for key, inner in value.items() if inner is not None]
        return f"{{ {', '.join(held)} }}" if held else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_text, value))}]"
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def checked(settings: Settings) -> Settings:
    """The settings, if their folders can be used, no window length contradicts `windowing`, and a challenger can be used.

    A challenger is checked only where there is one: it loads libraries.

    Spark and Kafka take lists of folders and jars, in which a comma cannot be written; nor can Java's separator in a list of jars.
    """
    for name, folder, separators in (("home", settings.home, ","), ("jar_folder", settings.jars, f",{os.pathsep}")):
        found = [sign for sign in separators if sign in str(folder.absolute())]
        if found:
            msg = f"settings: {name}: wanted a folder without {found[0]!r} in its whole name, got {str(folder.absolute())!r}"
            raise SettingsError(msg)
    length, own = settings.windowing.window_seconds, settings.detection.window_seconds
    if own not in (length, DetectorParameters().window_seconds):
        msg = f"settings: detection.window_seconds: it is always windowing.window_seconds, {length}, got {own:g}; set that one alone"
        raise SettingsError(msg)
    if settings.detection.challenger:
        from models.challengers.adapters import check  # loads the libraries of challengers

        try:
            check(settings.detection.challenger, settings.detection.challenger_options)
        except ValueError as error:
            msg = f"settings: detection.{error}"
            raise SettingsError(msg) from error
    return settings


def _first(error: ValidationError) -> str:
    more = f" (and {error.error_count() - 1} more: see `kappa config check`)" if error.error_count() > 1 else ""
    # What is missing may be there under a name that was misspelt.
    return _sentence(min(error.errors(), key=lambda one: one["type"] == "missing")) + more


def nearest(where: str) -> str:
    """The most similar setting for an unknown one: by its own name in any group, else by spelling, in its group if it is in one."""
    group, _, own = where.rpartition(".")
    table = next((name for name in TABLES if group.startswith(f"{name}.")), None)
    if table is not None:
        of, page = TABLES[table]
        likely = difflib.get_close_matches(own, keys_of(of), 1)
        return f", did you mean {likely[0]}?" if likely else f"; {page} lists the keys of {table.rpartition('.')[2]}"
    known = dotted_settings()
    named = [key for key in known if key.rpartition(".")[2] == own]
    beside = [key for key in known if group and key.startswith(f"{group}.")]
    likely = named or difflib.get_close_matches(where, beside or known, 1, cutoff=0.7)
    return f", did you mean {likely[0]}?" if likely else "; docs/settings.md lists all"


def _within(name: str, field: FieldInfo) -> list[str]:
    """The settings of a group."""
    return [f"{name}.{inner}" for inner in keys_of(field.annotation)]


def keys_of(group: Any) -> list[str]:
    """The keys of a model or a dataclass; none of anything else."""
    if isinstance(group, type) and issubclass(group, BaseModel):
        return list(group.model_fields)
    return [key.name for key in dataclasses.fields(group)] if dataclasses.is_dataclass(group) else []


def _sentence(one: ErrorDetails) -> str:
    where = ".".join(str(part) for part in one["loc"])
    unknown = one["type"] in ("extra_forbidden", "unexpected_keyword_argument")
    # A value may be a secret: one of the wrong type, or under a name that was misspelled.
    found = masked(one.get("input"))
    # A channel's address says who may write to it.
    secret = unknown or one["loc"][0] == "notify" or any(is_secret(str(part)) for part in one["loc"])
    what = f"unknown setting{nearest(where)}" if unknown else one["msg"].removeprefix("Value error, ")
    if one["type"] == "tuple_type":
        what = "wanted a list, in brackets"
    in_address = isinstance(one.get("ctx", {}).get("error"), SecretInAddress)
    # Of a table that is wrong as a whole the sentence names what is wrong.
    got = "" if secret or in_address or isinstance(found, Mapping) else f", got {found!r}"
    return f"settings: {where}: {what}{got}"
