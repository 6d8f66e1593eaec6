"""A real Elasticsearch node in a JVM of its own, on loopback only, without its distribution's scripts and modules."""

import filecmp
import http.client
import json
import shutil
from pathlib import Path
from typing import Any

from app.core.errors import StackError
from app.core.ports import LOOPBACK
from app.embedded.jars import Jars
from app.embedded.jvm import Jvm, JvmCommand
from app.embedded.server_options import server_options

_YELLOW_SECONDS = 60
_HEALTH = ("green", "yellow", "red")

# A module is a folder with this file and its jars; without `modulename` it is loaded as plain classes.
_NETTY_MODULE = """\
name=transport-netty4
description=The HTTP and transport layer
version={version}
elasticsearch.version={version}
java.version=21
classname=org.elasticsearch.transport.netty4.Netty4Plugin
"""


def elasticsearch_version(jars: Jars) -> str:
    """The version in the name of its jar."""
    stems = [jar.stem.removeprefix("elasticsearch-") for jar in jars.elasticsearch]
    return next(stem for stem in stems if stem[0].isdigit())


def elasticsearch_command(home: Path, jars: Jars, heap_mib: int) -> JvmCommand:
    """The command of its JVM. Creates the node's folder as Elasticsearch expects it."""
    folder = home / "elasticsearch"
    (folder / "config").mkdir(parents=True, exist_ok=True)
    _lay_out_module(folder / "modules" / "transport-netty4", jars)
    log = home / "logs" / "elasticsearch.log"
    options = [*server_options(home, "elasticsearch", log, heap_mib), f"-Des.path.home={folder}"]
    return JvmCommand("Elasticsearch", jars.elasticsearch, options, log, killed_with_launcher=True)


def _lay_out_module(folder: Path, jars: Jars) -> None:
    """Copy the jars of the module; those of an earlier version and incomplete ones are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {jar.name: jar for jar in jars.netty}
    for present in folder.iterdir():
        if present.name not in wanted or not filecmp.cmp(present, wanted[present.name], shallow=False):
            present.unlink()
    for name, jar in wanted.items():
        if not (folder / name).exists():
            shutil.copyfile(jar, folder / name)
    descriptor = _NETTY_MODULE.format(version=elasticsearch_version(jars))
    (folder / "plugin-descriptor.properties").write_text(descriptor)


def elasticsearch_settings(home: Path, port: int, transport_port: int) -> dict[str, str]:
    """The node's settings."""
    folder = home / "elasticsearch"
    return {
        "path.home": str(folder),
        "path.data": str(folder / "data"),
        "path.logs": str(home / "logs"),
        "cluster.name": "kappa",
        "node.name": "embedded",
        "discovery.type": "single-node",
        "network.host": LOOPBACK,
        "http.port": str(port),
        "transport.port": str(transport_port),
        # A developer's disk is often fuller than a server's may be; indices would become read-only.
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    }


def start_elasticsearch(jvm: Jvm, home: Path, port: int, transport_port: int) -> Any:
    """Start it and return the node, once its indices answer; py4j's Py4JError or StackError if it does not."""
    java = jvm.connect()
    java.org.elasticsearch.common.logging.LogConfigurator.configureESLogging()
    # Its subclasses and it need one another to be loaded: two threads of which each begins with another one wait for ever.
    java.java.lang.Class.forName("org.elasticsearch.ElasticsearchException")
    builder = java.org.elasticsearch.common.settings.Settings.builder()
    for key, value in elasticsearch_settings(home, port, transport_port).items():
        builder.put(key, value)
    config = java.java.io.File(str(home / "elasticsearch" / "config")).toPath()
    environment = java.org.elasticsearch.env.Environment(builder.build(), config)
    loader = java.org.elasticsearch.plugins.PluginsLoader
    modules = loader.loadModulesBundles(environment.modulesDir(), False)
    plugins = loader.createPluginsLoader(modules, java.java.util.Set.of(), java.java.util.Map.of(), False)
    node = java.org.elasticsearch.node.Node(environment, plugins)
    node.start()
    health = cluster_health(port, _YELLOW_SECONDS)
    if health not in ("yellow", "green"):
        what = f"its indices did not come back within {_YELLOW_SECONDS} s (health: {health})"
        raise jvm.failure(what)
    return node


def cluster_health(port: int, wait_seconds: int, answer_seconds: float = 5.0) -> str:
    """green, yellow or red, after waiting for at least yellow; StackError where nothing answers so many seconds later."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=wait_seconds + answer_seconds)
    try:
        connection.request("GET", f"/_cluster/health?wait_for_status=yellow&timeout={wait_seconds}s")
        return str(json.loads(connection.getresponse().read())["status"])
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        msg = f"Elasticsearch does not answer on {LOOPBACK}:{port}: {error}"
        raise StackError(msg) from error
    finally:
        connection.close()


def elasticsearch_answers(port: int, wait_seconds: float) -> bool:
    """Whether it says how it is, be that red. One that hangs may still take connections, and answer for an address that it does not know."""
    try:
        return cluster_health(port, 0, wait_seconds) in _HEALTH
    except StackError:
        return False


def stop_elasticsearch(node: Any) -> None:
    """Flush and close; returns when the data are at rest."""
    node.close()
