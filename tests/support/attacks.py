"""What a stranger tries on each form of input: the hostile values in every place where they fit, and structures of the form's own.

A row is (name, the text of a record, how the reason begins), as in `hostile_values`. `HOST` in it becomes a host that no other record
has, so that what is read of it can be found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from support.hostile_values import HOSTS, NAMES, NOT_A_NUMBER, NOT_JSON, NUMBERS, STRUCTURES, TIMES
from support.otlp_attacks import OTLP_ATTACKS
from support.poison import ANY, AT, NANOSECONDS, Poison

HOST = "HOST"
Rows = Iterator[tuple[str, str, str | None]]


def own(topic: str) -> str:
    """The members of a good record, without braces."""
    rest = '"metric.name":"m","metric.value":1.5' if topic == "telemetry" else '"message":"it works"'
    return f'"@timestamp":"{AT}","host.name":"{HOST}",{rest}'


def named(topic: str, what: str, rows: Rows) -> Iterator[Poison]:
    """Attacks of a kind, each with a host of its own."""
    for number, (name, text, reason) in enumerate(rows):
        host = f"poison-{topic}-{what}-{number}"
        value = text.replace(HOST, host).encode("utf-8", "surrogatepass")
        yield Poison(f"{what}: {name}", topic, value, reason, host if HOST in text else "")


def canonical(topic: str) -> Iterator[Poison]:
    """Attacks on the canonical form."""
    yield from named(topic, "time", (
        (name, "{" + own(topic).replace(f'"{AT}"', text) + "}", why) for name, text, why in TIMES
    ))  # fmt: skip
    yield from named(topic, "structure", (
        (name, text.replace("%s", own(topic)), why) for name, text, why in STRUCTURES
    ))  # fmt: skip
    if topic == "telemetry":
        yield from named(topic, "number", (
            (name, "{" + own(topic).replace("1.5", text) + "}", why) for name, text, why in NUMBERS
        ))  # fmt: skip
        yield from named(topic, "name", (
            (name, "{" + own(topic).replace('"m"', json.dumps("poison" + text)) + "}", why)
            for name, text, why in NAMES
        ))  # fmt: skip
    else:
        yield from named(topic, "message", (
            (name, "{" + own(topic).replace("it works", json.dumps(text * 9)[1:-1]) + "}", None)
            for name, text, _ in NAMES
        ))  # fmt: skip


def hosts(topic: str) -> Iterator[Poison]:
    """Hosts that are called like what jobs call things by, or nearly like other hosts."""
    for name in HOSTS:
        text = "{" + own(topic).replace(HOST, json.dumps(name)[1:-1]) + "}"
        yield Poison(f"host: {name}", topic, text.encode(), None)


def otlp(*points: str, form: str = "gauge", more: str = "", attributes: str = "") -> str:
    """A record of the OpenTelemetry Collector."""
    resource = f'{{"attributes":[{{"key":"host.name","value":{{"stringValue":"{HOST}"}}}}{attributes}]}}'
    metric = f'{{"name":"m","{form}":{{{more}"dataPoints":[{",".join(points)}]}}}}'
    return f'{{"resourceMetrics":[{{"resource":{resource},"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}'


def at(rest: str) -> str:
    """A data point."""
    return f'{{"timeUnixNano":"{NANOSECONDS}",{rest}}}'


def of_otlp() -> Rows:
    """Attacks on metrics of the OpenTelemetry Collector."""
    for name, text, _ in NUMBERS:
        yield f"number {name}", otlp(at(f'"asDouble":{text}')), ANY
    for name, text, _ in TIMES:
        yield f"time {name}", otlp(f'{{"timeUnixNano":{text},"asInt":"1"}}'), ANY
    count = '"count":%s,"sum":1.5'
    for value, why in (
        ('"-1"', None),
        ('"abc"', NOT_A_NUMBER),
        ("1.5", None),
        ('"18446744073709551615"', "value beyond"),
    ):
        yield f"count {value}", otlp(at(count.replace("%s", value)), form="histogram"), why
    yield "a sum that is infinite", otlp(at('"count":1,"sum":"Infinity"'), form="summary"), NOT_A_NUMBER
    yield "neither number", otlp(at('"flags":1')), "no metric.value"
    yield "both numbers", otlp(at('"asDouble":1,"asInt":"2"')), None
    yield "an integer with a fraction", otlp(at('"asInt":"1.5"')), None
    yield (
        "unknown temporality",
        otlp(at('"asInt":"1"'), form="sum", more='"aggregationTemporality":99,'),
        None,
    )
    yield "monotonic by a word", otlp(at('"asInt":"1"'), form="sum", more='"isMonotonic":"yes",'), ANY
    yield "points that are none", otlp("null", "1", '"x"', "[]", "{}"), ANY
    yield "points that are an object", otlp().replace('"dataPoints":[]', '"dataPoints":{"a":1}'), ANY
    yield "4,000 resource attributes", otlp(at('"asInt":"1"'), attributes="".join(
        f',{{"key":"k{i}","value":{{"stringValue":"v"}}}}' for i in range(4_000))), None  # fmt: skip
    yield "80,000 resource attributes", otlp(attributes=',{"key":"k"}' * 80_000), "more than 10000"
    yield (
        "the same attribute again and again",
        otlp(at('"asInt":"1"'), attributes=',{"key":"k"}' * 9_000),
        None,
    )
    yield (
        "the host again",
        otlp(at('"asInt":"1"'), attributes=',{"key":"host.name","value":{"stringValue":"x"}}'),
        None,
    )
    yield "attributes of other kinds", otlp(at('"asInt":"1","attributes":[{"key":"a","value":{"arrayValue":{"values":[{}]}}},'
        '{"key":null},{"key":"b","value":{"bytesValue":"AA=="}},null,7]')), ANY  # fmt: skip
    yield "9,000 resources", '{"resourceMetrics":[' + ",".join(["{}"] * 9_000) + "]}", "nothing to read"
    yield (
        "9,000 metrics without a point",
        otlp().replace('"metrics":[', '"metrics":[' + "{}," * 9_000),
        "nothing to read",
    )
    yield (
        "no arrays but nulls",
        '{"resourceMetrics":[null,{"scopeMetrics":[null,{"metrics":[null]}]}]}',
        "nothing to read",
    )
    yield (
        "10,000 levels of a name",
        otlp(at('"asInt":"1"')).replace('"m"', '"' + "a." * 5_000 + '"'),
        "metric.name longer",
    )


def telegraf(fields: str, tags: str = "", timestamp: str = "1795262401") -> str:
    """A record of Telegraf."""
    return f'{{"name":"n","fields":{{{fields}}},"tags":{{"host":"{HOST}"{tags}}},"timestamp":{timestamp}}}'


def of_telegraf() -> Rows:
    """Attacks on Telegraf."""
    for name, text, _ in NUMBERS:
        yield f"number {name}", telegraf(f'"a":{text}'), ANY
    for name, text, _ in TIMES:
        yield f"time {name}", telegraf('"a":1', timestamp=text), ANY
    for name, text, _ in NAMES:
        yield f"field {name}", telegraf(json.dumps(text) + ":1"), ANY
        yield f"tag {name}", telegraf('"a":1', "," + json.dumps(text) + ":" + json.dumps(text)), ANY
    yield "no fields", telegraf(""), "nothing to read"
    yield "an array of fields", telegraf("").replace('"fields":{}', '"fields":[1]'), ANY
    yield "a batch of nulls", '{"metrics":[null,{},7,"x"]}', ANY
    yield "a batch in a batch", '{"metrics":[{"metrics":[' + telegraf('"a":1') + "]}]}", "nothing to read"


def metricbeat(members: str, time: str = f'"{AT}"') -> str:
    """A record of Metricbeat."""
    return f'{{"@timestamp":{time},"event":{{"module":"system"}},"host":{{"name":"{HOST}"}},{members}}}'


def of_metricbeat() -> Rows:
    """Attacks on Metricbeat."""
    for name, text, _ in NUMBERS:
        yield f"number {name}", metricbeat(f'"system":{{"a":{text}}}'), ANY
    for name, text, _ in TIMES:
        yield f"time {name}", metricbeat('"system":{"a":1}', text), ANY
    for name, text, _ in NAMES:
        yield f"key {name}", metricbeat(f'"system":{{{json.dumps(text)}:1}}'), ANY
    yield "20 levels", metricbeat('"system":' + '{"a":' * 20 + "1" + "}" * 20), "value is not a number"
    yield "a million dots", metricbeat('"system":{"' + "." * 16_000 + '":1}'), "metric.name longer"
    yield "a module without a name", metricbeat('"system":1').replace("system", ""), ANY


def collectd(
    value: str, time: str = "1795262401.5", host: str = f'"{HOST}"', more: str = "", source: str = '"value"'
) -> str:
    """A record of collectd."""
    rest = '"plugin":"p","type":"t","type_instance":""'
    return f'[{{"values":[{value}],"dstypes":["gauge"],"dsnames":[{source}],"time":{time},"host":{host},{rest}{more}}}]'


def of_collectd() -> Rows:
    """Attacks on collectd."""
    for name, text, _ in NUMBERS:
        yield f"number {name}", collectd(text), ANY
    for name, text, _ in TIMES:
        yield f"time {name}", collectd("1", time=text), ANY
    for name, text, _ in NAMES:
        yield f"source {name}", collectd("1", source=json.dumps(text)), ANY
        yield f"instance {name}", collectd("1", more=f',"plugin_instance":{json.dumps(text)}'), ANY
    yield "100,000 values", collectd(",".join(["1"] * 100_000)), "more than"
    yield "2,048 values", collectd(",".join(["1"] * 2_048)), "no metric.name"
    yield "9,000 values", collectd(",".join(["1"] * 9_000)), "more than 2048 points"
    yield "2,400 lists without a value", "[" + ",".join([collectd("")[1:-1]] * 2_400) + "]", "nothing to read"
    yield "lists that are none", '[null,7,"x",[],{"dsnames":7},{"dsnames":[null],"values":[[]]}]', ANY
    yield "as a member", f'{{"collectd":{collectd("1")}}}', None
    yield "as a member of a flat record", "{" + own("telemetry") + f',"collectd":{collectd("1")}}}', None


def of_prometheus() -> Rows:
    """Attacks on prometheus-kafka-adapter."""
    record = '{"name":"m","value":%s,"timestamp":%s,"labels":{"instance":"%s:9100","job":"j"%s}}'

    def made(value: str = '"1"', time: str = f'"{AT}"', labels: str = "") -> str:
        return (
            record.replace("%s", "\x00")
            .replace("\x00", value, 1)
            .replace("\x00", time, 1)
            .replace("\x00", HOST, 1)
            .replace("\x00", labels, 1)
        )

    for name, text, _ in NUMBERS:
        yield f"number {name}", made(value=text), ANY
    for name, text, _ in TIMES:
        yield f"time {name}", made(time=text), ANY
    for name, text, _ in NAMES:
        yield f"label {name}", made(labels="," + json.dumps(text) + ":" + json.dumps(text)), ANY
    yield "a label that is an object", made(labels=',"a":{"b":[1,2]}'), None
    yield "labels that are text", made().replace('"labels":{', '"labels":"x","other":{'), "no host.name"


def syslog(priority: str, rest: str) -> str:
    """A line of RFC 5424."""
    return f"<{priority}>1 {AT} {HOST} app 1 - {rest}"


def of_syslog() -> Rows:
    """Attacks on syslog of both kinds."""
    for priority, why in (
        ("0", None),
        ("191", None),
        ("192", None),
        ("999", None),
        ("1000", NOT_JSON),
        ("-1", NOT_JSON),
        ("", NOT_JSON),
        ("1e1", NOT_JSON),
        ("00034", NOT_JSON),
    ):
        yield f"priority {priority}", syslog(priority, "- it works"), why
    yield "version 999", f"<34>999 {AT} {HOST} app 1 - - it works", ANY
    yield "version 0", f"<34>0 {AT} {HOST} app 1 - - it works", ANY
    for name, data, why in (
        ("data without an end", '[a b="c"', NOT_JSON),
        ("a quote without an end", '[a b="c]', ANY),
        ("an escaped bracket", '[a b="\\]"] it works', None),
        ("33 elements", "[a]" * 33 + " it works", NOT_JSON),
        ("32 elements", "[a]" * 32 + " it works", None),
        ("an element of 30,000 characters", "[" + "a" * 30_000 + "] it works", None),
        ("backslashes", "[" + "\\" * 30_001 + "] it works", ANY),
        ("brackets", "[" * 30_000, NOT_JSON),
        ("no message", "-", "no message"),
        ("an empty message", "- ", "no message"),
        ("a byte order mark for a message", "- \ufeff", "no message"),
        ("a message of NUL", "- \x00", None),
        ("a message of lines", "- a\nb\rc\u2028d", None),
        ("a terminal's sequence", "- \x1b]0;owned\x07", None),
    ):  # fmt: skip
        yield name, syslog("34", data), why
    for name, text, _ in TIMES:
        yield f"time {name}", f"<34>1 {json_text(text)} {HOST} app 1 - - it works", ANY
    for day in ("Nov 21", "Nov 31", "Feb 29", "Nov  1", "Foo 21", "nov 21", "Nov 99", "Nov 00"):
        yield f"the day {day}", f"<34>{day} 12:00:01 {HOST} app: it works", ANY
    for clock in ("24:00:00", "99:99:99", "12:00:60"):
        yield f"the clock {clock}", f"<34>Nov 21 {clock} {HOST} app: it works", ANY
    yield "a tag of 257 characters", f"<34>Nov 21 12:00:01 {HOST} {'a' * 257}: it works", None
    yield "a tag without an end", f"<34>Nov 21 12:00:01 {HOST} app[" + "1" * 30_000, None


def json_text(text: str) -> str:
    """What a text of JSON says where it is one without spaces; else a time that is none."""
    found = json.loads(text) if text.startswith('"') else text
    return found if found and " " not in found and found.isprintable() else "x"


def of_otlp_logs() -> Rows:
    """Attacks on logs of the OpenTelemetry Collector."""

    def made(record: str) -> str:
        resource = f'{{"attributes":[{{"key":"host.name","value":{{"stringValue":"{HOST}"}}}}]}}'
        return f'{{"resourceLogs":[{{"resource":{resource},"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}'

    for name, text, _ in TIMES:
        yield (
            f"time {name}",
            made(f'{{"timeUnixNano":{text},"body":{{"stringValue":"it works"}}}}'),
            ANY,
        )
    for number in ("0", "-1", "25", "2147483648", "1.5", '"9"', "null", "[]", "1e400"):
        yield (
            f"severity {number}",
            made(at(f'"severityNumber":{number},"body":{{"stringValue":"it works"}}')),
            ANY,
        )
    for body in (
        '{"kvlistValue":{"values":[{"key":"a"}]}}',
        '{"bytesValue":"AA=="}',
        '"text"',
        "7",
        "[]",
        "{}",
        "null",
        '{"stringValue":""}',
        '{"stringValue":["x"]}',
    ):
        yield f"body {body}", made(at(f'"body":{body}')), ANY
    yield "records that are none", made('null,7,"x",[],{}'), ANY
    levels = (at(f'"severityText":"level {i}","body":{{"stringValue":"it works"}}') for i in range(2_000))
    yield "2,000 levels", made(",".join(levels)), None


def of_labels() -> Rows:
    """Attacks on labels."""
    good = '{"label":"expected-change","series":["gauge/%s//m"]%s}'
    for name, text, _ in NAMES:
        yield (
            f"series {name}",
            json.dumps({"label": "expected-change", "series": [f"gauge/{HOST}//m{text}"]}),
            ANY,
        )
        yield f"label {name}", json.dumps({"label": text, "series": [f"gauge/{HOST}//m"]}), "label is"
    for series in (
        "null",
        "[]",
        "[null]",
        "{}",
        '"host/a"',
        "[[]]",
        '["host"]',
        '["gauge/a"]',
        '["label/a/1"]',
        '["overflow/a/metrics"]',
        '["host/a/b"]',
        '["/"]',
        "[7]",
    ):
        yield f"series that are {series}", f'{{"label":"expected-change","series":{series}}}', "a label"
    yield "a time of its own", good.replace("%s", HOST, 1).replace("%s", ',"@timestamp":"9999-01-01"'), None
    yield (
        "series of ten thousand hosts",
        json.dumps({"label": "expected-change", "series": [f"host/{HOST}{i}" for i in range(5_000)]}),
        "a label with more",
    )
    yield (
        "the same series again and again",
        json.dumps({"label": "expected-change", "series": [f"host/{HOST}"] * 1_000}),
        None,
    )


def of_changes() -> Rows:
    """Attacks on changes and calls, in each form."""
    change = f'{{"change":"deployment","service":"{HOST}"%s}}'
    call = f'{{"client":"{HOST}","server":"s"%s}}'
    for name, text, _ in TIMES:
        yield f"time {name}", change.replace("%s", f',"at":{text}'), ANY
        yield f"time of an event {name}", of_controller(f'"eventTime":{text}'), ANY
    for name, text, _ in NAMES:
        yield f"service {name}", change.replace("%s", "").replace(HOST, json.dumps(f"{HOST}{text}")[1:-1]), ANY
        yield (
            f"version {name}",
            change.replace("%s", f',"version":{json.dumps(text)},"comment":{json.dumps(text)}'),
            ANY,
        )
        yield f"server {name}", call.replace('"s"', json.dumps(f"s{text}")).replace("%s", ""), ANY
    for removed in ("true", '"true"', "1", "null", "[]", "{}"):
        yield f"a call that is removed by {removed}", call.replace("%s", f',"removed":{removed}'), ANY
    yield "a call to itself", call.replace('"s"', f'"{HOST}"').replace("%s", ""), "a service that calls itself"
    yield "a call to a list", call.replace('"s"', '["s"]').replace("%s", ""), ANY
    yield "a call without a server", call.replace('"s"', "null").replace("%s", ""), "no server"
    yield "a change and a call at once", change.replace("%s", ',"client":"c","server":"s"'), None
    yield "a change of two names", change.replace("%s", ',"host":"h","service.name":"x"'), None
    yield "a change of a list of services", change.replace("%s", "").replace(f'"{HOST}"', f'["{HOST}"]'), ANY
    yield "a change of a kind in capitals", change.replace("%s", "").replace("deployment", "DEPLOYMENT"), "change is"
    yield "a change of an empty kind", change.replace("%s", "").replace("deployment", ""), ANY
    yield "a change of nobody", '{"change":"other","service":"","host":null}', "a change of no service"
    yield "texts of other kinds", change.replace("%s", ',"version":{"a":[1]},"comment":7,"author":[]'), None
    yield "a webhook of nulls", '{"deployment":null,"deployment_status":null,"repository":null}', "not a change"
    for state, service in (('"success"', HOST), *((other, "s") for other in ("null", "7", '{"a":1}', '"SUCCESS"'))):
        status = f'"deployment":{{"ref":7,"sha":null}},"deployment_status":{{"state":{state}}}'
        yield f"a webhook of the state {state}", f'{{{status},"repository":{{"name":"{service}"}}}}', None
    yield "an application that is a list", f'{{"kind":"Application","metadata":["{HOST}"],"status":[]}}', "not a change"
    yield "an application of another kind", f'{{"kind":"Pod","metadata":{{"name":"{HOST}"}}}}', "not a change"
    yield "an application in an application", f'{{"app":{{"app":{{"metadata":{{"name":"{HOST}"}}}}}}}}', "not a change"
    yield (
        "an event of two objects",
        of_controller('"eventTime":null').replace("{", '{"regarding":{"name":"x"},', 1),
        None,
    )
    yield "a rule", f'{{"record":"rule","name":"{HOST}","mute":true}}', "not a change"


def of_controller(time: str) -> str:
    """An event of Kubernetes."""
    about = f'"involvedObject":{{"kind":"Deployment","name":"{HOST}"}}'
    return f'{{{about},"reason":"SuccessfulRescale",{time}}}'


def of_rules() -> Iterator[Poison]:
    """Attacks on rules that are seen before what they say is looked at."""
    good = '{"record":"rule","name":"poison","mute":true}'
    kind = 'not a rule: no JSON with "record"'
    for name, text, reason in (
        ("a record of a list", good.replace('"rule"', '["rule"]'), kind),
        ("a record in capitals", good.replace('"rule"', '"RULE"'), kind),
        ("a record with a space", good.replace('"rule"', '"rule "'), kind),
        ("a record in a record", f'{{"record":{good}}}', kind),
        ("a list of rules", f"[{good}]", "not a rule"),
        ("two rules", good + good, "not a rule: something after"),
        ("a name that is null", good.replace('"poison"', "null"), "a rule without a name"),
        ("a name of two lines", good.replace("poison", "poison\\nmute"), "a rule whose name has control"),
        ("a name that ends in NUL", good.replace("poison", "poison\\u0000"), "a rule whose name has control"),
        ("a name twice", good.replace("{", '{"name":"other",'), "not a rule: a key twice"),
        ("a name twice, once escaped", good.replace("{", '{"n\\u0061me":"other",'), "not a rule: a key twice"),
        ("4,097 bytes", good.replace("true", "true" + " " * (4_097 - len(good))), "a rule of more than"),
        ("1,366 letters of three bytes", good.replace("true", 'true,"comment":"' + "\u20ac" * 1_366 + '"'), "a rule of more than"),
        ("a heartbeat with a name", '{"record":"heartbeats","name":"poison"}', kind),
    ):  # fmt: skip
        yield Poison(f"rule: {name}", "rules", text.encode(), reason, key=b"poison")
    end, other = '{"record":"rule","name":"good","removed":true}', "a rule whose key is not its name"
    for name, key, text in (
        ("under another's key", b"good", good),
        ("an end under another's key", b"poison", end),
        ("without a key", None, good),
        ("under an empty key", b"", good),
        ("under its name with a space", b"poison ", good),
        ("under its name in capitals", b"POISON", good),
        ("under its name in UTF-16", "poison".encode("utf-16-le"), good),
        ("under a megabyte", b"poison" * 200_000, good),
    ):
        yield Poison(f"rule: {name}", "rules", text.encode(), other, key=key)


def of_people() -> Iterator[Poison]:
    """Attacks on what people write, whatever it is about: other encodings, and more members than anybody has."""
    good = {
        "labels": '{"label":"true","series":["host/poison-people-1"]%s}',
        "changes": '{"change":"other","service":"poison-people-2"%s}',
        "rules": '{"record":"rule","name":"poison","mute":true%s}',
    }
    many = ",".join(f'"k{i}":{i}' for i in range(10_000))
    for topic, text in good.items():
        kind = f"not a {topic[:-1]}"
        whole = text.replace("%s", "")
        for codec in ("utf-16", "utf-16-be", "utf-32"):
            yield Poison(f"people: {codec}", topic, whole.encode(codec), kind)
        marked = "a rule whose key is not its name" if topic == "rules" else None
        yield Poison("people: utf-8-sig", topic, whole.encode("utf-8-sig"), marked)
        yield Poison("people: 10,000 members", topic, text.replace("%s", f",{many}").encode(), f"{kind}: more than")
        if topic != "rules":  # a rule that is read has no name of its own by which a test could find it
            yield Poison("people: half a pair", topic, text.replace("%s", r',"comment":"\ud800"').encode(), None)
            yield Poison("people: NUL", topic, text.replace("%s", r',"comment":"\u0000"').encode(), None)


ATTACKS: tuple[Poison, ...] = (
    *canonical("telemetry"),
    *canonical("logs"),
    *hosts("telemetry"),
    *hosts("logs"),
    *named("telemetry", "OpenTelemetry", of_otlp()),
    *named("telemetry", "Telegraf", of_telegraf()),
    *named("telemetry", "Metricbeat", of_metricbeat()),
    *named("telemetry", "collectd", of_collectd()),
    *named("telemetry", "Prometheus", of_prometheus()),
    *named("logs", "syslog", of_syslog()),
    *named("logs", "OpenTelemetry", of_otlp_logs()),
    *named("labels", "label", of_labels()),
    *named("changes", "change", of_changes()),
    *of_rules(),
    *of_people(),
    *OTLP_ATTACKS,
)
