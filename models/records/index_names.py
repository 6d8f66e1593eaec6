"""Names in Elasticsearch. All begin with `kappa-`, so that a cluster which others use too has no second `incidents`.

kappa-KIND-VERSION-YYYY.MM.DD   an index of a version's documents
kappa-KIND-VERSION              the alias of all of them, and the name of their index template
kappa-KIND                      the alias of what the versions that serve have decided, and the name of the lifecycle
kappa-labels-YYYY.MM            an index of labels, which belong to no version; their alias and template is kappa-labels
kappa-deliveries-YYYY.MM        the same of notifications
kappa-early-YYYY.MM             the same of early alarms
"""

from __future__ import annotations

PREFIX = "kappa-"
INDEX_KINDS = ("scores", "novelties", "incidents", "pipeline")
LABELS, DELIVERIES, EARLY = SHARED = ("labels", "deliveries", "early")


def alias_of(kind: str, version: str = "") -> str:
    """The alias of a kind of documents: that of a version, or without one that of the versions that serve."""
    return f"{PREFIX}{kind}-{version}" if version else f"{PREFIX}{kind}"


def version_of(name: str) -> str:
    """The version whose alias this is; empty for any other name."""
    for kind in INDEX_KINDS:
        begin = alias_of(kind) + "-"
        if name.startswith(begin):
            return name.removeprefix(begin)
    return ""
