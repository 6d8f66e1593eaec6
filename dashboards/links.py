"""Links to Kibana, with the time and the filter set."""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import quote

from dashboards.queries.search import PREFIX, Span

DATA_VIEW = "kappa-{kind}"


def kibana(kind: str, span: Span, query: str) -> str | None:
    """Discover on a kind of document, with a span and a query in KQL; None without the address of a Kibana."""
    base = os.environ.get(f"{PREFIX}KIBANA_URL", "").rstrip("/")
    if not base:
        return None
    times = f"(time:(from:'{span.start.isoformat()}',to:'{span.end.isoformat()}'))"
    words = query.replace("!", "!!").replace("'", "!'")
    view = f"(dataViewId:{DATA_VIEW.format(kind=kind)},type:dataView)"
    shown = f"(dataSource:{view},query:(language:kuery,query:'{words}'))"
    return f"{base}/app/discover#/?_g={quote(times, safe='')}&_a={quote(shown, safe='')}"


def any_of(field: str, values: Iterable[str]) -> str:
    """A field that has one of these values, in KQL."""
    quoted = ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]
    return f"{field}: ({' or '.join(quoted)})" if quoted else f"{field}: *"
