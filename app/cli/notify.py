"""`kappa notify`: try a channel, and see who would be notified of an incident, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table
from app.core.settings import Settings, load
from app.core.timestamps import wall_clock
from app.versions import serving
from pipelines.errors import InputError

notify_app = typer.Typer(help="Test channels, and explain who is notified of an incident.", no_args_is_help=True)


@notify_app.command("test")
def test(
    channel: Annotated[str, typer.Argument(help="Name of a channel in notify.channels.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Send one message to a channel, once, and print its answer."""
    from app.notify.channels.channel import ChannelRefused, Unreachable  # loads what reads incidents
    from app.notify.channels.kinds import open_channel  # loads apprise
    from app.notify.notification import channel_test

    settings = load(config)
    sender = open_channel(settings.notify, channel)
    try:
        # An Alertmanager tells nobody of what is over, and ends by itself what is not sent again.
        answer = sender.send(channel_test(wall_clock(), "open" if sender.resends else "close"), wall_clock())
    except Unreachable as error:
        msg = f"channel {channel} did not take it: {error}"
        raise Unreachable(msg) from error
    except ChannelRefused as error:
        msg = f"channel {channel} refuses it: {error}"
        raise ChannelRefused(msg) from error
    finally:
        sender.close()
    if as_json:
        print_json({"channel": channel, "answer": answer})
        return
    print_line(f"{channel}: {answer}")


@notify_app.command("explain")
def explain(
    incident: Annotated[
        str, typer.Argument(help="Id of the incident, as in the topic incidents and on the dashboard.")
    ],
    version: Annotated[
        str | None, typer.Option(help="Version of the incident. Default: the version that serves.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say which routes match an incident, why, and what each channel would be sent. Sends nothing."""
    settings = connected(serving.of_version(config, version), ("kafka",))
    found = explained(settings, incident)
    if as_json:
        print_json(found)
        return
    print_line(f"incident {incident}: {found['kind']}, {found['severity']}, {found['status']}: {found['reason']}")
    print_table(
        "routes" if found["routes"] else "routes: none",
        ["route", "matches"],
        [
            [one["route"], one["mismatch"] or ("yes" if one["counts"] else "yes, but an earlier one counts")]
            for one in found["routes"]
        ],
    )
    rows = [[one["channel"], one["why"]] for one in (*found["channels"], *found["escalates"])]
    print_table("channels" if rows else "channels: none, nobody is notified", ["channel", "by"], rows)
    if not found["serves"]:
        print_line(
            f"version {settings.version} did not serve when it was published, and notify.versions does not name it: "
            "only channels that know it already are notified"
        )
    if found["channels"]:
        for line in (found["title"], *found["text"].split("\n")):
            print_line(line)


def explained(settings: Settings, identity: str) -> dict[str, Any]:
    """What each route says of the last record of an incident, and what would be sent where. Raises InputError where there is none.

    `serves`: whether who does not know the incident is notified of it by that record; else no channel is listed. `counts`, of a route: whether it
    is among those that lead it somewhere.
    """
    from app.kafka.rule_topic import RuleTail  # loads Kafka's client
    from app.notify.incidents_reader import is_news
    from app.notify.links import Links
    from app.notify.notification import incident_notification
    from app.notify.routes import Routes
    from app.notify.search import last_record

    found = last_record(settings, identity)
    if found is None:
        msg = (
            f"version {settings.version} has no incident {identity} in its topic incidents; see its id on the dashboard or in "
            "`kappa watch --lines`, or name another --version"
        )
        raise InputError(msg)
    routes, rules = Routes(settings.notify), RuleTail(settings)
    routes.take(rules.read().records, rules.window_ms)
    note = incident_notification(found, found.status, found.id, Links.of(settings))
    serves = is_news(settings.notify, serving.read(settings.home), found)
    verdicts = routes.verdicts(found)
    matching = [one.title for one in verdicts if not one.mismatch]
    counts = matching[: 1 if settings.notify.match == "first" else None]
    return {
        "incident": found.id,
        "status": found.status,
        "kind": found.kind,
        "severity": found.severity,
        "reason": found.reason,
        "serves": serves,
        "routes": [
            {
                "route": one.title,
                "matches": not one.mismatch,
                "mismatch": one.mismatch,
                "counts": one.title in counts,
            }
            for one in verdicts
        ],
        "channels": [{"channel": one.channel, "why": one.why} for one in routes.routed(found) if serves],
        "escalates": [{"channel": one.channel, "why": one.why} for one in routes.escalated(found) if serves],
        "title": note.title,
        "text": note.text,
        "link": note.link,
        "runbook": note.runbook,
    }
