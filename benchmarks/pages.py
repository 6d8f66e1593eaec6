"""How long the pages take with 1,000 hosts, 30 days and a million documents, as a browser sees it.

The documents are made here, in the form in which `index` writes them: their contents do not affect the time, their number and spread
do. The overview is ready when Streamlit has run it and its charts are drawn; an incident when its visible part is drawn, and its
other curves are measured separately.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from elasticsearch import Elasticsearch
from elasticsearch.helpers import parallel_bulk

from app.core.ports import port_is_free
from app.core.settings import Settings, load
from app.embedded.stack import Stack, running_stack
from app.runtime import dashboard
from app.search.mappings import ensure_templates
from benchmarks.deployment import say
from models.records.records import SEVERITIES

HOSTS, DAYS, DOCUMENTS = 1_000, 30, 1_000_000
# Of the documents: the others are scores.
SHARES = {"novelties": 0.20, "incidents": 0.03, "pipeline": 0.02}
SINGULAR = {"novelties": "novelty", "incidents": "incident", "pipeline": "refused"}
OPEN_INCIDENTS = 25
SERVICES = ("web", "search", "cache", "batch", "payments", "")
METRICS = ("system.cpu.utilization", "system.memory.used", "service.latency.p95", "service.error.rate", "network.bytes")
KINDS = ("anomaly", "anomaly", "anomaly", "new", "silence", "change")
TEMPLATES = 400
LONGEST_SECONDS = 1_800  # from begin to end of what is closed
CHUNK = 5_000
ROUNDS = 5
MOST_MERGING_SECONDS = 180.0
WINDOW_SECONDS = 10
MINUTES_OF_CURVE = 60
OVERVIEW = (1, json.dumps("Closed incidents"))
# The incident: its timeline is in view; and all four curves are there.
FIRST_OF_INCIDENT = (1, json.dumps("Timeline"))
ALL_OF_INCIDENT = (5, json.dumps("Seen before?"))
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
READY = """() => document.querySelector('[data-testid="stApp"]')?.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid="stSkeleton"], [data-testid="stSpinner"]')
    && document.querySelectorAll('.vega-embed canvas, .vega-embed svg').length >= %d
    && [...document.querySelectorAll('h3')].some(h => h.textContent.includes(%s))"""
# What can be seen without scrolling is there; more may come below it.
IN_VIEW = """() => {
    const seen = what => [...document.querySelectorAll(what)].map(e => e.getBoundingClientRect())
        .filter(r => r.top < window.innerHeight && r.bottom > 0).length;
    return !seen('[data-testid="stSkeleton"], [data-testid="stSpinner"]')
        && seen('.vega-embed canvas, .vega-embed svg') >= %d
        && [...document.querySelectorAll('h3')].some(h => h.textContent.includes(%s)) }"""


def measure(documents: int = DOCUMENTS) -> dict[str, float]:
    """Seconds of the first and of later loads of the pages. Empty without a browser."""
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    if browser is None:
        say("no Chromium on this machine, so pages are not measured: install it (Debian: apt-get install chromium)")
        return {}
    base = load()
    home = base.home / "bench-pages"
    shutil.rmtree(home, ignore_errors=True)
    stack = Stack(home, jars=base.jars, kafka=False, elasticsearch_heap_mib=1024)
    with running_stack(stack, say) as servers:
        own = base.elasticsearch.model_copy(update={"url": servers.elasticsearch})
        settings = base.model_copy(update={"home": home, "elasticsearch": own})
        identity = fill(settings, documents)
        port = next(p for p in range(8601, 8651) if port_is_free(p))
        with dashboard.served(settings, port, say):
            return looked_at(browser, f"http://127.0.0.1:{port}", identity)


# --- documents


def fill(settings: Settings, documents: int) -> str:
    """Write the documents. Answers the id of an open incident."""
    began, now = time.monotonic(), datetime.now(tz=UTC).replace(microsecond=0)
    with Elasticsearch(settings.elasticsearch.url or "", request_timeout=120) as client:
        ensure_templates(client, settings.version, live=True)
        written = 0
        for good, _ in parallel_bulk(client, made(settings.version, documents, now), 2, chunk_size=CHUNK):
            written += good
        client.options(request_timeout=120).indices.refresh(index=f"*-{settings.version}-*")
        settled(client)
    say(f"{written:,} documents of {HOSTS:,} hosts and {DAYS} days in {time.monotonic() - began:.0f} s")
    return "incident-0"


def settled(client: Elasticsearch) -> None:
    """Wait until Elasticsearch has merged what it has: a month's documents do not come within minutes."""
    until = time.monotonic() + MOST_MERGING_SECONDS
    while time.monotonic() < until:
        nodes = client.nodes.stats(metric="indices", index_metric="merge")["nodes"].values()
        if not any(node["indices"]["merges"]["current"] for node in nodes):
            return
        threading.Event().wait(1.0)
    say(f"Elasticsearch goes on merging after {MOST_MERGING_SECONDS:.0f} s: pages are slower than they will be")


def made(version: str, documents: int, now: datetime) -> Iterator[dict[str, Any]]:
    """Documents over the last days; the first incidents are open, the first one's series have a curve."""
    chance = random.Random(7)
    counts = {kind: int(share * documents) for kind, share in SHARES.items()}
    makers = {"novelties": novelty, "incidents": incident, "pipeline": refused}
    for kind, count in counts.items():
        for number in range(count):
            ago = timedelta(seconds=LONGEST_SECONDS + chance.random() * DAYS * 86_400)
            if kind == "incidents" and number < OPEN_INCIDENTS:
                ago = timedelta(minutes=20 + number)
            elif kind == "novelties" and number < OPEN_INCIDENTS * len(METRICS):
                ago = timedelta(minutes=20 + number // len(METRICS))
            yield action(
                kind, version, now - ago, makers[kind](chance, number, now - ago, version), f"{SINGULAR[kind]}-{number}"
            )
    rest = documents - sum(counts.values())
    curve = MINUTES_OF_CURVE * 60 // WINDOW_SECONDS
    for number in range(rest):
        near = number < curve * len(METRICS)
        ago = timedelta(seconds=number // len(METRICS) * WINDOW_SECONDS) if near else random_ago(chance)
        series = (
            series_of(0, number % len(METRICS)) if near else series_of(chance.randrange(HOSTS), number % len(METRICS))
        )
        yield action("scores", version, now - ago, score(chance, series, version), f"score-{number}")


def random_ago(chance: random.Random) -> timedelta:
    """Some time ago."""
    return timedelta(seconds=chance.randrange(DAYS * 8_640) * 10)


def action(kind: str, version: str, time: datetime, source: dict[str, Any], identity: str) -> dict[str, Any]:
    """A document as the bulk helper takes it."""
    name = f"kappa-{kind}-{version}-{time:%Y.%m.%d}"
    return {"_index": name, "_id": identity, "_source": {"@timestamp": time.isoformat(), **source}}


def series_of(host: int, metric: int) -> str:
    """The name of a series."""
    return f"gauge/host-{host:04}/{SERVICES[host % len(SERVICES)]}/{METRICS[metric]}"


def score(chance: random.Random, series: str, version: str) -> dict[str, Any]:
    """What a series scored in a window."""
    value, host = 50 + 10 * chance.random(), series.split("/")[1]
    numbers = {"score": chance.expovariate(1.0), "value": value, "typical": 55.0, "lower": 40.0, "upper": 70.0}
    return {
        "event": {"kind": "metric", "dataset": "kappa.scores"},
        "host": {"name": host},
        "novelty": {"version": version, "series": series, "kind": "normal", "metric": series.split("/")[3], **numbers},
    }


def alert(chance: random.Random, number: int, start: datetime, version: str) -> dict[str, Any]:
    """What novelties and incidents have in common."""
    kind, closed = KINDS[number % len(KINDS)], number >= OPEN_INCIDENTS
    end = start + timedelta(seconds=30 + chance.random() * (LONGEST_SECONDS - 30 if closed else 600))
    reason = f"host-{number % HOSTS:04}: {METRICS[number % len(METRICS)]} {number % 97}.5, expected 26.2 to 37.9"
    event = {"kind": "alert", "start": start.isoformat(), "reason": reason} | (
        {"end": end.isoformat()} if closed else {}
    )
    status = "close" if closed else "update"
    own = {"version": version, "kind": kind, "status": status, "window_end": end.isoformat()}
    return {"event": event, "novelty": own | {"score": 14 + chance.expovariate(0.05)}}


def novelty(chance: random.Random, number: int, start: datetime, version: str) -> dict[str, Any]:
    """What is known of an episode; the first ones are those of open incidents, which are all on the first host."""
    of_open = number < OPEN_INCIDENTS * len(METRICS)
    host = 0 if of_open else chance.randrange(HOSTS)
    document = alert(chance, 0 if of_open else number, start, version)
    document["novelty"] |= {
        "series": series_of(host, number % len(METRICS)),
        "value": 80.0,
        "typical": 55.0,
        "lower": 40.0,
    }
    if document["novelty"]["kind"] == "new":
        document["novelty"]["template"] = f"connection <*> lost by worker kind{number % TEMPLATES}"
    return document | {
        "host": {"name": f"host-{host:04}"},
        "service": {"name": SERVICES[host % len(SERVICES)] or "base"},
    }


def incident(chance: random.Random, number: int, start: datetime, version: str) -> dict[str, Any]:
    """What is known of an incident."""
    document = alert(chance, number, start, version)
    first = 0 if number < OPEN_INCIDENTS else chance.randrange(HOSTS)
    hosts = [first, *[chance.randrange(HOSTS) for _ in range(number % 3)]]
    series = [series_of(host, metric) for host in hosts for metric in range(len(METRICS))]
    shares = [
        {"series": name, "share": 1 / len(series), "score": 20.0, "kind": "anomaly", "reason": name} for name in series
    ]
    # Of closed ones some episode of the same number: it is shown, whatever its host is.
    episodes = [f"novelty-{number * len(METRICS) + metric}" for metric in range(len(METRICS))]
    document["novelty"] |= {"novelties": len(series), "contributions": shares, "episodes": episodes}
    document["novelty"]["severity"] = SEVERITIES[number % len(SEVERITIES)]
    return document | {"host": {"name": [f"host-{host:04}" for host in hosts]}}


def refused(chance: random.Random, number: int, start: datetime, version: str) -> dict[str, Any]:
    """A record that was refused."""
    dataset = "kappa.late" if number % 3 else "kappa.dead-letters"
    source_position = {
        "version": version,
        "topic": "telemetry",
        "partition": 0,
        "offset": number,
        "stage": "extract",
        "length": 26,
    }
    event = {"kind": "pipeline_error", "dataset": dataset, "reason": f"reason {chance.randrange(8)}"}
    return {"event": event, "message": '{"metric.value": "twelve"}', "pipeline": source_position}


# --- the browser


def looked_at(browser: str, address: str, identity: str) -> dict[str, float]:
    """Medians of how long pages take, seconds."""
    from playwright.sync_api import sync_playwright

    figures = {}
    overview = READY % OVERVIEW
    pages = {
        "overview": ("?range=24h", overview),
        "overview_30d": ("?range=30d", overview),
        "incident": (f"incident?incident={identity}", IN_VIEW % FIRST_OF_INCIDENT),
    }
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
        tab = started.new_page(viewport={"width": 1440, "height": 1000})
        tab.set_default_timeout(120_000)
        for name, (path, there) in pages.items():
            took = [ready(tab, f"{address}/{path}", there) for _ in range(ROUNDS + 1)]
            figures[f"pages_{name}_first_seconds"] = took[0]
            figures[f"pages_{name}_seconds"] = statistics.median(took[1:])
            say(f"{name}: " + ", ".join(f"{seconds:.2f}" for seconds in took) + " s")
        clicks = [clicked(tab, address) for _ in range(ROUNDS)]
        figures["pages_incident_click_seconds"] = statistics.median(first for first, _ in clicks)
        figures["pages_incident_whole_seconds"] = statistics.median(whole for _, whole in clicks)
        say("incident by a click: " + ", ".join(f"{first:.2f} ({whole:.2f} whole)" for first, whole in clicks) + " s")
        started.close()
    return figures


def ready(tab: Any, url: str, there: str) -> float:
    """Seconds from going to an address until its page is there."""
    began = time.monotonic()
    tab.goto(url, wait_until="commit")
    tab.wait_for_function(there, polling=20)
    return time.monotonic() - began


def clicked(tab: Any, address: str) -> tuple[float, float]:
    """Seconds from a click on an incident of the overview until what is in view is there, and until all of it is."""
    ready(tab, f"{address}/?range=24h", READY % OVERVIEW)
    began = time.monotonic()
    # Of incidents that began together the links are hidden, behind one line.
    tab.locator('[data-testid="stPageLink"] a[href*="incident="]:visible').first.click()
    tab.wait_for_function(IN_VIEW % FIRST_OF_INCIDENT, polling=20)
    first = time.monotonic() - began
    tab.wait_for_function(READY % ALL_OF_INCIDENT, polling=20)
    return first, time.monotonic() - began
