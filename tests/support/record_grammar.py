"""Records of every form and spelling, good and bad, from a seed: what two readers of the same bytes might read differently."""

from __future__ import annotations

import random
from collections.abc import Callable

TELEMETRY, LOGS = "telemetry", "logs"
SPACES = ("", "", "", "", " ", "\n", "\t", "\r", "  ", "\r\n", "\x0b", "\xa0", "\u2003", "\ufeff", "\x00", "\x0c")
TIMES = (
    *(
        '"2026-01-05T00:00:10.5Z"',
        '"2026-01-05T00:00:10Z"',
        '"2026-01-05T00:00:10.123456789Z"',
        '"2026-01-05T00:00:10"',
    ),
    *('"2026-01-05T00:00:10.5+02:00"', '"2026-01-05 00:00:10Z"', '"2026-01-05T00:00:10z"', '"2026-01-05T00:00Z"'),
    *(
        '"2026-02-29T00:00:10Z"',
        '"2024-02-29T00:00:10Z"',
        '"2016-12-31T23:59:60Z"',
        '"2026-01-05T24:00:00Z"',
        '"1970-01-01T00:00:00Z"',
    ),
    *(
        '"1969-12-31T23:59:59.999999Z"',
        '"2199-12-31T23:59:59.999999Z"',
        '"2200-01-01T00:00:00Z"',
        '"0000-01-01T00:00:00Z"',
    ),
    *(
        '"2026-01-05T00:00:10+99:99"',
        '"2026-01-05T00:00:10-18:00"',
        '"2026-01-05T00:00:10+18:01"',
        '"+292278994-08-17T07:12:55Z"',
    ),
    *('" 2026-01-05T00:00:10Z "', '"2026-01-05T00:00:10Z\\n"', '"2026-01-05T00:00:10,5Z"', '"2026-01-05T00:00:10.Z"'),
    *(
        '"2026-01-05T00:00:10.5 +0100"',
        '"2026-01-05T00:00:1\\u0030Z"',
        '"2026-01-05T00:00:10\\u005a"',
        '"\u0662026-01-05T00:00:10Z"',
    ),
    *(
        '"1E-2000000000"',
        '"1e999999"',
        '"1767571210"',
        '"1767571210.5"',
        '"1.767571210e9"',
        '"1767571210500000000"',
        '"-1"',
    ),
    *(
        "1767571210",
        "1767571210500",
        "1767571210.5",
        "1.7675712105E9",
        "9223372036854775807",
        "1e400",
        "-0",
        "1E-2000000000",
    ),
)
NUMBERS = (
    *(
        "0",
        "-0",
        "1",
        "-1",
        "1.5",
        "-2.25",
        "0.1",
        "0.30000000000000004",
        "12345.678901234567",
        "1e5",
        "1E+05",
        "1e-05",
        "1E5",
        "-1e-7",
    ),
    *(
        "0.1e-400",
        "1e400",
        "-1e400",
        "1e308",
        "5e-324",
        "2.4703282292062328e-324",
        "1e15",
        "1.0000001e15",
        "-1e15",
        "1e18",
        "1.1e18",
    ),
    *(
        "123456789012345678",
        "1234567890123456789012345",
        "12345678901234567890123456",
        "9007199254740993",
        "18446744073709551617",
    ),
    *(
        "1" * 399,
        "1" * 400,
        "1" * 401,
        "-" + "1" * 400,
        "0." + "1" * 398,
        "0." + "1" * 399,
        "0." + "1" * 400,
        "1" * 396 + "e-99",
    ),
    *(
        "1_000",
        "0x1F",
        "1d",
        "1f",
        "1L",
        "00012",
        "-01",
        ".5",
        "5.",
        "+1",
        "1e",
        "1e+",
        "NaN",
        "Infinity",
        "-Infinity",
        "+INF",
        "INF",
    ),
    *(
        "1E-2000000000",
        "1e2147483648",
        "1e-99999999999999999999",
        "1 2",
        "1,000",
        "\u0661",
        "1\u0660",
        "true",
        "false",
        "null",
    ),
    *(
        "[1]",
        '{"a":1}',
        '"1"',
        '"1.5"',
        '" 1 "',
        '"1d"',
        '"NaN"',
        '"0x1F"',
        '"1e5"',
        '"1E+05"',
        '""',
        '"-0"',
        '".5"',
        '"5."',
        '"+1"',
    ),
    *('"1_000"', '"\u0661"', '"1E-2000000000"', '"1\\n"', '"' + "9" * 500 + '"'),
)
NAMES = (
    *(
        '"h"',
        '"a/b"',
        '"100%"',
        '"%2F"',
        '"\u00fc"',
        '"\U0001f600"',
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"\\ufffd"',
        '"\ufffd"',
        '"a\\tb"',
    ),
    *(
        '"\\u0068"',
        '"\\/"',
        '"a\\\\b"',
        '"\\""',
        '"\x7f"',
        '"\\u007f"',
        '"\\u0085"',
        '"\\u0000"',
        '"\\b"',
        '""',
        '" "',
        '" h "',
        '"\\u00a0"',
    ),
    *(
        '"\u202eabc"',
        '"e\u0301"',
        '"\u2028"',
        '"\ufeff"',
        '"\ufffe"',
        '"\U0010ffff"',
        '"\\u202e"',
        '"heartbeat"',
        '"null"',
        "'h'",
        "'a\"b'",
    ),
    *('"' + "x" * n + '"' for n in (127, 128, 129, 255, 256, 257)),
    *('"' + "\u00fc" * n + '"' for n in (128, 256, 257)),
    *(
        '"' + "\U0001f600" * 129 + '"',
        '"' + "\\u00e9" * 256 + '"',
        "null",
        "7",
        "-0",
        "1.50",
        "1e5",
        "true",
        "[]",
        "{}",
        '["h"]',
        '{"name":"h"}',
    ),
)
MESSAGES = (
    *(
        '"it works"',
        '"took 12 ms for user 7f3a9c"',
        '"a\\nb"',
        '"\\u0000"',
        '" "',
        '"{}"',
        '"\\u001b[31m"',
        '"\ufeffx"',
        '"a\tb"',
        '"\x01"',
    ),
    *('"' + "x" * n + '"' for n in (8191, 8192, 8193, 20000)),
    '"' + "\u00fc" * 8192 + '"',
    '"' + "\\u00fc" * 3000 + '"',
)
LABELS = (
    *(
        "{}",
        '{"b":"2","a":"1"}',
        '{"a":"1","b":"2"}',
        '{"a":null}',
        '{"a":1}',
        '{"":""}',
        '{"a/b":"c%"}',
        '{"a":"1","a":"2"}',
        '{"\\u0061":"1"}',
    ),
    *(
        '{"a":"1","\\u0061":"2"}',
        '{"a":true,"b":1.50,"c":1e5}',
        '{"a":{"b":"c"}}',
        '{"a":[1]}',
        '{"k":"\u00fc"}',
        '{"\u00fc":"v","z":"w"}',
        '{"a":"\\n"}',
    ),
    *(
        '{"\U0001f600":"1","\uffee":"2"}',
        "{'a':'1'}",
        '{"a":"}{"}',
        '{"a":"b=c,d"}',
        '{"a" : "1" , "b":"2"}',
        '{"a":"1",}',
        "[]",
        '"x"',
        "null",
        "5",
    ),
    *('{"' + "k" * n + '":"v"}' for n in (128, 129)),
    *('{"k":"' + "v" * n + '"}' for n in (128, 129)),
    *("{" + ",".join(f'"k{i:02}":"v"' for i in range(n)) + "}" for n in (15, 16, 17)),
)
ANY = (
    *(
        "null",
        "true",
        "1",
        '"x"',
        "[]",
        "{}",
        '{"name":"n"}',
        '{"name":"n","value":"3","type":"counter"}',
        '{"type":"counter"}',
        '{"name":null}',
    ),
    *(
        '{"name":"n","name":"m"}',
        '[{"a":1},{"a":2}]',
        "[" * 31 + "]" * 31,
        "[" * 32 + "]" * 32,
        '{"a":' * 30 + "1" + "}" * 30,
        '{"a":' * 33 + "1" + "}" * 33,
    ),
    *(
        '{"hostname":"hn"}',
        '{"level":"warn","file":{"path":"/var/log/x.log"}}',
        '{"dataset":"d.e","module":"d"}',
        "NaN",
        "01",
        '"\\x"',
        '"\x01"',
        "{",
        "]",
    ),
    *('"' + "y" * 5000 + '"', '"' + "y" * 17000 + '"', "[" + "1," * 3000 + "1]", "1" * 400, "1" * 401),
)
OTHER = {
    TELEMETRY: (
        *(
            '"name"',
            '"value"',
            '"timestamp"',
            '"tags"',
            '"fields"',
            '"metrics"',
            '"metricset"',
            '"ecs"',
            '"event"',
            '"event.dataset"',
        ),
        *(
            '"record"',
            '"resourceMetrics"',
            '"resourceSpans"',
            '"collectd"',
            '"host"',
            '"service"',
            '"agent"',
            '"metric"',
            '"x"',
            '"Host.name"',
            '"host.name "',
            '""',
        ),
        *(
            '"host\\u002ename"',
            '"metric.valu\\u0065"',
            "'x'",
            '"\u00e9"',
            '"\\ud800"',
            '"' + "k" * 300 + '"',
            '"message"',
            '"log.level"',
        ),
    ),
    LOGS: (
        *(
            '"log"',
            '"log.file.path"',
            '"event"',
            '"event.dataset"',
            '"record"',
            '"resourceLogs"',
            '"host"',
            '"service"',
            '"agent"',
            '"x"',
        ),
        *(
            '"name"',
            '"metrics"',
            '"metric.name"',
            '"host\\u002ename"',
            '"messag\\u0065"',
            '"Message"',
            '"labels"',
            '"\u00e9"',
            '"\\udc00"',
            "'x'",
        ),
    ),
}
MEMBERS: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    TELEMETRY: (
        ('"@timestamp"', TIMES, '"2026-01-05T00:00:10.5Z"'),
        ('"host.name"', NAMES, '"h"'),
        ('"service.name"', NAMES, '"s"'),
        ('"metric.name"', NAMES, '"m"'),
        ('"metric.value"', NUMBERS, "1.5"),
        ('"metric.type"', (*NAMES, '"counter"', '"counter"', '"Counter"', '"count\\u0065r"', '"gauge"'), '"gauge"'),
        ('"labels"', LABELS, '{"a":"1"}'),
    ),
    LOGS: (
        ('"@timestamp"', TIMES, '"2026-01-05T00:00:10.5Z"'),
        ('"host.name"', NAMES, '"h"'),
        ('"service.name"', NAMES, '"s"'),
        ('"log.level"', (*NAMES, '"WARN"', '"crit"', '"3"', "3", '"\u0130NFO"'), '"info"'),
        ('"message"', (*NAMES, *MESSAGES), '"it works"'),
    ),
}
BYTES = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b",",
    b":",
    b" ",
    b"\x00",
    b"\x7f",
    b"\xc3\xa9",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"0",
    b"-",
    b"e",
    b"[",
    b"]",
)
ROUND = ("%s",) * 30 + (
    " %s",
    "%s\n",
    "%s %s",
    "%s,%s",
    "%s],[%s",
    "%s],garbage",
    "[%s]",
    "%s}",
    "%s\x00",
    "\ufeff%s",
    "%s#",
    "%s/**/",
    "\t%s\r\n",
)


def record(source: random.Random, topic: str, others: float = 0.06) -> bytes:
    """A record of a topic: a flat one with some members changed, doubled, nested, left out or added, in any order and spelling.

    `others` is the share of those of other forms.
    """
    if source.random() < others:
        data = _other(source, topic)
        return _damaged(source, data) if source.random() < (others - 0.06) / 3 else data
    some = source.choice((0.0, 0.1, 0.1, 0.25, 0.6))  # how much of it is unusual
    members = []
    for key, values, usual in MEMBERS[topic]:
        if source.random() >= 0.15 * (1 + some):
            members.append((key, source.choice(values) if source.random() < some else usual))
        elif source.random() < 0.5:
            members.append((key, source.choice(values)))
    while source.random() < some:
        members.append((source.choice(OTHER[topic]), source.choice((*ANY, *NAMES))))
    if members and source.random() < some / 3:
        key, values, _ = source.choice(MEMBERS[topic])
        members.append((key, source.choice((*values, "null"))))
    if source.random() < 0.5:
        source.shuffle(members)
    text = _written(source, members, spaced=source.random() < some)
    if source.random() < some:
        text = source.choice(ROUND).replace("%s", text)
    data = text.encode("utf-8", "surrogatepass")
    return _damaged(source, data) if source.random() < some / 2 else data


def _written(source: random.Random, members: list[tuple[str, str]], *, spaced: bool) -> str:
    def space() -> str:
        return source.choice(SPACES[:9] if source.random() < 0.97 else SPACES) if spaced else ""

    parts = [f"{space()}{key}{space()}:{space()}{value}{space()}" for key, value in members]
    return "{" + ",".join(parts) + "}"


def _damaged(source: random.Random, data: bytes) -> bytes:
    """Bytes put in, taken out, exchanged; or the end cut off."""
    if source.random() < 0.2:
        return data[: source.randrange(len(data) + 1)]
    at = source.randrange(len(data) + 1)
    return data[:at] + source.choice((*BYTES, b"")) + data[at + source.choice((0, 1, 2)) :]


def _other(source: random.Random, topic: str) -> bytes:
    """A record of another form, each of its parts as odd as those of flat ones."""

    def odd(values: tuple[str, ...], usual: str) -> str:
        return source.choice(values) if source.random() < 0.3 else usual

    at, host, name, number = odd(TIMES, "1767571210"), odd(NAMES, '"h"'), odd(NAMES, '"m"'), odd(NUMBERS, "1.5")
    own = f'"resource":{{"attributes":[{{"key":"host.name","value":{{"stringValue":{host}}}}}]}}'
    forms: dict[str, list[Callable[[], str]]] = {
        TELEMETRY: [
            lambda: (
                f'{{"name":{name},"timestamp":{at},"tags":{{"host":{host}}},"fields":{{"a":{number},"b":{odd(ANY, "2")}}}}}'
            ),
            lambda: (
                f'{{"metrics":[{{"name":{name},"timestamp":{at},"tags":{odd(LABELS, "{}")},"fields":{{"a":{number}}}}}]}}'
            ),
            lambda: f'{{"name":{name},"timestamp":{at},"value":{number},"labels":{{"instance":{host},"job":"j"}}}}',
            lambda: f'{{"@timestamp":{at},"host":{{"name":{host}}},"metric":{{"name":{name},"value":{number}}}}}',
            lambda: (
                f'{{"@timestamp":{at},"host":{{"name":{host}}},"event":{{"module":"a"}},"a":{{"b":{number},"c":{odd(ANY, "1")}}}}}'
            ),
            lambda: (
                f'{{"@timestamp":{at},"host.name":{host},"event.dataset":{name},"labels":{odd(LABELS, "{}")},"ecs":{{"version":"9.4"}},'
                f'"service":{{"type":{name}}},"system":{{"cpu":{{"total":{{"pct":{number}}},"id":{odd(ANY, "1")}}}}}}}'
            ),
            lambda: (
                f'[{{"values":[{number},1],"dstypes":["gauge","derive"],"dsnames":["value",{name}],"time":{at},"host":{host},'
                f'"plugin":{odd(NAMES, name)},"plugin_instance":"","type":{name},"type_instance":{host}}}]'
            ),
            lambda: (
                f'{{"resourceMetrics":[{{{own},"scopeMetrics":[{{"metrics":[{{"name":{name},"gauge":{{"dataPoints":[{{"timeUnixNano":{at},"asDouble":{number}}}]}}}}]}}]}}]}}'
            ),
        ],
        LOGS: [
            lambda: (
                f'{{"@timestamp":{at},"host":{{"name":{host}}},"log":{{"level":{name}}},"message":{odd(MESSAGES, name)}}}'
            ),
            lambda: (
                f'{{"resourceLogs":[{{{own},"scopeLogs":[{{"logRecords":[{{"timeUnixNano":{at},"severityNumber":{number},"body":{{"stringValue":{name}}}}}]}}]}}]}}'
            ),
            lambda: (
                f'{{"@timestamp":{at},"agent":{{"type":"filebeat","hostname":{host}}},"event":{{"dataset":{name},"original":{odd(MESSAGES, name)}}},'
                f'"log":{{"level":{odd(NAMES, name)},"file":{{"path":{odd(NAMES, name)}}}}},"labels":{odd(LABELS, "{}")}}}'
            ),
            lambda: (
                f"<{number}>1 {at[1:-1]} {host[1:-1]} app {odd(NUMBERS, '1')} - [a b={name}] {odd(MESSAGES, name)[1:-1]}"
            ),
            lambda: f"<34>1 {odd(TIMES, TIMES[0])[1:-1]} h app 1 - - {name}",
            lambda: f"<{odd(NUMBERS, '34')}>Jan  5 00:00:10 h su[12]: {name}",
        ],
    }
    return source.choice(forms[topic])().encode("utf-8", "surrogatepass")
