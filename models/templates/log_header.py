r"""What a logger writes before the message: time, host, level, thread, source. It is cut off before the message is masked.

A header is known by its time: a line without one among its first fields has no header, so a message alone stays as it is.

    header  = [fields] time {more} [[fields] level {more} [source {more}] | level in small letters | [host] tag]
    fields  = words without a small letter, or with a digit or a sign in them; never "text:"
    more    = time | number | [thread] | (thread) | "-" | "|" | field|
    source  = "name:" | "name - " | "file:line]" | "name" and two blanks | "a.b.name"

It covers what syslog, log4j and its kin, Python's logging, glog, nginx, PostgreSQL, logcat, the kernel, logfmt and files with columns,
bars or semicolons write, with one or two digits in each part of a time. When it fails: a source without any sign behind it stays
in the message ("INFO Worker started"); of a message that begins with "word:" after a level, the word is taken for the source.

The pattern means the same in Java and in Python's `re` with `re.ASCII`: no `\b`, which Java redefines between versions, and
no escape that knows Unicode. Each repetition is bounded or possessive.
"""

from __future__ import annotations

__all__ = ["HEADER", "REST"]

_MONTH = (
    "(?:[Jj]an|[Ff]eb|[Mm]ar|[Aa]pr|[Mm]ay|[Jj]un|[Jj]ul|[Aa]ug|[Ss]ep|[Oo]ct|[Nn]ov|[Dd]ec|"
    "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)"
)
_DAY = "(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_FRACTION = "(?:[.,:][0-9]{1,9})?"
_CLOCK = rf"[0-9]{{1,2}}(?::[0-9]{{1,2}}:|\.[0-9]{{2}}\.)[0-9]{{1,2}}{_FRACTION}"
_ZONE = (
    r"(?: ?[AaPp]\.?[Mm](?:\.|(?!\w)))?(?: ?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T|BST|IST|JST|[+-][0-9]{2}:?[0-9]{2})(?!\w))?"
)
_YEAR = "(?:19|20)[0-9]{2}"
_TWO_DATES = rf"[0-9]{{1,2}}[-/.](?:{_MONTH}|[0-9]{{1,2}})[-/.][0-9]{{2,4}}|[0-9]{{1,2}}[-/.][0-9]{{1,2}}"

# a date and a clock: a complete time stamp, which may stand behind other fields
_MOMENT = "|".join(
    (
        rf"{_YEAR}[-/.][0-9]{{1,2}}[-/.][0-9]{{1,2}}[T :_-]{{1,2}}(?:{_CLOCK}|[0-9]{{1,2}}:[0-9]{{2}}){_ZONE}",
        rf"{_YEAR}[0-9]{{4}}(?:[T :_-]{_CLOCK}|T[0-9]{{6}}{_FRACTION}){_ZONE}",
        rf"(?:{_TWO_DATES})[T :_-]{{1,2}}{_CLOCK}{_ZONE}",
        rf"{_MONTH}[a-z]{{0,6}} {{1,2}}[0-9]{{1,2}},? (?:{_YEAR} )?{_CLOCK}{_ZONE}(?: {_YEAR})?",
        rf"[0-9]{{1,2}} {_MONTH}[a-z]{{0,6}} {_YEAR} {_CLOCK}{_ZONE}",
        r"[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9] [0-2][0-9][0-5][0-9][0-5][0-9]",
        rf"[IWEFD](?:0[1-9]|1[0-2])[0-3][0-9] {_CLOCK}",
        r"1[0-9]{9}(?:\.[0-9]{3,9}|(?:[0-9]{3}(?:[0-9]{3})?)?(?=\s++[0-9\[-]))",
    )
)
# a clock, a date, seconds since the start: only where the line begins, or behind another time
_PART = "|".join(
    (
        rf"{_YEAR}[-/.][0-9]{{2}}[-/.][0-9]{{2}}",
        r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?",
        r"\[ {0,8}[0-9]{1,8}\.[0-9]{6}\]",
    )
)
_NO_MORE = r"(?![\w/-]|[.:]\w)"
_SURE = rf"{_DAY}(?:{_MOMENT}){_NO_MORE}"
_TIME = rf"{_DAY}(?:{_MOMENT}|{_PART}){_NO_MORE}"
_END = r"(?:[\]|,;:)]{1,3}(?:\s++|(?<=[|;]))|\s++[|;]?\s*+)"

_LEVELS = (
    "TRACE|DEBUG|INFO|INFORMATION|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|FATAL|CRITICAL|CRIT|ALERT|EMERG|FAILURE|FINE|FINER|"
    "FINEST|CONFIG|VERBOSE|PANIC|LOG|DETAIL|HINT|STATEMENT|Trace|Debug|Info|Information|Notice|Warn|Warning|Error|Severe|Fatal|"
    "Critical|Verbose|TRC|DBG|INF|WRN"
)
_LOWER_LEVEL = r"(?:trace|debug|info|notice|warn|warning|error|err|fatal|crit|critical)(?:[:,|;]\s*+|\s++)"
_LEVEL = rf"(?:(?:{_LEVELS}|[\[(<](?:{_LEVELS}|[a-z]{{3,9}})[\])>])(?:[:,|;]?\s++|[|;]))"
_LETTER = r"[VDIWEF]\s++"
_BRACKETS = r"(?:\[(?:[^\[\]]|\[[^\[\]]{0,200}+\]){0,300}+\]|\([^()]{0,100}+\))[:,|-]?\s++"
_SIGN = r"(?:[|:;,*]|-{1,3})\s++"
_STREAM = r"std(?:out|err) [FP] "  # of a container
_BARRED = r"(?:(?<=[|;])|(?<=[|;]\s))[^\s|;]{1,80}+\s?[|;]\s?"

_TOKEN = r"[^\s\[\]]{1,120}+\s++"
_NO_TEXT = r"(?!\S{0,119}[:=,]\s)"
_FIELD = rf"{_NO_TEXT}(?![A-Za-z]{{0,40}}[a-z]{{1,40}}\s)[^\s\"]{{1,120}}+\s++"
_ANOTHER_TIME = rf"{_NO_TEXT}(?![a-z]{{1,40}}\s)[^\s\"]{{1,120}}+\s++{_TIME}{_END}"
_MORE = rf"(?:{_TIME}{_END}|{_SIGN}|[0-9]{{1,10}}{_END}|{_BRACKETS}|{_ANOTHER_TIME}|{_BARRED}|{_STREAM})"
# behind a level a number belongs to the message, unless the header goes on
_AFTER = rf"(?:{_TIME}{_END}|{_SIGN}|[0-9]{{1,10}}\s++(?=[-\[])|{_BRACKETS}|{_BARRED})"

_DASHED = rf"(?:{_TOKEN}){{1,4}}?-\s++"
_PLACED = r"[^\s\[\]]{1,120}+\]\s++"
_SOURCE = (
    rf"(?:\S{{1,160}}? ?:\s++|{_DASHED}|{_PLACED}|\S{{1,80}}+(?: {{2,}}+|\t)"
    r"|[A-Za-z_][\w$-]*+(?:\.[\w$-]++){1,12}+\s++)"
)
_HOST = r"[^\s:\[\]]{1,120}+\s++"
# the program: behind the host's name, or with a sign that a word of a sentence lacks, as in "file.py:12:" and "cron[99]:"
_PLAIN = r"[^\s:\[\]]{1,60}+"
_IN_BRACKETS = r"(?: \([^()]{1,100}+\))?:\s++"
_TAG = (
    rf"(?:{_HOST}\S{{1,160}}?{_IN_BRACKETS}|{_HOST}(?:{_PLAIN} ){{1,4}}?{_PLAIN}\[[0-9]{{1,10}}\]{_IN_BRACKETS}"
    rf"|(?=[^\s:]{{0,160}}[.\[(/#])\S{{1,160}}?:\s++|{_DASHED}|{_PLACED})"
)
_NOT_DASHED = r"(?<!-\s)"  # "... - message": no source behind the dash
_CLIENT = r"(?:\S{1,255}+ ){3}(?=\[[0-9]{2}/)"  # a web server's access log: address, identity, user

_PRIORITY = r"<[0-9]{1,3}>(?:[0-9] )?"  # syslog's, on the wire
_UNTIMED = rf"(?:{_LEVELS}):[\w.$-]{{1,120}}+:"  # Python's logging, not configured

HEADER = (
    rf"^(?:(?:{_PRIORITY})?(?:(?:{_CLIENT}|(?:{_FIELD}){{1,5}}?)[\[(<]?{_SURE}|[\[(<]?{_TIME}){_END}{_MORE}{{0,8}}+"
    rf"(?:(?:{_LETTER}|(?:(?!\S{{1,160}}:\s){_TOKEN}){{0,4}}?{_LEVEL}){_AFTER}{{0,6}}+"
    rf"(?:{_NOT_DASHED}{_SOURCE}{_AFTER}{{0,4}}+)?"
    rf"|{_LOWER_LEVEL}{_AFTER}{{0,6}}+|{_NOT_DASHED}{_TAG})?|{_UNTIMED})(?=\S)"
)

# What is left of a header when its time is masked, or where it has none: a level, or fields as `time=... level=...`
_BARE_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|FATAL|CRITICAL"
REST = (
    rf"^ ?(?=[A-Z\[]|(?:time|ts|timestamp|level|lvl)=)"
    rf"(?:(?:time|ts|timestamp|level|lvl|severity|caller|logger)=\S{{1,160}}+\s++"
    rf"|(?:{_BARE_LEVELS})(?::\s*+|\s++)|\[(?:{_BARE_LEVELS})\]:?\s++){{1,64}}(?=\S)"
)
