"""All searches of the pages: Elasticsearch client in, data frames out.

A module for each page; `search` reaches the server, `frames` makes frames of its answers, `episodes` knows novelties and
incidents.
"""

from dashboards.queries.episodes import INCIDENT, NOVELTY, judged_until, span_of
from dashboards.queries.frames import Listing
from dashboards.queries.search import Connection, QueryError, Span

__all__ = ["INCIDENT", "NOVELTY", "Connection", "Listing", "QueryError", "Span", "judged_until", "span_of"]
