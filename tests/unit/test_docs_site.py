"""The site of the documents: it has every page, links lead where they should, and nothing comes from another host."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from app.core.settings import PROJECT

MADE = {"index.md", "changes.md"}  # of README.md and CHANGELOG.md


def pages(nav: Any) -> list[str]:
    """The pages of a part of the navigation, in its order."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in pages(part)]


@pytest.fixture
def site() -> Any:
    pytest.importorskip("mkdocs", reason="make docs-site installs it")
    from deploy import docs_site

    return docs_site


def test_every_document_is_in_the_navigation_once() -> None:
    text = re.sub(r"!!python\S+", "", (PROJECT / "mkdocs.yml").read_text())
    found = pages(YAML(typ="safe").load(text)["nav"])
    assert sorted(found) == sorted({file.name for file in (PROJECT / "docs").glob("*.md")} | MADE)


def test_links_lead_to_pages_and_what_the_site_does_not_have_is_only_named(site: Any) -> None:
    readme = "[a](docs/inputs.md#changes) ![b](docs/pictures/x.png) [c](app/core/logs.py) [d](https://a.example/) [e](#limits)"
    assert site.of_the_site(readme, "README.md", "index.md") == (
        "[a](inputs.md#changes) ![b](pictures/x.png) c [d](https://a.example/) [e](#limits)"
    )
    decision = "[a](../architecture.md) [b](../../CHANGELOG.md) [c](0002-x.md) [d](../../app)"
    assert site.of_the_site(decision, "docs/decisions/0001-x.md", "decisions/0001-x.md") == (
        "[a](../architecture.md) [b](../changes.md) [c](0002-x.md) d"
    )


def test_fenced_blocks_are_left_alone_and_bars_in_code_of_tables_are_bare(site: Any) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="a.md"))
    text = "| `A \\| B` |\n\n```\n[x](../app) | `\\|`\n```\n[x](../app)"
    assert site.on_page_markdown(text, page) == "| `A | B` |\n\n```\n[x](../app) | `\\|`\n```\nx"


@pytest.mark.parametrize(
    "part", ['<script src="https://a.example/x.js">', "<link href=//a.example/x.css rel=stylesheet>"]
)
def test_a_part_from_another_host_ends_the_build(site: Any, part: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="a.md"))
    links = '<a href="https://a.example/">elsewhere</a> <script src="assets/x.js">'
    assert site.on_post_page(links, page) == links
    with pytest.raises(Exception, match=r"a\.md would load .*a\.example"):
        site.on_post_page(links + part, page)


@pytest.mark.slow
def test_a_link_to_nothing_ends_the_build(site: Any, tmp_path: Path) -> None:
    """As the real configuration has it: strict, anchors included."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    (tmp_path / "docs").mkdir()
    for text in ("[a](b.md)", "[a](#nowhere)"):
        (tmp_path / "docs" / "index.md").write_text(f"# A\n\n{text}\n")
        config = load_config(
            str(PROJECT / "mkdocs.yml"),
            docs_dir=str(tmp_path / "docs"),
            site_dir=str(tmp_path / "site"),
            hooks=[],
            nav=["index.md"],
        )
        with pytest.raises(Exception, match="strict mode"):
            build(config)
