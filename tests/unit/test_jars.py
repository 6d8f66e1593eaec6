"""Jars are verified by their hashes, and a second check is cheap."""

import hashlib
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from app.core.errors import StackError
from app.embedded import jars, java_compiler, jvm
from app.embedded.jars import CONFS, PROJECT, Jars, ensure_jars, manifest, wrong_jars
from app.embedded.java import java_version, server_java, spark_java_home
from app.embedded.java_network import proxy_options
from app.embedded.jvm import last_meaningful_line, logged_reason
from pipelines.jvm import SOURCES

FETCHED = PROJECT / ".kappa" / "jars"


def silent(_line: str) -> None:
    """Nobody wants to know."""


@pytest.fixture(scope="module")
def fetched() -> Jars:
    """All jars, fetched once for all tests of this checkout."""
    return ensure_jars(FETCHED, silent)


def copied(fetched: Jars, folder: Path) -> Path:
    """All jars as links, but those of one class path as copies that may be damaged; its stamp agrees."""
    for conf in CONFS:
        (folder / conf).mkdir(parents=True)
        for jar in getattr(fetched, conf):
            if conf == "netty":
                shutil.copy2(jar, folder / conf)
            else:
                (folder / conf / jar.name).symlink_to(jar)
    shutil.copy2(fetched.folder / "verified.json", folder)
    return folder


def test_every_class_path_of_the_ivy_file_has_hashes() -> None:
    assert tuple(manifest()) == CONFS
    assert all(len(digest) == 64 for names in manifest().values() for digest in names.values())


def test_spark_gets_no_second_version_of_a_jar_that_pyspark_brings(fetched: Jars) -> None:
    import pyspark

    bundled = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    assert not bundled & {jar.name for jar in fetched.spark}


def test_fetched_jars_are_right_by_every_byte(fetched: Jars) -> None:
    assert wrong_jars(fetched.folder) == []


def test_make_setup_leaves_the_folder_of_a_checkout_to_its_user_alone(
    fetched: Jars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".kappa"
    home.mkdir(mode=0o755)
    copied(fetched, home / "jars")
    monkeypatch.setattr(jars, "HOME", home)
    assert jars.main([]) == 0
    assert home.stat().st_mode & 0o777 == 0o700


def test_second_look_reports_nothing(fetched: Jars) -> None:
    reports: list[str] = []
    assert ensure_jars(fetched.folder, reports.append) == fetched
    assert reports == []


@pytest.mark.stack
@pytest.mark.timeout(120)
def test_damaged_and_missing_jars_are_fetched_again(fetched: Jars, tmp_path: Path) -> None:
    folder = copied(fetched, tmp_path)
    damaged, missing = Jars.of(folder).netty[:2]
    damaged.write_bytes(bytes([damaged.read_bytes()[0] ^ 1]) + damaged.read_bytes()[1:])
    missing.unlink()
    reports: list[str] = []
    assert ensure_jars(folder, reports.append) == Jars.of(folder)
    assert wrong_jars(folder) == []
    assert any("1 damaged" in line and damaged.name in line for line in reports)


def test_damage_that_keeps_size_and_time_is_found_by_a_full_check(fetched: Jars, tmp_path: Path) -> None:
    folder = copied(fetched, tmp_path)
    jar = Jars.of(folder).netty[0]
    before = jar.stat()
    jar.write_bytes(bytes(before.st_size))
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert wrong_jars(folder) == [f"netty/{jar.name}"]


@pytest.mark.stack
def test_a_jar_of_our_own_that_is_not_what_the_sources_make_is_compiled_anew(fetched: Jars, tmp_path: Path) -> None:
    pinned = tomllib.loads(java_compiler.PINNED.read_text())
    assert pinned["sources"] == java_compiler.hash_of_sources(), "a class has changed: run `make jar`"
    (tmp_path / "spark").symlink_to(fetched.folder / "spark")
    (tmp_path / "own").mkdir()
    jar = tmp_path / "own" / f"kappa-{pinned['sources']}.jar"
    jar.write_bytes(b"PK\x03\x04 somebody else's classes")
    reports: list[str] = []
    assert java_compiler.ensure_compiled(tmp_path, reports.append) == jar
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == pinned["sha256"], "run `make jar`"
    assert reports == [
        f"compiling {len(list(SOURCES.glob('*.java')))} Java classes into {jar.name} again: its hash is wrong"
    ]
    assert java_compiler.ensure_compiled(tmp_path, reports.append) == jar
    assert len(reports) == 1


@pytest.mark.stack
def test_unreachable_mirror_is_one_line_that_names_jar_and_folder(fetched: Jars, tmp_path: Path) -> None:
    folder = copied(fetched, tmp_path / "jars")
    Jars.of(folder).netty[0].unlink()
    mirror = tmp_path / "settings.xml"
    nowhere = "http://127.0.0.1:9/"  # the port of the discard service: nothing listens
    mirror.write_text(
        '<ivysettings><settings defaultResolver="m"/><resolvers>'
        f'<ibiblio name="m" m2compatible="true" root="{nowhere}"/></resolvers></ivysettings>'
    )
    with pytest.raises(StackError) as raised:
        ensure_jars(folder, silent, ivy_settings=mirror)
    assert "\n" not in str(raised.value)
    assert str(folder) in str(raised.value)
    assert Jars.of(folder).netty[0].name in str(raised.value)


@pytest.mark.stack
def test_java_that_talks_nonsense_has_no_version(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nprintf '\\377 version \"seventeen\"' >&2\n")
    java.chmod(0o755)
    assert java_version(java) is None
    assert java_version(tmp_path / "missing") is None
    version = java_version(server_java())
    assert version is not None
    assert version >= 21


@pytest.mark.stack
def test_spark_gets_a_wrapped_java_where_the_users_own_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_202\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(old.parent))
    cache = tmp_path / "a cache with spaces"
    home = spark_java_home(cache)
    assert home == cache / "java-home"
    assert java_version(home / "bin" / "java") == java_version(server_java())


@pytest.mark.stack
def test_spark_gets_a_wrapped_java_where_the_users_own_lacks_the_module_that_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that was made for less, as that of the wheel is: Spark's JVM would not start."""
    own = server_java().parent.parent
    monkeypatch.setenv("JAVA_HOME", str(own))
    monkeypatch.setenv("PATH", str(own / "bin"))
    assert spark_java_home(tmp_path) == tmp_path / "java-home"


@pytest.mark.stack
@pytest.mark.parametrize(
    "module",
    [["--add-modules=jdk.incubator.vector"], ["--add-modules", "jdk.incubator.vector"]],
)
def test_wrapped_java_leaves_out_the_incubator_module_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: list[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    java = spark_java_home(tmp_path / "it's") / "bin" / "java"
    kept = ["-Da=b c", "--add-modules", "java.sql", "-Dd=*"]
    done = subprocess.run(
        [java, *kept, *module, "-XshowSettings:properties", "-version"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "a = b c" in done.stderr
    assert "d = *" in done.stderr


def test_proxies_of_the_environment_become_properties_of_java() -> None:
    proxies = {"https": "http://user:secret@proxy.example:3128", "no": "localhost, .example"}
    assert proxy_options(proxies) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    ]
    assert proxy_options({}) == []


def test_last_meaningful_line_is_the_last_error_of_this_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("WARN old Error\n")
    start = log.stat().st_size
    log.write_text(
        "WARN old Error\nINFO begin\nERROR java.io.IOException: disk full\n\tat a.b(C.java:1)\nINFO closed\n"
    )
    assert last_meaningful_line(log, start) == "ERROR java.io.IOException: disk full"
    assert last_meaningful_line(tmp_path / "none") == ""
    assert logged_reason(log, start) == f"ERROR java.io.IOException: disk full (log: {log})"
    assert logged_reason(tmp_path / "none") == f"nothing was logged (log: {tmp_path / 'none'})"


def test_where_the_disk_is_full_nothing_was_logged_for_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "_LEAST_FREE_BYTES", float("inf"))
    assert "as no space is left on its disk" in logged_reason(tmp_path / "none")
