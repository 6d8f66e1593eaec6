"""Imports saved objects into a Kibana, with the credentials for Elasticsearch, which Kibana checks there.

Kibana's import answers 200 with `success: false` where it took only a part, so the answer is read, not only its status.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import uuid
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from app.core.no_redirect import NoRedirect
from app.core.settings import ElasticsearchSettings
from app.core.web_address import web_address
from app.search.mappings import PROPERTIES
from dashboards.kibana.saved_objects import ndjson
from pipelines.errors import InputError, ServiceUnavailable

PATH = "/api/saved_objects/_import?overwrite=true"
TIMEOUT_SECONDS = 60.0
SHOWN_CHARACTERS = 300
LEADS_ELSEWHERE = range(300, 400)
MOST_BYTES = 16 << 20  # of an answer


def exported() -> str:
    """All saved objects, one a line, made from the mapping of the documents."""
    return ndjson(PROPERTIES)


def put(url: str, own: ElasticsearchSettings) -> dict[str, Any]:
    """Import everything into the Kibana at `url` (a space's address with `/s/NAME`); what is there is replaced.

    Answers `{"url", "objects", "by_type"}`. Raises InputError for what is no address, ServiceUnavailable where Kibana
    does not answer, refuses, or takes only a part.
    """
    address = checked(url)
    body, kind = form(exported())
    headers = {"kbn-xsrf": "kappa", "Content-Type": kind, **credentials(own)}
    answer = ask(Request(address + PATH, data=body, headers=headers, method="POST"), address, own)
    if not answer.get("success"):
        msg = f"Kibana at {address} did not take everything: {first_error(answer)}"
        raise ServiceUnavailable(msg)
    return {"url": address, "objects": answer["successCount"], "by_type": by_type(answer)}


def checked(url: str) -> str:
    """The address without a slash at its end. Raises InputError for one that is none, or that holds a password."""
    try:
        parts = urlsplit(web_address(url))
    except ValueError as error:
        msg = f"kibana import: got {url!r}, wanted an address such as http://127.0.0.1:5601"
        raise InputError(msg) from error
    if parts.username or parts.password or parts.query:
        msg = "kibana import: the address may hold no user and no query; set elasticsearch.username and password"
        raise InputError(msg)
    return url.rstrip("/")


def form(text: str) -> tuple[bytes, str]:
    """A file as a multipart form: the body, and its content type."""
    boundary = uuid.uuid4().hex
    head = (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="file"; filename="kibana.ndjson"\r\n'
        "Content-Type: application/ndjson\r\n\r\n"
    )
    return f"{head}{text}\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def credentials(own: ElasticsearchSettings) -> dict[str, str]:
    """The Authorization header; none without credentials in the settings. An API key wins over user and password."""
    if own.api_key:
        return {"Authorization": f"ApiKey {own.api_key.get_secret_value()}"}
    if own.username:
        password = own.password.get_secret_value() if own.password else ""
        return {"Authorization": "Basic " + base64.b64encode(f"{own.username}:{password}".encode()).decode()}
    return {}


def ask(request: Request, address: str, own: ElasticsearchSettings) -> dict[str, Any]:
    """Kibana's answer. Raises ServiceUnavailable, in one line, where it refuses or does not answer."""
    try:
        # A proxy of the environment is left out where Kibana is on loopback: `app.core.proxies`.
        tls = [HTTPSHandler(context=tls_context(own))] if address.startswith("https") else []
        with build_opener(ProxyHandler(), NoRedirect(), *tls).open(request, timeout=TIMEOUT_SECONDS) as answer:
            found = json.loads(answer.read(MOST_BYTES))
    except HTTPError as error:
        with error:
            raise refused(address, error.code, error.read(MOST_BYTES).decode(errors="replace")) from error
    except (OSError, URLError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        msg = f"Kibana at {address} does not answer ({reason}): see whether it runs, and check the address and ca_certs"
        raise ServiceUnavailable(msg) from error
    except ValueError as error:
        raise not_kibana(address) from error
    if not isinstance(found, dict) or "success" not in found:
        raise not_kibana(address)
    return found


def tls_context(own: ElasticsearchSettings) -> ssl.SSLContext:
    """Whom we trust, and who we are."""
    context = ssl.create_default_context(cafile=own.ca_certs)
    if own.client_cert:
        context.load_cert_chain(own.client_cert, own.client_key)
    return context


def not_kibana(address: str) -> ServiceUnavailable:
    """The error for an answer that is not Kibana's."""
    return ServiceUnavailable(f"what answers at {address} is not Kibana: check the address")


def refused(address: str, status: int, body: str) -> ServiceUnavailable:
    """The error for a refusal: one line, with what to do."""
    if status in LEADS_ELSEWHERE:
        return ServiceUnavailable(
            f"Kibana at {address} answers {status}, it is elsewhere: give the address that it leads to"
        )
    todo = {
        401: "check elasticsearch.username, password or api_key",
        403: "its user may not write saved objects: give it the privilege, or use another",
        404: "check the address: it is that of Kibana, with /s/NAME for a space",
        503: "it is starting, or cannot reach Elasticsearch: try again",
    }.get(status, "see Kibana's log")
    return ServiceUnavailable(f"Kibana at {address} answers {status}, {message_of(body)}: {todo}")


def message_of(body: str) -> str:
    """The message in a refusal, on one line."""
    try:
        found = json.loads(body)
        text = str(found.get("message", body)) if isinstance(found, dict) else body
    except ValueError:
        text = body
    return " ".join(text.split())[:SHOWN_CHARACTERS] or "without a message"


def first_error(answer: dict[str, Any]) -> str:
    """The first object that Kibana refused, and why."""
    errors = answer.get("errors") or [{}]
    first = errors[0]
    why = first.get("error", {})
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    text = why.get("message") or why.get("reason") or why.get("type") or "it gives no reason"
    return f"{first.get('type', 'an object')} {first.get('id', '')}: {' '.join(str(text).split())[:SHOWN_CHARACTERS]}{more}"


def by_type(answer: dict[str, Any]) -> dict[str, int]:
    """How many objects of each type Kibana took."""
    kinds = [result.get("type", "unknown") for result in answer.get("successResults", [])]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
