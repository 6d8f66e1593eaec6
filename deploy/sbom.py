"""The bill of materials: every Python package and every jar that the product runs with, as CycloneDX JSON.

    python deploy/sbom.py FILE

Packages are those of `requirements/run.txt`, jars those of `app/embedded/jars.toml` and those that the installed pyspark brings.
The same inputs give the same bytes: there is no time in it, and its serial number is made of its contents.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from app.embedded.jars import described

PROJECT = Path(__file__).resolve().parents[1]
REQUIREMENTS = PROJECT / "requirements" / "run.txt"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^ ;\\]+)", re.M)
JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")
POM = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")


def python_packages() -> Iterator[Component]:
    """The Python packages, as they are pinned."""
    for name, version in PINNED.findall(REQUIREMENTS.read_text()):
        purl = PackageURL("pypi", None, name.lower(), version)
        yield component(name, version, purl, ComponentType.LIBRARY)


def fetched_jars() -> Iterator[Component]:
    """The jars that `make setup` fetches, by class path."""
    for class_path, jars in described().items():
        for file, jar in jars.items():
            yield of_jar(file, jar["group"], jar["sha256"], class_path)


def jars_of_pyspark() -> Iterator[Component]:
    """The jars within the installed pyspark, with the Maven group where a jar says it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("sbom: pyspark is not installed; run make setup")  # noqa: EM101
    for path in sorted((Path(spec.origin).parent / "jars").glob("*.jar")):
        yield of_jar(path.name, group_in(path), hashlib.sha256(path.read_bytes()).hexdigest(), "pyspark")


def group_in(jar: Path) -> str:
    """The Maven group that a jar states of itself; empty where it states none, or those of what was put into it."""
    name = JAR.fullmatch(jar.name)
    with zipfile.ZipFile(jar) as archive:
        poms = [found.groups() for entry in archive.namelist() if (found := POM.fullmatch(entry))]
    return next((group for group, artifact in poms if name is not None and artifact == name["name"]), "")


def of_jar(file: str, group: str, sha256: str, class_path: str) -> Component:
    """A jar, found on one class path."""
    parts = JAR.fullmatch(file)
    name, version = (parts["name"], parts["version"]) if parts else (file.removesuffix(".jar"), "")
    kind = "maven" if group else "generic"
    purl = PackageURL(kind, group or None, name, version or None, {"classpath": class_path})
    found = component(name, version, purl, ComponentType.LIBRARY, group)
    found.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=sha256))
    found.properties.add(Property(name="kappa:classpath", value=class_path))
    return found


def component(name: str, version: str, purl: PackageURL, kind: ComponentType, group: str = "") -> Component:
    """A component whose reference is its package URL."""
    return Component(name=name, version=version, group=group or None, purl=purl, type=kind, bom_ref=purl.to_string())


def bill() -> Bom:
    """The whole bill."""
    own = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    purl = PackageURL("pypi", None, own["name"], own["version"])
    bom = Bom(components=[*python_packages(), *fetched_jars(), *jars_of_pyspark()])
    bom.metadata.component = component(own["name"], own["version"], purl, ComponentType.APPLICATION)
    bom.register_dependency(bom.metadata.component, bom.components)
    references = "\n".join(sorted(str(each.bom_ref.value) for each in bom.components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, references)
    return bom


def main(arguments: list[str]) -> int:
    """Write the bill into the file that is named."""
    if len(arguments) != 1:
        sys.stderr.write("wanted one argument: the file to write\n")
        return 2
    bom, file = bill(), Path(arguments[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(JsonV1Dot6(bom).output_as_string())
    del found["metadata"]["timestamp"]
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    sys.stderr.write(f"{file}: {len(bom.components)} components\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
