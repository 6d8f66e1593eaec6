"""What MkDocs does with the documents, beside its own: README and change log are pages, and links to sources are only names.

The documents are written for a reader of the repository, where links may go anywhere. On the site there are the pages of docs alone.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changes.md"}  # of the root, by their names on the site
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
FOREIGN = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^ >]*")
FENCED = re.compile(r"(^```.*?^```)", re.S | re.M)


def on_config(config: Any) -> Any:
    """The decisions, in their order, are the last part of the navigation."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    config.nav = [*config.nav, {"Decisions": [f"decisions/{file.name}" for file in decisions]}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page with the links of the site. What stands in a fenced block is left alone."""
    known = {there: name for name, there in PAGES.items()}
    file = known.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else of_the_site(part, file, page.file.src_uri) for part in parts)


def of_the_site(text: str, file: str, page: str) -> str:
    """Text of a document (`file`, its path in the repository) as it stands on a page of the site."""
    text = PICTURE.sub(lambda m: f"![{m[1]}]({target(m[2], file, page)})", text)
    text = LINK.sub(lambda m: link(m[1], m[2], file, page), text)
    # Where a table's cell is code, GitHub wants a bar in it masked, and MkDocs does not.
    rows = (
        re.sub(r"`[^`]*`", lambda m: m[0].replace(r"\|", "|"), row) if row.startswith("|") else row
        for row in text.split("\n")
    )
    return "\n".join(rows)


def link(words: str, address: str, file: str, page: str) -> str:
    """A link, or its words alone where the site does not have what it leads to."""
    found = target(address, file, page)
    return words if found is None else f"[{words}]({found})"


def target(address: str, file: str, page: str) -> str | None:
    """Where a link of a document leads on the site, seen from a page; None for what is not there."""
    if "//" in address or address.startswith("#"):
        return address
    path, mark, anchor = address.partition("#")
    full = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
    there = PAGES.get(full) or (full.removeprefix("docs/") if full.startswith("docs/") else None)
    if there is None:
        return None
    return posixpath.relpath(there, posixpath.dirname(page) or ".") + mark + anchor


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The page as it is written. Raises PluginError where a browser would fetch a part of it from another host."""
    found = FOREIGN.search(output)
    if found is not None:
        msg = f"{page.file.src_uri} would load {found[0]}: nothing on the site may come from another host"
        raise PluginError(msg)
    return output
