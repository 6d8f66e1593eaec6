"""What services and systems say in their logs: templates with typed parameters, levels, and how common they are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
LEVEL_SHARE = (0.06, 0.87, 0.055, 0.015)
SYSTEM_UNITS = ("sshd", "cron", "kernel", "systemd")
PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Template:
    """One kind of line. `release` is `always`, `before` or `after` a deployment, or `extra` for those of episodes."""

    service: str
    level: str
    weight: float
    text: str
    release: str = "always"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Kinds of the parameters, in order."""
        return tuple(PARAMETER.findall(self.text))

    @property
    def pattern(self) -> str:
        """A `%` format of the message as it stands in JSON."""
        return PARAMETER.sub("%s", json.dumps(self.text, ensure_ascii=False)[1:-1].replace("%", "%%"))

    @property
    def literals(self) -> list[str]:
        """The constant parts, at least four characters long, longest first."""
        parts = [part.strip() for part in re.split(r"\{\w+\}", self.text)]
        return sorted((part for part in parts if len(part) >= 4), key=lambda part: (-len(part), part))


# service | level | weight | text            (a release after a colon: `web:before`)
_TABLE = r"""
web|INFO|40|{method} {path} 200 {bytes} bytes in {ms} ms client={ip}
web|INFO|14|{method} {path} 304 0 bytes in {ms} ms client={ip}
web|INFO|6|session {hex} opened for user {user} from {ip}
web|INFO|5|static asset "{file}" served from edge {node} in {ms} ms
web|INFO|3|redirected {url} to {url}
web|DEBUG|3|render tree for page {id} took {us} us with {small} partials
web|DEBUG|2|cookie {hex} refreshed
web:before|INFO|5|template cache {percent}% warm after {small} requests
web:before|INFO|3|legacy router matched rule {small} for {path}
web|WARN|4|slow response for {path}: {ms} ms
web|WARN|3|client {ip} closed connection before response was sent
web|WARN|1|rate limit near for token {hex}: {small} of 100
web|ERROR|3|upstream {node} returned 502 for {path} request={uuid}
web|ERROR|2|unhandled exception in view "{file}" request={uuid}
web:after|INFO|6|router v2 dispatched {path} to island {node} in {us} us
web:after|INFO|4|streamed {small} chunks for page {id} request={uuid}
api|INFO|40|request {uuid} {method} {path} finished status=200 duration={ms}ms
api|INFO|10|request {uuid} {method} {path} finished status=201 duration={ms}ms
api|INFO|7|order {id} accepted for user {user} total={decimal} EUR
api|INFO|5|published event order.created id={uuid} partition={small} offset={big}
api|INFO|3|feature flag "{word}" evaluated to true for tenant {id}
api|DEBUG|3|serialised response of {bytes} bytes in {us} us
api|DEBUG|2|acquired connection {small} from pool "{word}"
api:before|INFO|5|schema v1 validated for payload of {bytes} bytes
api:before|INFO|3|pricing rules reloaded: {small} rules in {ms} ms
api|WARN|4|retry {small} of 5 for upstream {node}: timeout after {ms} ms
api|WARN|3|deprecated field "{word}" used by client {id}
api|WARN|1|circuit half open for {url}
api|ERROR|3|request {uuid} failed: upstream {url} answered 503
api|ERROR|2|could not decode body of request {uuid}: unexpected token at position {small}
api:after|INFO|6|schema v2 validated for payload of {bytes} bytes in {us} us tenant={id}
api:after|INFO|4|price quote {hex} computed by engine {node} total={decimal} EUR
db|INFO|30|checkpoint complete: wrote {small} buffers; write={decimal} s, sync={decimal} s
db|INFO|22|connection authorized: user={user} database={word} application_name={node}
db|INFO|14|statement {hex} planned in {us} us, executed in {ms} ms, {small} rows
db|INFO|6|automatic vacuum of table "{word}.{word}": index scans: {small}, pages removed: {small}
db|INFO|4|replication slot {word} confirmed up to {lsn}
db|DEBUG|2|lock on relation {id} granted after {us} us
db:before|INFO|5|statistics collector flushed {small} entries
db:before|INFO|3|wal segment {hex} archived
db|WARN|4|slow query {hex}: {ms} ms, plan rows {big}
db|WARN|2|temporary file: path "{file}", size {bytes}
db|WARN|1|checkpoints are occurring too frequently ({small} seconds apart)
db|ERROR|3|deadlock detected: process {pid} waits for ShareLock on transaction {big}
db|ERROR|2|duplicate key value violates unique constraint "{word}_pkey" key={id}
db:after|INFO|6|wal segment {hex} compressed to {bytes} bytes and archived
db:after|INFO|4|adaptive planner chose {word} join for statement {hex}
cache|INFO|30|evicted {small} keys, {bytes} bytes free
cache|INFO|20|client {ip}:{port} connected
cache|INFO|12|hit ratio {percent}% over {small} s
cache|INFO|5|background saving started by pid {pid}
cache|INFO|4|background saving done in {ms} ms
cache|DEBUG|3|rehash step {small} of {small} done
cache:before|INFO|4|lazy free queue holds {small} objects
cache:before|INFO|3|key space notifications sent: {small}
cache|WARN|3|big key {hex} of {bytes} bytes
cache|WARN|2|client {ip}:{port} output buffer over soft limit
cache|ERROR|2|could not write snapshot "{file}": errno {small}
cache|ERROR|2|replica {node} lost, offset {big}
cache:after|INFO|5|tiered eviction moved {small} keys to flash
cache:after|INFO|4|io threads balanced: {small} clients on thread {small}
queue|INFO|30|delivered message {uuid} to consumer {node} after {ms} ms
queue|INFO|18|accepted batch of {small} messages for topic {word}
queue|INFO|8|consumer group {word} rebalanced: {small} members
queue|INFO|5|segment {big} rolled at {bytes} bytes
queue|INFO|3|committed offset {big} for {word} partition {small}
queue|DEBUG|3|index lookup for offset {big} took {us} us
queue:before|INFO|5|acknowledged {small} deliveries on channel {small}
queue:before|INFO|3|heartbeat sweep visited {small} connections
queue|WARN|3|consumer {node} lags by {big} messages
queue|WARN|2|message {uuid} redelivered, attempt {small}
queue|ERROR|2|message {uuid} moved to dead letter queue after {small} attempts
queue|ERROR|2|producer {ip} fenced: epoch {small} is stale
queue:after|INFO|5|acknowledged range {big}-{big} on stream {word}
queue:after|INFO|4|shared subscription {hex} assigned to {node}
auth|INFO|30|user {user} logged in from {ip} using password
auth|INFO|16|issued token {hex} for client {word} valid {small} s
auth|INFO|8|user {user} logged out, session {uuid}
auth|INFO|5|refreshed token {hex} for user {user}
auth|INFO|3|key set rotated, active key {hex}
auth|DEBUG|2|policy "{word}" allowed {method} {path} for role {word}
auth:before|INFO|4|password hash upgraded for user {user}
auth:before|INFO|3|ldap bind as {user} took {ms} ms
auth|WARN|5|failed login for user {user} from {ip}: wrong password
auth|WARN|2|token {hex} expired {small} s ago
auth|WARN|1|account {user} locked after {small} failures
auth|ERROR|3|identity provider {url} did not answer within {ms} ms
auth|ERROR|2|signature of token {hex} does not verify
auth:after|INFO|5|passkey {uuid} accepted for user {user}
auth:after|INFO|4|directory sync applied {small} changes in {ms} ms
batch|INFO|24|job {id} stage {small} processed {big} rows in {ms} ms
batch|INFO|14|task {hex} started on worker {node}
batch|INFO|12|task {hex} finished in {decimal} s
batch|INFO|6|read {bytes} bytes from "{file}"
batch|INFO|4|wrote partition {date} with {big} rows
batch|DEBUG|3|spilled {bytes} bytes to disk
batch:before|INFO|4|planner merged {small} small files
batch:before|INFO|3|lease {hex} renewed for job {id}
batch|WARN|3|task {hex} is a straggler: {percent}% slower than median
batch|WARN|2|skipped {small} malformed rows in "{file}"
batch|ERROR|2|task {hex} failed with exit code {small}, will be retried
batch|ERROR|2|input "{file}" does not exist
batch:after|INFO|5|compactor rewrote {small} files into {bytes} bytes
batch:after|INFO|4|job {id} checkpointed at stage {small} to "{file}"
search|INFO|30|query "{word}" matched {big} documents in {ms} ms shard={small}
search|INFO|12|indexed batch of {small} documents into {word}-{date}
search|INFO|6|segment {hex} merged, {bytes} bytes reclaimed
search|INFO|5|shard {small} moved to {node}
search|INFO|3|suggester "{word}" rebuilt with {big} terms
search|DEBUG|3|score cache warmed with {small} entries
search:before|INFO|4|spell index answered {small} lookups
search:before|INFO|3|synonym set {word} loaded: {small} rules
search|WARN|3|query {uuid} timed out on shard {small}, partial results
search|WARN|2|heap at {percent}%, throttling merges
search|ERROR|2|shard {small} failed: corrupt header in "{file}"
search|ERROR|2|node {node} left the cluster
search:after|INFO|5|vector query {hex} visited {big} nodes, recall {percent}%
search:after|INFO|4|hybrid ranker fused {small} lists in {us} us
sshd|INFO|30|Accepted publickey for {user} from {ip} port {port} ssh2: RSA SHA256:{hex}
sshd|INFO|20|pam_unix(sshd:session): session opened for user {user} by (uid={small})
sshd|INFO|20|pam_unix(sshd:session): session closed for user {user}
sshd|INFO|12|Received disconnect from {ip} port {port}:11: disconnected by user
sshd|WARN|8|Invalid user {user} from {ip} port {port}
sshd|WARN|6|Failed password for {user} from {ip} port {port} ssh2
sshd|ERROR|2|error: kex_exchange_identification: Connection closed by {ip} port {port}
cron|INFO|50|({user}) CMD ({script} --run {small})
cron|INFO|10|({user}) RELOAD (crontabs/{user})
kernel|INFO|20|eth0: link status checked, {small} Mb/s full duplex
kernel|INFO|12|audit: type={small} audit({big}.{small}:{small}): pid={pid} uid={small} exe="{script}"
kernel|INFO|6|docker0: port {small}(veth{hex}) entered forwarding state
kernel|INFO|6|TCP: request_sock_TCP: Possible SYN flooding on port {port}. Sending cookies.
kernel|WARN|3|perf: interrupt took too long ({small} > {small}), lowering kernel.perf_event_max_sample_rate
kernel|ERROR|1|EXT4-fs error (device sda1): ext4_lookup:{small}: inode #{big}: comm {word}: deleted inode referenced
systemd|INFO|24|Started Session {small} of user {user}.
systemd|INFO|14|session-{small}.scope: Succeeded.
systemd|INFO|10|Starting Cleanup of Temporary Directories...
systemd|INFO|10|Finished Rotate log files, took {ms} ms.
systemd|INFO|8|{word}.service: Consumed {decimal}s CPU time.
systemd|WARN|2|{word}.service: State 'stop-sigterm' timed out. Killing.
systemd|ERROR|1|Failed to start {word}.service, result 'exit-code', status={small}
backup:extra|INFO|1|snapshot {uuid} of volume "{file}" started
backup:extra|INFO|1|copied {big} blocks, {bytes} bytes, {decimal} MB/s to vault {node}
backup:extra|INFO|1|block {hex} unchanged since {date}, skipped
backup:extra|INFO|1|snapshot {uuid} verified, checksum {hex}
web:extra|ERROR|1|TLS handshake with origin {node} aborted: certificate expired on {date}
web:extra|ERROR|1|worker {pid} killed: out of file descriptors, limit {small}
api:extra|ERROR|1|saga {uuid} stuck in compensation step {small}, manual repair needed
api:extra|ERROR|1|clock skew of {ms} ms against {node}, refusing signed requests
db:extra|ERROR|1|page verification failed: calculated checksum {big} but expected {big} in block {small}
db:extra|ERROR|1|transaction id wraparound in {big} transactions, database {word} not accepting commands
cache:extra|ERROR|1|cluster state is fail: slot {small} not covered by any node
cache:extra|ERROR|1|allocator reports fragmentation {percent}%, defragmentation gave up at {hex}
queue:extra|ERROR|1|split brain: node {node} and this one both lead partition {small}
queue:extra|ERROR|1|journal entry {big} has invalid magic {hex}, truncating
auth:extra|ERROR|1|hardware security module {node} went away during signing of {hex}
auth:extra|ERROR|1|realm "{word}" has no usable key, all logins refused since {date}
batch:extra|ERROR|1|namespace quota exceeded: {bytes} bytes over limit in "{file}"
batch:extra|ERROR|1|lineage graph of job {id} has a cycle at stage {small}
search:extra|ERROR|1|translog of shard {small} is from the future: generation {big}
search:extra|ERROR|1|analysis chain "{word}" refers to missing dictionary "{file}"
"""


def _read(table: str) -> tuple[Template, ...]:
    rows = []
    for line in table.strip().splitlines():
        name, level, weight, text = line.split("|", 3)
        service, _, release = name.partition(":")
        rows.append(Template(service, level, float(weight), text, release or "always"))
    return tuple(rows)


TEMPLATES = _read(_TABLE)


@cache
def choices(service: str, level: str, released: bool) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Indices into TEMPLATES and cumulative probabilities for a service, a level, before or after its deployment."""
    excluded = {"extra", "before" if released else "after"}
    found = [
        (i, t.weight)
        for i, t in enumerate(TEMPLATES)
        if t.service == service and t.level == level and t.release not in excluded
    ]
    total = sum(weight for _, weight in found)
    cumulative, so_far = [], 0.0
    for _, weight in found:
        so_far += weight / total
        cumulative.append(so_far)
    return tuple(i for i, _ in found), tuple(cumulative)


def extra_templates(which: str, service: str, variant: float) -> tuple[int, ...]:
    """Templates that only an episode brings: all of `backup`, or one never-seen message of a service."""
    found = [i for i, t in enumerate(TEMPLATES) if t.service == service and t.release == "extra"]
    if which == "backup":
        return tuple(found)
    return (found[min(int(variant * len(found)), len(found) - 1)],)


def released_templates(service: str, release: str) -> list[Template]:
    """Those that come (`after`) or go (`before`) with a deployment of the service."""
    return [t for t in TEMPLATES if t.service == service and t.release == release]
