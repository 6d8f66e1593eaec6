"""All settings, in one frozen object: arguments over environment over file over defaults.

Environment variables are named `KAPPA_<SETTING>`, `__` between parts (`KAPPA_KAFKA__BOOTSTRAP_SERVERS`). The file is
TOML: the one given with `--config`, else `kappa.toml` in the working directory where there is one. An unknown key is an
error, and so is a named file that is missing.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from app.core.errors import SettingsError
from models.detection.control import Controlled
from models.detection.detector import Parameters
from models.incidents.correlator import CorrelationParameters
from models.rules.rule import Rule
from pipelines.windowing import WindowingConfig

PROJECT = Path(__file__).resolve().parents[2]
DEFAULT_FILE = Path("kappa.toml")
INPUTS = ("telemetry", "logs", "labels")  # topics that all versions share


def default_home() -> Path:
    """`.kappa` of the checkout that this runs from, else of the user's data folder."""
    in_checkout = (PROJECT / "pyproject.toml").exists()
    return PROJECT / ".kappa" if in_checkout else Path.home() / ".local" / "share" / "kappa"


class SettingsGroup(BaseModel):
    """A group of settings: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSettings(SettingsGroup):
    """The connection to Kafka. Without `bootstrap_servers` it is the embedded broker."""

    bootstrap_servers: str | None = None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    ssl_cafile: Path | None = None


class ElasticsearchSettings(SettingsGroup):
    """The connection to Elasticsearch, and its indices. Without `url` it is the embedded node."""

    url: str | None = None
    username: str | None = None
    password: SecretStr | None = None
    api_key: SecretStr | None = None
    ca_certs: Path | None = None
    replicas: int = Field(default=0, ge=0)
    retention_days: int | None = Field(default=None, ge=1)


class StackSettings(SettingsGroup):
    """The embedded broker and Elasticsearch. Port 0 is any free one, kept from then on."""

    kafka_port: int = Field(default=0, ge=0, le=65535)
    elasticsearch_port: int = Field(default=0, ge=0, le=65535)


class TopicSettings(SettingsGroup):
    """Names, partitions and retention of topics. Topics of versions other than `live` carry the version as suffix, inputs do not."""

    prefix: str = ""
    telemetry_partitions: int = Field(default=2, ge=1, le=16)
    logs_partitions: int = Field(default=2, ge=1, le=16)
    partitions: int = Field(default=4, ge=1, le=64)
    replication: int = Field(default=1, ge=1)
    timestamps: Literal["append", "create"] = "append"
    input_retention_hours: int = Field(default=24 * 14, ge=1)
    retention_hours: int = Field(default=24 * 14, ge=1)
    compression: Literal["producer", "lz4", "zstd", "snappy", "gzip", "uncompressed"] = "lz4"

    @field_validator("prefix")
    @classmethod
    def _legal(cls, prefix: str) -> str:
        if prefix and not all(c.isalnum() or c in "._-" for c in prefix):
            msg = "a topic's name may hold letters, digits, '.', '_' and '-' only"
            raise ValueError(msg)
        return prefix


class SparkSettings(SettingsGroup):
    """How jobs are run. `shuffle_partitions` is fixed for the life of a checkpoint.

    `max_records_per_batch` bounds the batches of `extract`. The other jobs, whose records cost more, read a quarter of it, and
    half a million at most.
    """

    master: str = "local[*]"
    driver_memory: str = "2g"
    shuffle_partitions: int = Field(default=2, ge=1)
    trigger_seconds: float = Field(default=1.0, ge=0)
    max_records_per_batch: int = Field(default=6_000_000, ge=100)
    extra: dict[str, str] = Field(default_factory=dict)


class IndexSettings(SettingsGroup):
    """Which scores go to Elasticsearch: with `scores`, a document per window and series, of windows from `scores_since` on."""

    scores: bool = False
    scores_since: AwareDatetime | None = None


class ControlSettings(SettingsGroup):
    """Rules about alarms and learning."""

    rules: tuple[Rule, ...] = ()


class HealthSettings(SettingsGroup):
    """Where a process serves `/metrics` and `/healthz` of its jobs. Port 0 is any free one; without a port they are not served."""

    host: str = "127.0.0.1"
    port: int | None = None
    stale_seconds: float = Field(default=120.0, gt=0)


class DashboardSettings(SettingsGroup):
    """Kibana's address for links, and the jobs whose health the pages show. `jobs`: addresses of processes that run jobs, as `http://host:port`."""

    kibana_url: str | None = None
    jobs: tuple[str, ...] = ()


class Settings(BaseSettings):
    """All settings of one deployment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="KAPPA_", env_nested_delimiter="__")

    home: Path = Field(default_factory=default_home)
    jar_folder: Path | None = None
    version: str = Field(default="live", pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$")
    windowing: WindowingConfig = WindowingConfig()
    detection: Parameters = Parameters()
    correlation: CorrelationParameters = CorrelationParameters()
    control: ControlSettings = ControlSettings()
    kafka: KafkaSettings = KafkaSettings()
    elasticsearch: ElasticsearchSettings = ElasticsearchSettings()
    stack: StackSettings = StackSettings()
    topics: TopicSettings = TopicSettings()
    spark: SparkSettings = SparkSettings()
    index: IndexSettings = IndexSettings()
    health: HealthSettings = HealthSettings()
    dashboard: DashboardSettings = DashboardSettings()

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
    def detector(self) -> Controlled:
        """The models' parameters, with the window length of `windowing`, and the rules."""
        own = dataclasses.asdict(self.detection) | {"window_seconds": float(self.windowing.window_seconds)}
        return Controlled(**own, rules=self.control.rules)

    @property
    def input_partitions(self) -> dict[str, int]:
        """How many partitions each input topic has. Labels are few."""
        return {"telemetry": self.topics.telemetry_partitions, "logs": self.topics.logs_partitions, "labels": 1}

    @property
    def jars(self) -> Path:
        """Where the jars lie that this project has fetched."""
        return self.jar_folder or self.home / "jars"

    def topic(self, kind: str) -> str:
        """The name of a topic of this version: telemetry, logs, statistics, scores, ..."""
        shared = kind in INPUTS or self.version == "live"
        return f"{self.topics.prefix}{kind}" if shared else f"{self.topics.prefix}{kind}.{self.version}"

    def checkpoint(self, job: str) -> Path:
        """Where a job of this version keeps its progress and state."""
        return self.home / "checkpoints" / self.version / job

    @property
    def configuration_file(self) -> Path:
        """Where this version keeps the configuration that it began with."""
        return self.checkpoint("configuration.json")

    def shown(self) -> dict[str, Any]:
        """Effective settings as JSON types, secrets masked."""
        shown: dict[str, Any] = self.model_dump(mode="json")
        return shown


class _FileInUse:
    """Which file `Settings` reads: pydantic-settings asks for it on the class."""

    path: Path | None = None


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
    _FileInUse.path = config or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    try:
        return checked(Settings(**overrides))
    except ValidationError as error:
        raise SettingsError(_first(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"settings: {_FileInUse.path} is not TOML: {error}"
        raise SettingsError(msg) from error
    except OSError as error:
        msg = f"settings: {_FileInUse.path} cannot be read: {error.strerror}; check its rights, or name another with --config"
        raise SettingsError(msg) from error


def problems(error: ValidationError) -> list[str]:
    """A sentence for each invalid setting."""
    return [_sentence(one) for one in error.errors()]


def checked(settings: Settings) -> Settings:
    """The settings, if the challenger that they name can be used. Checked only where there is one: it loads libraries."""
    if settings.detection.challenger:
        from models.challengers.classes import check

        try:
            check(settings.detection.challenger, settings.detection.challenger_options)
        except ValueError as error:
            msg = f"settings: detection.{error}"
            raise SettingsError(msg) from error
    return settings


def _first(error: ValidationError) -> str:
    more = f" (and {error.error_count() - 1} more: see `kappa config check`)" if error.error_count() > 1 else ""
    return _sentence(error.errors()[0]) + more


def nearest(where: str) -> str:
    """The most similar setting for an unknown one, else where all are listed."""
    known = {key for name, field in Settings.model_fields.items() for key in (name, *_within(name, field))}
    likely = difflib.get_close_matches(where, known, 1, cutoff=0.7)
    return f", did you mean {likely[0]}?" if likely else "; docs/operations.md lists all"


def _within(name: str, field: FieldInfo) -> list[str]:
    """The settings of a group."""
    own = field.annotation
    if isinstance(own, type) and issubclass(own, BaseModel):
        return [f"{name}.{inner}" for inner in own.model_fields]
    return [f"{name}.{inner.name}" for inner in dataclasses.fields(own)] if dataclasses.is_dataclass(own) else []


def _sentence(one: ErrorDetails) -> str:
    where = ".".join(str(part) for part in one["loc"])
    unknown = one["type"] in ("extra_forbidden", "unexpected_keyword_argument")
    # A value may be a secret: one of the wrong type, or under a name that was misspelled.
    secret = unknown or any(word in where for word in ("password", "api_key"))
    what = f"unknown setting{nearest(where)}" if unknown else one["msg"].removeprefix("Value error, ")
    got = "" if secret else f", got {one.get('input')!r}"
    return f"settings: {where}: {what}{got}"
