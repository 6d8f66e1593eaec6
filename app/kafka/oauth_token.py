"""The token that kafka-python shows with OAUTHBEARER: fetched by the client's id and secret, and again before it ends."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http import HTTPStatus
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from app.core.no_redirect import NoRedirect
from app.core.settings import KafkaSettings

TIMEOUT_SECONDS = 10.0
MOST_BYTES = 1 << 20
USED_SHARE = 0.8  # of a token's life, as the Java client does
LEAST_SECONDS = 30.0  # of a token whose answer does not say how long it lives
AWAY = (408, 429)  # answers that say nothing of us, as do those of 500 and more


class TokenEndpointAway(KafkaConnectionError):  # type: ignore[misc]  # kafka-python has no types
    """The token endpoint gives no token now, and may later."""


class OAuthToken(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Asks the token endpoint, client credentials grant of RFC 6749; threads share one token."""

    def __init__(self, kafka: KafkaSettings) -> None:
        super().__init__()
        secret = kafka.sasl_oauth_client_secret.get_secret_value() if kafka.sasl_oauth_client_secret else ""
        who = f"{quote_plus(kafka.sasl_oauth_client_id or '')}:{quote_plus(secret)}".encode()
        scope = {"scope": kafka.sasl_oauth_scope} if kafka.sasl_oauth_scope else {}
        self._url = kafka.sasl_oauth_token_url or ""
        self._body = urlencode({"grant_type": "client_credentials"} | scope).encode()
        self._headers = {"Authorization": f"Basic {base64.b64encode(who).decode()}", "Accept": "application/json"}
        trust = HTTPSHandler(context=trusting(str(kafka.ssl_cafile or "")))
        # A proxy of the environment is left out where the endpoint is on loopback: `app.core.proxies`.
        self._opener = build_opener(ProxyHandler(), NoRedirect(), trust)
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def token(self) -> str:
        """The token. Raises SaslAuthenticationFailedError where the endpoint refuses it, TokenEndpointAway where it does not answer."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._token, seconds = self._fetched()
                self._until = time.monotonic() + seconds * USED_SHARE
            return self._token

    def _fetched(self) -> tuple[str, float]:
        try:
            with self._opener.open(Request(self._url, self._body, self._headers), timeout=TIMEOUT_SECONDS) as answer:
                found = json.loads(answer.read(MOST_BYTES))
            return str(found["access_token"]), float(found.get("expires_in") or LEAST_SECONDS)
        except HTTPError as error:
            error.close()
            msg = f"the token endpoint {self._url} answers {error.code}"
            is_away = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in AWAY
            raise (TokenEndpointAway if is_away else SaslAuthenticationFailedError)(msg) from None
        except OSError as error:
            why = getattr(error, "reason", error)
            msg = f"the token endpoint {self._url} does not answer: {why}"
            not_trusted = isinstance(why, ssl.SSLError)
            raise (SaslAuthenticationFailedError if not_trusted else TokenEndpointAway)(msg) from None
        except (ValueError, KeyError, TypeError):
            msg = f"what answers at {self._url} gives no token"
            raise SaslAuthenticationFailedError(msg) from None


def trusting(cafile: str) -> ssl.SSLContext:
    """Trusts what Python trusts, and the authorities of a file if there is one."""
    context = ssl.create_default_context()
    if cafile:
        context.load_verify_locations(cafile)
    return context
