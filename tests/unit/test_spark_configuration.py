"""What Spark is configured with: the same in one process and on a cluster, but for what executors elsewhere need."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.core.errors import SettingsError
from app.core.secrets import is_secret
from app.core.settings import PROJECT, Settings
from app.kafka.connection import kafka_connection
from app.runtime import spark
from app.runtime.spark import configuration, master_of, properties
from app.search.connection import elasticsearch_connection

JARS = PROJECT / ".kappa" / "jars"


def settings(folder: Path, master: str, **extra: str) -> Settings:
    own = {"master": master, "extra": extra, "secret": "shared-secret"}
    return Settings(home=folder, jar_folder=JARS, spark=own)  # type: ignore[arg-type]


def test_executors_elsewhere_are_told_where_the_modules_are_and_get_the_same_otherwise(tmp_path: Path) -> None:
    alone = configuration(settings(tmp_path, "local[2]"))
    cluster = configuration(settings(tmp_path, "spark://127.0.0.1:7077"))
    assert cluster == alone | {
        "spark.master": "spark://127.0.0.1:7077",
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        "spark.executorEnv.NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "spark.executorEnv.MALLOC_ARENA_MAX": "2",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "1048576",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "shared-secret",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
    }
    assert any(
        Path(jar).parent.name == "own" for jar in cluster["spark.jars"].split(",")
    )  # our classes go with the rest


def test_files_of_certificates_are_named_from_the_root_as_executors_have_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").touch()
    own = {"ca_certs": "ca.pem", "client_cert": "me.pem", "client_key": "me.key", "url": "https://search.example.net"}
    made = Settings(
        home=tmp_path,
        kafka={"bootstrap_servers": "k:9093", "security_protocol": "SSL", "ssl_cafile": "ca.pem"},  # type: ignore[arg-type]
        elasticsearch=own,  # type: ignore[arg-type]
    )
    search = elasticsearch_connection(made)
    assert kafka_connection(made).options["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert [search.ca_certs, search.client_cert, search.client_key] == [
        str(tmp_path / name) for name in ("ca.pem", "me.pem", "me.key")
    ]


def test_java_options_hold_in_a_folder_whose_name_has_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cuts them at spaces: a checkout in such a folder could start no JVM."""
    folder = tmp_path / "Jane's own, 100 %"
    monkeypatch.setattr(spark, "__file__", str(folder / "spark.py"))
    options = configuration(settings(tmp_path, "local[2]"))["spark.driver.extraJavaOptions"]
    assert shlex.split(options) == options.split(" ")
    given = next(one for one in options.split(" ") if "configurationFile" in one).partition("=")[2]
    assert Path(unquote(urlsplit(given).path)) == folder / "log4j2.properties"


@pytest.mark.parametrize(
    ("master", "wanted"),
    [
        ("local", r"local\[1,4\]"),
        ("local[2]", r"local\[2,4\]"),
        ("local[*]", r"local\[\d+,4\]"),
        ("local[3,1]", r"local\[3,1\]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)
def test_a_task_of_one_process_is_tried_as_often_as_on_a_cluster(tmp_path: Path, master: str, wanted: str) -> None:
    assert re.fullmatch(wanted, master_of(settings(tmp_path, master)))


def test_what_is_set_by_hand_wins(tmp_path: Path) -> None:
    own = {"spark.executorEnv.PYTHONPATH": "/opt/kappa", "spark.cores.max": "4"}
    assert configuration(settings(tmp_path, "yarn", **own)).items() >= own.items()


def test_properties_are_a_line_each_and_keep_backslashes() -> None:
    assert properties({"b": "C:\\kappa", "a": "x=y z"}) == "a=x=y z\nb=C:\\\\kappa\n"


def test_command_writes_the_properties_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_HOME", str(tmp_path))
    monkeypatch.setenv("KAPPA_JAR_FOLDER", str(JARS))
    monkeypatch.setenv("KAPPA_SPARK__MASTER", "spark://127.0.0.1:7077")
    monkeypatch.setenv("KAPPA_SPARK__SECRET", "shared-secret")
    answer = CliRunner().invoke(app, ["config", "spark"])
    assert answer.exit_code == 0
    wanted = configuration(settings(tmp_path, "spark://127.0.0.1:7077"))
    assert answer.stdout == properties(
        {name: text for name, text in wanted.items() if name != "spark.authenticate.secret"}
    )


def test_a_cluster_without_a_secret_or_with_its_encryption_off_is_refused(tmp_path: Path) -> None:
    open_cluster = Settings(home=tmp_path, jar_folder=JARS, spark={"master": "spark://127.0.0.1:7077"})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"spark\.secret is not set.* KAPPA_SPARK__SECRET"):
        configuration(open_cluster)
    for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        with pytest.raises(SettingsError, match=f"{name} is false, wanted true"):
            configuration(settings(tmp_path, "yarn", **{name: "false"}))


def test_what_spark_redacts_is_what_is_masked_here() -> None:
    options = {
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "kafka.ssl.key.password",
        "spark.authenticate.secret",
    }
    assert all(map(is_secret, options))
    assert not any(
        map(is_secret, ("kafka.bootstrap.servers", "spark.jars", "kafka.sasl.oauthbearer.token.endpoint.url"))
    )
