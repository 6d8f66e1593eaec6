"""Our few Java classes, compiled by the compiler that Spark itself generates code with: no JDK is needed.

FOLDER/own/kappa-HASH.jar    named by the hash of its sources and of the compiler, so a change makes another one
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JJavaError

from app.core.errors import StackError
from app.embedded.jvm import PYSPARK_JARS, Jvm, JvmCommand, pyspark_jar
from pipelines.jvm import SOURCES

COMPILER = ("janino-*.jar", "commons-compiler-*.jar")
NEEDED = (
    *("hadoop-client-api-*.jar", "jackson-core-*.jar", "json4s-ast_*.jar", "scala-library-*.jar", "slf4j-api-*.jar"),
    *(f"spark-{part}_*.jar" for part in ("core", "sql-api", "catalyst", "unsafe", "common-utils", "common-utils-java")),
)
RELEASE = 8  # the newest that this compiler writes
EPOCH = (1980, 1, 1, 0, 0, 0)  # of a zip file: the same sources give the same bytes


def ensure_compiled(folder: Path, report: Callable[[str], None]) -> Path:
    """The jar of our classes below `folder`, compiled if it is not there. StackError where a source cannot be compiled."""
    sources = sorted(SOURCES.glob("*.java"))
    known = hashlib.sha256(pyspark_jar(COMPILER[0]).name.encode())
    for source in sources:
        known.update(source.name.encode() + b"\0" + source.read_bytes())
    jar = folder.resolve() / "own" / f"kappa-{known.hexdigest()[:16]}.jar"
    if not jar.exists():
        report(f"compiling {len(sources)} Java classes into {jar.name}")
        jar.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: two processes may do the same at once.
        draft = jar.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(draft, "w") as archive:
            for name, code in sorted(compiled(sources, folder, jar.parent / "compiler.log").items()):
                archive.writestr(zipfile.ZipInfo(name, EPOCH), code)
        draft.replace(jar)
    return jar


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
