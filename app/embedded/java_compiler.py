"""Our few Java classes, compiled by the compiler that Spark itself generates code with: no JDK is needed.

FOLDER/own/kappa-HASH.jar    named by the hash of its sources and of the compiler, so a change makes another one
own_jar.toml                 the SHA-256 of the jar that the committed sources make: no other bytes are ever loaded

The same compiler on the same Java gives the same bytes. After a change of a class: `make jar`, which writes own_jar.toml.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JJavaError

from app.core.atomic_files import draft_of
from app.core.errors import StackError
from app.embedded.jvm import PYSPARK_JARS, Jvm, JvmCommand, pyspark_jar
from pipelines.jvm import SOURCES

COMPILER = ("janino-*.jar", "commons-compiler-*.jar")
NEEDED = (
    *("hadoop-client-api-*.jar", "jackson-core-*.jar", "json4s-ast_*.jar", "log4j-api-*.jar", "scala-library-*.jar"),
    *("scala-reflect-*.jar", "slf4j-api-*.jar"),
    *(f"spark-{part}_*.jar" for part in ("core", "sql", "sql-api", "catalyst", "unsafe", "common-utils")),
    "spark-common-utils-java_*.jar",
)
RELEASE = 8  # the newest that this compiler writes
EPOCH = (1980, 1, 1, 0, 0, 0)  # of a zip file: the same sources give the same bytes
PINNED = Path(__file__).with_name("own_jar.toml")


def ensure_compiled(folder: Path, report: Callable[[str], None]) -> Path:
    """The jar of our classes below `folder`. Compiled where it is not there, and where its bytes are not those that are pinned.

    Raises StackError where a source cannot be compiled.
    """
    sources, name = sorted(SOURCES.glob("*.java")), hash_of_sources()
    jar = folder.resolve() / "own" / f"kappa-{name}.jar"
    if not jar.exists() or not is_pinned(jar, name):
        report(
            f"compiling {len(sources)} Java classes into {jar.name}{' again: its hash is wrong' if jar.exists() else ''}"
        )
        jar.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: two processes may do the same at once.
        draft = draft_of(jar)
        draft.write_bytes(archived(compiled(sources, folder, jar.parent / "compiler.log")))
        draft.replace(jar)
    return jar


def hash_of_sources() -> str:
    """The first 16 hexadecimal digits of the hash of our classes' sources and of the compiler."""
    known = hashlib.sha256(pyspark_jar(COMPILER[0]).name.encode())
    for source in sorted(SOURCES.glob("*.java")):
        known.update(source.name.encode() + b"\0" + source.read_bytes())
    return known.hexdigest()[:16]


def is_pinned(jar: Path, name: str) -> bool:
    """Whether a jar has the bytes that are pinned. True where the sources are others: while they are being changed."""
    pinned: dict[str, str] = tomllib.loads(PINNED.read_text())
    return name != pinned["sources"] or hashlib.sha256(jar.read_bytes()).hexdigest() == pinned["sha256"]


def archived(classes: dict[str, bytes]) -> bytes:
    """A jar of classes, whose bytes depend on them alone."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, code in sorted(classes.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), code)
    return out.getvalue()


def pin(folder: Path) -> None:
    """Write the hash of the jar that the sources make now; Spark's jars lie below `folder`."""
    (folder / "own").mkdir(parents=True, exist_ok=True)
    jar = archived(compiled(sorted(SOURCES.glob("*.java")), folder, folder / "own" / "compiler.log"))
    PINNED.write_text(
        "# Written by `make jar`: the hash of the sources in pipelines/jvm, and the SHA-256 of the jar that they make.\n"
        f'sources = "{hash_of_sources()}"\nsha256 = "{hashlib.sha256(jar).hexdigest()}"\n'
    )


def compiled(sources: list[Path], folder: Path, log: Path) -> dict[str, bytes]:
    """Class files by name; Spark's jars that PySpark does not have lie below `folder`."""
    jars = [*(pyspark_jar(name) for name in (*COMPILER, *NEEDED)), *(folder / "spark").glob("kafka-clients-*.jar")]
    java = Jvm(JvmCommand("java-compiler", jars, ["-Xmx256m"], log))
    try:
        jvm = java.connect()
        resources = jvm.org.codehaus.commons.compiler.util.resource
        files = [resources.FileResource(jvm.java.io.File(str(source))) for source in sources]
        units = java.array(resources.Resource, files)
        classes = jvm.java.util.HashMap()
        compiler = jvm.org.codehaus.janino.CompilerFactory().newCompiler()
        compiler.setSourceVersion(RELEASE)
        compiler.setTargetVersion(RELEASE)
        compiler.setClassFileCreator(resources.MapResourceCreator(classes))
        compiler.compile(units)
        return {name: bytes(classes[name]) for name in classes}
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:  # the compiler wraps what it found once for each level of the syntax
            cause = cause.getCause()
        msg = f"{SOURCES}: {error.java_exception.getMessage()}: {cause.toString()} (compiler of {PYSPARK_JARS})"
        raise StackError(msg) from error
    finally:
        java.end()


if __name__ == "__main__":
    pin(Path(sys.argv[1]).resolve())
