"""What Elasticsearch means when it refuses: who we are is wrong (401), or what we may do is too little (403). And why it does not answer."""

from __future__ import annotations

import re
from typing import Any

from elastic_transport import TlsError
from elasticsearch import ApiError, UnsupportedProductError

UNKNOWN, FORBIDDEN = 401, 403
GRANTED_BY = re.compile(r"granted by the (\w+) privileges \[([^\]]{1,200})\]")
OF_ANOTHER_RELEASE = "media_type_header_exception"  # it does not know the form of our requests
SHOWN_CHARACTERS = 300
OF_OPENSSL = re.compile(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$")  # around the words of an error


def describe_refusal(error: ApiError) -> str:
    """The answer in words, with what to do where it is about us; other errors as they are, on one line."""
    if isinstance(error, UnsupportedProductError):
        return f"answers {error.status_code} and is no Elasticsearch: check elasticsearch.url, and what a proxy before it answers"
    why = error_reason(error)
    if error.status_code == UNKNOWN:
        key = "elasticsearch.api_key: it may have ended, or not be `encoded` of the answer that made it"
        return f"does not know us (401): check elasticsearch.username and password, or {key}"
    if error.status_code == FORBIDDEN:
        privilege = GRANTED_BY.search(why)
        todo = (
            f"give this user or API key one of the {privilege[1]} privileges {privilege[2]}"
            if privilege
            else "see which privileges this user or API key has"
        )
        return f"does not permit it (403: {why}): {todo} (docs/security.md)"
    if OF_ANOTHER_RELEASE in str(error.body):
        todo = "it is older than Elasticsearch 8 and cannot be used: upgrade it, or set elasticsearch.url to another"
        return f"answers {error.status_code} ({why}): {todo}"
    return f"answers {error.status_code}" + (f" ({why})" if why else "")


def describe_no_answer(error: BaseException | None) -> str:
    """Why there is no answer, with what to do where certificates are at fault: the server may run well."""
    if isinstance(error, TlsError):
        why = " ".join(OF_OPENSSL.sub("", error.message).split())[:SHOWN_CHARACTERS]
        return f"cannot be reached by TLS ({why}): check elasticsearch.url, elasticsearch.ca_certs and the server's certificate"
    return f"does not answer ({type(error).__name__})"


def error_reason(error: ApiError) -> str:
    """The reason in the answer, on one line."""
    body: Any = error.body
    found = body.get("error", "") if isinstance(body, dict) else body
    text = str(found.get("reason", "")) if isinstance(found, dict) else str(found or "")
    return " ".join(text.split())[:SHOWN_CHARACTERS]
