"""Every package has a hash, what is pinned is what the project asks for, and the bill of materials names all of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app.core.settings import PROJECT
from app.embedded.jars import described

BLOCK = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^ ;\\\n]+)([^\n]*)\n((?:    --hash=sha256:[0-9a-f]{64}[^\n]*\n)*)", re.M
)
OWN = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


def pinned(name: str) -> dict[str, str]:
    """Versions by package, of a file of `requirements/` in which every line belongs to a package with a hash."""
    text = (PROJECT / "requirements" / f"{name}.txt").read_text()
    found = BLOCK.findall(text)
    assert "".join(f"{package}" for package, *_ in found), name
    assert all(hashes for *_, hashes in found), [package for package, *_, hashes in found if not hashes]
    assert len(text.splitlines()) == sum(1 + hashes.count("--hash=") for *_, hashes in found)
    return {canonicalize_name(package): release for package, release, *_ in found}


@pytest.mark.parametrize("name", ["build", "run", "dev", "docs"])
def test_every_package_is_pinned_with_a_hash(name: str) -> None:
    assert pinned(name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("run", OWN["dependencies"]), *((name, OWN["optional-dependencies"][name]) for name in ("dev", "docs"))],
)
def test_what_the_project_asks_for_is_pinned_as_it_asks(name: str, wanted: list[str]) -> None:
    versions = pinned(name)
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_the_image_has_the_packages_that_the_tests_ran_with() -> None:
    assert pinned("run").items() <= pinned("dev").items() & pinned("docs").items()


def test_what_is_installed_is_what_is_pinned() -> None:
    versions = pinned("dev")
    for requirement in map(Requirement, OWN["dependencies"]):
        assert version(requirement.name) == versions[canonicalize_name(requirement.name)]


@pytest.mark.slow
def test_bill_of_materials_names_every_package_and_jar_and_is_the_same_each_time(tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        subprocess.run([sys.executable, "deploy/sbom.py", str(file)], cwd=PROJECT, check=True, capture_output=True)
    texts = [file.read_text() for file in files]
    assert texts[0] == texts[1]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(texts[0]) is None
    bill: dict[str, Any] = json.loads(texts[0])
    packages = {each["purl"] for each in bill["components"]}
    assert {f"pkg:pypi/{name}@{release}" for name, release in pinned("run").items()} <= {p.lower() for p in packages}
    hashes = {each["content"] for component in bill["components"] for each in component.get("hashes", [])}
    assert {jar["sha256"] for jars in described().values() for jar in jars.values()} <= hashes
    assert any(component["name"].startswith("spark-core") for component in bill["components"])


def test_jars_with_known_holes_are_not_among_those_that_are_fetched() -> None:
    kafka = described()["kafka"]
    assert {"lz4-java-1.8.0.jar", "commons-beanutils-1.9.4.jar"}.isdisjoint(kafka)
    assert kafka["lz4-java-1.11.1.jar"]["group"] == "at.yawk.lz4"
