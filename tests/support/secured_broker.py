"""A real broker that asks who one is: TLS, client certificates, SASL by password and by token, and Kafka's own authorizer."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from support.commands import kappa

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT, Settings, load
from app.embedded.jars import Jars
from app.embedded.jvm import Jvm
from app.embedded.kafka import kafka_command, start_kafka, stop_kafka
from app.kafka.acls import rights
from app.kafka.connection import ALLOWED_URLS
from app.runtime.dashboard import as_variables

PASSWORDS = {
    "agents": "agents-password",
    "jobs": "jobs-password",
    "operators": "operators-password",
    "people": "people-password",
    "readers": "readers-password",
    "responders": "responders-password",
    "notifiers": "notifiers-password",
    "nobody": "nobody-password",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
AUDIENCE = "kafka"
KEY_PASSWORD = "key-password"


class Authority:
    """A certificate authority of a test, and what it signs, as PEM files in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._signed(self._name, self._key.public_key(), timedelta(days=2), authority=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def _signed(self, name: x509.Name, key: Any, life: timedelta, *, authority: bool = False) -> x509.Certificate:
        now = datetime.now(tz=UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3))
            .not_valid_after(now + life)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address(LOOPBACK))]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self._key, hashes.SHA256())

    def sign(self, name: str, life: timedelta = timedelta(days=1), password: str = "") -> tuple[Path, Path]:
        """A certificate and its key, both as files; a life below zero has ended."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate, secret = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(self._signed(subject, key.public_key(), life).public_bytes(serialization.Encoding.PEM))
        closed = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, closed))
        return certificate, secret


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class TokenServer:
    """Gives signed tokens to clients that know their secret, and says by which key they are signed."""

    clients: dict[str, str]
    life_seconds: int = 300
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def reply(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.reply(200, outer.keys())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                who = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                name, _, secret = who.partition(":")
                outer.asked.append(name)
                if form["grant_type"] == ["client_credentials"] and secret and outer.clients.get(name) == secret:
                    self.reply(
                        200,
                        {"access_token": outer.token(name), "expires_in": outer.life_seconds, "token_type": "Bearer"},
                    )
                else:
                    self.reply(401, {"error": "invalid_client"})

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keys(self) -> dict[str, Any]:
        """The public key, as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        n, e = numbers.n.to_bytes(256, "big"), numbers.e.to_bytes(3, "big")
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": encoded(n), "e": encoded(e)}]}

    def token(self, name: str) -> str:
        """A signed token, JWT."""
        now = int(time.time())
        claims = {
            "sub": name,
            "aud": AUDIENCE,
            "iss": self.url,
            "iat": now,
            "exp": now + self.life_seconds,
            "scope": "kafka",
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": "1"}
        text = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{encoded(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@dataclass(frozen=True)
class SecuredBroker:
    """Where it listens: for those who show a certificate, and for those who show a password or a token."""

    by_certificate: str
    by_sasl: str
    plain: str
    authority: Authority
    tokens: TokenServer
    home: Path

    def settings(self, user: str = "", home: Path | None = None, **more: Any) -> Settings:
        """Of a user with SCRAM; or as `more` says."""
        own = {
            "bootstrap_servers": self.by_sasl,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.authority.file,
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": user or None,
            "sasl_password": PASSWORDS.get(user),
        }
        kafka = {name: value for name, value in (own | more).items() if value is not None}
        return load(home=home or self.home, kafka=kafka, jar_folder=PROJECT / ".kappa" / "jars")

    def as_client(self, client: str, secret: str) -> Settings:
        """Of a client that shows a token."""
        return self.settings(
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_url=f"{self.tokens.url}/token",
            sasl_oauth_client_id=client,
            sasl_oauth_client_secret=secret,
        )

    def with_certificate(self, files: tuple[Path, Path], **more: Any) -> Settings:
        """Of a client that shows a certificate."""
        own: dict[str, Any] = {
            "bootstrap_servers": self.by_certificate,
            "security_protocol": "SSL",
            "sasl_mechanism": None,
        }
        return self.settings(**own, ssl_certfile=files[0], ssl_keyfile=files[1], **more)

    def grant(self, principal: str, kind: str, settings: Settings) -> None:
        """Give a user the rights of the table."""
        admin = KafkaAdminClient(bootstrap_servers=self.plain)
        try:
            admin.create_acls(acls(principal, kind, settings))
        finally:
            admin.close()


def acls(principal: str, kind: str, settings: Settings) -> list[ACL]:
    """The rights of the table as kafka-python has them."""
    return [
        ACL(
            principal,
            "*",
            ACLOperation[operation_name(operation)],
            ACLPermissionType.ALLOW,
            ResourcePattern(
                ResourceType.TOPIC,
                right.topic,
                ACLResourcePatternType.PREFIXED if right.prefixed else ACLResourcePatternType.LITERAL,
            ),
        )
        for right in rights(settings)[kind]
        for operation in right.operations
    ]


def operation_name(operation: str) -> str:
    return "".join(f"_{c}" if c.isupper() and n else c for n, c in enumerate(operation)).upper()


@contextmanager
def secured_broker(home: Path) -> Iterator[SecuredBroker]:
    """A broker that ends with the block."""
    authority = Authority(home / "certificates")
    certificate, key = authority.sign("broker")
    tokens = TokenServer({"jobs": "client-secret", "agents": "agents-secret"})
    port, controller, tls, sasl = free_port(None), free_port(None), free_port(None), free_port(None)
    (home / "logs").mkdir(parents=True, exist_ok=True)
    jars = Jars.of(PROJECT / ".kappa" / "jars")
    command = kafka_command(home, jars, 512)
    command = type(command)(
        command.name, command.jars, [*command.options, f"-D{ALLOWED_URLS}={tokens.url}/keys"], command.log
    )
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    at = "listener.name.sasl"
    more = {
        "listeners": (
            f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller},TLS://{LOOPBACK}:{tls},SASL://{LOOPBACK}:{sasl}"
        ),
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port},TLS://{LOOPBACK}:{tls},SASL://{LOOPBACK}:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.read_text(),
        "ssl.keystore.key": key.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.file.read_text(),
        "listener.name.tls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{at}.plain.sasl.jaas.config": f"{PLAIN} required {users};",
        f"{at}.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        f"{at}.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        f"{at}.oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"{tokens.url}/keys",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    scram = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in PASSWORDS.items()]
    jvm = Jvm(command)
    server = None
    try:
        server = start_kafka(jvm, home, port, controller, more, scram)
        yield SecuredBroker(
            f"{LOOPBACK}:{tls}", f"{LOOPBACK}:{sasl}", f"{LOOPBACK}:{port}", authority, tokens, home / "client"
        )
    finally:
        if server is not None:
            stop_kafka(server)
        jvm.end()
        tokens.close()


def kappa_with(settings: Settings, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """The command line with these settings, as its environment has them, and canaries in other secrets."""
    variables = {
        name: text
        for name, text in as_variables(settings).items()
        if name in ("KAPPA_KAFKA", "KAPPA_HOME", "KAPPA_JAR_FOLDER")
    }
    spark = {
        "master": "local[2]",
        "driver_memory": "1g",
        "secret": "c4nary-of-spark",
        "extra": {"spark.hadoop.fs.s3a.secret.key": "c4nary-of-spark"},
    }
    own = {
        "KAPPA_SPARK": json.dumps(spark),
        "KAPPA_ELASTICSEARCH__API_KEY": "c4nary-of-elasticsearch",
        "KAPPA_ELASTICSEARCH__URL": f"http://{LOOPBACK}:9",
        "KAPPA_HEALTH__PORT": "0",
        "KAPPA_WINDOWING__LATENESS_SECONDS": "1",
    }
    return kappa(*arguments, **(variables | own | more))
