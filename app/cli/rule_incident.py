"""Rules about an incident, as its page writes them: a mute of what is strange in it, or its hosts' maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.cli.rule_files import checked
from models.core.series import PARTS, Series, parse
from models.records.records import MOST_COMMENT, RuleRecord
from models.rules.rule import REGEX, literal
from models.rules.rule_log import MOST_REGEX
from pipelines.errors import InputError

MUTE, MAINTENANCE = ("mute", "maintenance")
ANSWERS = {MUTE: "muted", MAINTENANCE: "in maintenance"}
MOST_HOSTS = 50
SHOWN_ID = 12


def rules_of_incident(
    identity: str, incident: Mapping[str, Any], what: str, since: str | None, until: str | None, **about: str
) -> list[dict[str, Any]]:
    """Records of rules about an incident.

    Parameters
    ----------
    identity
        Its id.
    incident
        Its `series`, `host`, `start` and `end`.
    what
        `mute`: what its series are about is muted on their hosts until `until`, or for ever. `maintenance`: its hosts were planned
        from `since` to `until`, or from its start to its end.
    since, until
        ISO 8601 with a zone.
    about
        `comment`, `author`.

    Returns
    -------
    list of dict
        A record for each kind of series, or for each host.

    Raises
    ------
    InputError
        It is about too many hosts, or has no end and none is given.
    """
    texts = {name: text for name, text in about.items() if text} | {"incident": identity}
    if what == MUTE:
        found = [selected | {"mute": True} for selected in selectors(list(map(parse, incident["series"])))]
        span = {"until": until} if until else {}
    else:
        end = until or incident["end"]
        if end is None:
            msg = f"incident {identity} is open, so its maintenance has no end; give --until"
            raise InputError(msg)
        found = [{"host": literal(host), "planned": True} for host in hosts_of(incident)]
        span = {"since": since or incident["start"], "until": end}
    head = {"record": RuleRecord.KIND}
    names = [f"{what} {identity[:SHOWN_ID]} {number}" for number in range(1, len(found) + 1)]
    return [head | {"name": name} | one | span | texts for name, one in zip(names, found, strict=True)]


def writable(records: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The records that can be rules, and how many cannot: the pattern of a name is too long, as of one of many `*`.

    Senders choose names, so one of them must not keep the other rules from being written. Raises InputError where none can be a rule.
    """
    found, refused = [], []
    for record in records:
        try:
            found.append(checked(record["name"], record))
        except InputError as error:
            refused.append(error)
    if refused and not found:
        raise refused[0]
    return found, len(refused)


def answer_of(what: str, comment: str) -> str:
    """What the label says with which whoever writes the rules answers the incident, cut at MOST_COMMENT characters."""
    return f"{ANSWERS[what]}{f': {comment}' if comment else ''}"[:MOST_COMMENT]


def hosts_of(incident: Mapping[str, Any]) -> list[str]:
    """The hosts of an incident. Raises InputError for none, or too many."""
    hosts = sorted({*incident["host"], *(parse(name).host for name in incident["series"])} - {""})
    if not 0 < len(hosts) <= MOST_HOSTS:
        msg = f"the incident has {len(hosts)} hosts, wanted 1 to {MOST_HOSTS}; write the rule into a file for `kappa rules apply`"
        raise InputError(msg)
    return hosts


def selectors(series: Sequence[Series]) -> list[dict[str, str]]:
    """Patterns that match these series and the same of other labels: one for each service, metric, level or template, with its hosts."""
    hosts: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for one in series:
        hosts.setdefault(tuple(sorted(parts_of(one).items())), set()).add(one.host)
    return [place | dict(parts) for parts, own in sorted(hosts.items()) for place in places_of(own)]


def parts_of(series: Series) -> dict[str, str]:
    """The patterns of a series without its host. Labels of a metric are left out, so that all are matched."""
    texts = {"service": series.service, "metric": series.metric.partition("{")[0] or series.metric}
    texts |= {"level": series.level, "template": series.template_id}
    return {"kind": series.kind} | {part: literal(texts[part]) for part in PARTS[series.kind] if part in texts}


def places_of(hosts: set[str]) -> list[dict[str, str]]:
    """The patterns of the hosts of series; without a host where they are of the whole fleet."""
    return [{"host": pattern} for pattern in patterns_of(sorted(hosts - {""}))] if any(hosts) else [{}]


def patterns_of(hosts: Sequence[str]) -> list[str]:
    """Patterns that match these hosts and no others: one of alternatives where they fit into it, else one each."""
    if len(hosts) == 1:
        return [literal(hosts[0])]
    plain = all(c.isascii() and (c.isalnum() or c in "-_.") for host in hosts for c in host)
    joined = REGEX + "|".join(host.replace(".", r"\.") for host in hosts)
    if plain and len(joined) <= MOST_REGEX:
        return [joined]
    if len(hosts) > MOST_HOSTS:
        msg = f"the incident has {len(hosts)} hosts, wanted at most {MOST_HOSTS}; write the rule into a file for `kappa rules apply`"
        raise InputError(msg)
    return [literal(host) for host in hosts]
