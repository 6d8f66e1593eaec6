"""Java options that let the runtime of the wheel reach the network as Python does: same authorities, same proxies.

The wheel's own list of certificate authorities knows nothing of a company's, which every other program on the machine
trusts, and Java reads none of the usual proxy variables.
"""

import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from app.embedded.java import server_java
from app.embedded.jvm import Jvm, JvmCommand

_PASSWORD = "changeit"  # Java's own public default: a list of authorities holds no secret
_STORE_OPTIONS = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]


def network_options(folder: Path) -> list[str]:
    """The options; the list of authorities is written to `folder`. StackError where Java does not start."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "authorities.p12"
    _write_trust_store(store, _authorities(), folder / "authorities.log")
    trust = [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]
    return trust + proxy_options(getproxies())


def proxy_options(proxies: dict[str, str]) -> list[str]:
    """From the form of `urllib.request.getproxies` to Java's properties; without a proxy's user and password."""
    options = []
    for scheme in ("http", "https"):
        address = urlsplit(proxies.get(scheme, ""))
        if address.hostname:
            options += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={address.port or 80}"]
    excepted = [host.strip() for host in proxies.get("no", "").split(",") if host.strip()]
    if options and excepted:
        patterns = "|".join(f"*{host}" if host.startswith(".") else host for host in excepted)
        options.append(f"-Dhttp.nonProxyHosts={patterns}")
    return options


def _authorities() -> list[bytes]:
    """The certificates that Python trusts by default, in DER."""
    context = ssl.create_default_context()
    folder = ssl.get_default_verify_paths().capath
    if folder:
        # OpenSSL reads the folder of hashed names only when it verifies; here the files have to be named.
        for file in Path(folder).glob("*.[0-9]"):
            context.load_verify_locations(cafile=file)
    return list(context.get_ca_certs(binary_form=True))


def _write_trust_store(store: Path, authorities: list[bytes], log: Path) -> None:
    jvm = Jvm(JvmCommand("Java's list of authorities", [], _STORE_OPTIONS, log))
    try:
        java = jvm.connect()
        keys = java.java.security.KeyStore.getInstance("PKCS12")
        keys.load(java.java.io.FileInputStream(str(_own_authorities())), None)
        factory = java.java.security.cert.CertificateFactory.getInstance("X.509")
        for number, der in enumerate(authorities):
            certificate = factory.generateCertificate(java.java.io.ByteArrayInputStream(der))
            keys.setCertificateEntry(f"machine-{number}", certificate)
        draft = store.with_name(f"{store.name}.{os.getpid()}")
        stream = java.java.io.FileOutputStream(str(draft))
        # py4j turns every Java string into a Python one, so an array of characters has to come from a buffer.
        keys.store(stream, java.java.nio.CharBuffer.allocate(len(_PASSWORD)).put(_PASSWORD).array())
        stream.close()
        draft.replace(store)
    finally:
        jvm.end()


def _own_authorities() -> Path:
    return server_java().parent.parent / "lib" / "security" / "cacerts"
