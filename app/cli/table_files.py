"""Tables of numbers from CSV and Parquet files: which columns are metrics, when each row was, and several files in order of time.

A value is a number, or missing: blank, `NaN`, `null`, `NA`, `None`; infinite ones are missing too, and those that the jobs would refuse.
A time is ISO 8601 (without a zone it is UTC), a date and time as digits alone, epoch seconds, milliseconds, microseconds or nanoseconds,
distinguished by their size, or seconds since the beginning of a test.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv_format
import pyarrow.parquet as pq

from app.core.report import Report
from app.core.timestamps import LAST_MS
from models.core.arrays import Floats
from models.core.printable import printable
from models.detection.table_score import make_increasing
from models.rules.rule import LARGEST
from pipelines.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "nan", "null", "na", "n/a", "none", "-nan", "inf", "-inf", "+inf", "infinity", "-infinity")
USUAL_TIMES = ("timestamp", "@timestamp", "time", "datetime", "date", "ts")
OTHER_FILES = {  # by their first bytes
    b"\x1f\x8b": "it is compressed with gzip: unpack it first",
    b"BZh": "it is compressed with bzip2: unpack it first",
    b"\xfd7zX": "it is compressed with xz: unpack it first",
    b"(\xb5/\xfd": "it is compressed with zstd: unpack it first",
    b"PK\x03\x04": "it is a spreadsheet or a zip file: save it as CSV",
    b"\xd0\xcf\x11\xe0": "it is a spreadsheet: save it as CSV",
    b"\xff\xfe": "it is UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is UTF-16: save it as UTF-8",
}
DELIMITERS = ",;\t"
# epoch times: from which size on a number is of the next finer unit, and how many of it make a millisecond
UNITS = ((1e17, 1e6), (1e14, 1e3), (1e11, 1.0), (0.0, 1e-3))
DIGITS = re.compile(r"\d{8}|\d{8}[T ]?\d{4}(\d{2})?")  # a date, with hours and minutes, with seconds
WITH_COMMA = re.compile(r"[-+]?[\d.' \u00a0\u202f]*\d,\d[\d.,]*")  # a decimal comma, or commas between thousands
NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")
WITH_UNIT = re.compile(r"[-+]?\d+(\.\d+)?\s*[^\d\s.,:-]{1,8}")
DIGITS_FORMATS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
EARLIEST_MS = 1e11  # 1973: numbers below are no dates, but seconds since a test began
FIRST_ROW_MS = 1_700_006_400_000  # where rows without dates begin: a midnight
USUAL_PERIOD = 60.0
MOST_BACK = 0.1  # share of rows whose clock may have gone back


@dataclass(frozen=True)
class TableColumns:
    """Columns to read: one metric by its name, or several by a pattern; and the column of times (None: one with a usual name).

    With `timed` False the rows are known by their number, and no column is a time.
    """

    value: str | None = None
    values: str | None = None
    timestamp: str | None = None
    timed: bool = True


@dataclass(frozen=True)
class NumberTable:
    """`values` `(rows, metrics)`, NaN where missing, and `times` in epoch ms `(rows,)`, None where rows have none."""

    file: Path
    metrics: tuple[str, ...]
    values: Floats
    times: Floats | None

    def __len__(self) -> int:
        return len(self.values)


def read(file: Path, columns: TableColumns) -> NumberTable:
    """Read a file. Raises InputError for what cannot be read, a column that is missing, and text where a number should be."""
    names = header_of(file)
    timestamp = time_column(file, names, columns)
    metrics = metric_columns(file, names, columns, timestamp)
    table = columns_of(file, [*metrics, *([timestamp] if timestamp else [])], alone=len(names) == 1)
    if not len(table):
        msg = f"{file} has no rows; wanted at least one beside its header"
        raise InputError(msg)
    values = np.stack([numbers(file, name, table[name]) for name in metrics], axis=1)
    return NumberTable(file, tuple(metrics), values, times(file, timestamp, table[timestamp]) if timestamp else None)


def header_of(file: Path) -> list[str]:
    """Names of the columns. Raises InputError for a file that is not there, is a pipe or empty, or names a column twice."""
    if file.exists() and not (file.is_file() or file.is_dir()):
        # it would be read several times, each time what is left of it
        msg = f"{file} is no file that can be read twice; wanted CSV with a header, or Parquet, on a disk"
        raise InputError(msg)
    try:
        names = pq.read_schema(file).names if is_parquet(file) else next(rows_of(file), [])
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError, csv.Error) as error:
        raise InputError(unreadable(file, error)) from error
    if not names:
        msg = f"{file} is empty, or its first line is; wanted a line with the names of its columns, or Parquet"
        raise InputError(msg)
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        msg = f"{file} has several columns {twice[0]!r}; wanted a name of its own for each"
        raise InputError(msg)
    return list(names)


def unreadable(file: Path, error: Exception) -> str:
    """What is wrong with a file, in one line."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n", maxsplit=1)[0]
    if isinstance(error, UnicodeDecodeError):
        why = "it is not UTF-8: save it as UTF-8"
    if not isinstance(error, OSError):
        with file.open("rb") as opened:
            why = other_file(opened.read(4)) or why
    return f"cannot read {file}: {why}; wanted CSV with a header, or Parquet"


def other_file(begin: bytes) -> str:
    """What a file is that begins so and is neither text nor Parquet, and what to do; empty for others."""
    return next((what for magic, what in OTHER_FILES.items() if begin.startswith(magic)), "")


def is_parquet(file: Path) -> bool:
    """Whether a file begins as Parquet does, whatever it is called."""
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def rows_of(file: Path) -> Any:
    """The rows of a CSV file as lists."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        yield from csv.reader(lines, delimiter=delimiter_of(file))


def delimiter_of(file: Path) -> str:
    """The delimiter that the header has most of."""
    with file.open(encoding="utf-8-sig") as lines:
        first = lines.readline()
    return max(DELIMITERS, key=first.count)


def time_column(file: Path, names: Sequence[str], columns: TableColumns) -> str | None:
    """The column of times; None if rows have none."""
    if columns.timestamp is not None:
        return present(file, names, columns.timestamp)
    if not columns.timed:
        return None
    return next((name for name in names if name.lower() in USUAL_TIMES and name != columns.value), None)


def metric_columns(file: Path, names: Sequence[str], columns: TableColumns, timestamp: str | None) -> list[str]:
    """The columns of metrics, in the order of the file."""
    if columns.value is not None:
        return [present(file, names, columns.value)]
    found = [name for name in names if fnmatchcase(name, columns.values or "*") and name != timestamp]
    if not found:
        msg = f"{file} has no column like {columns.values!r}; it has {shown(names)}{no_header(names)}"
        raise InputError(msg)
    return found


def only_metric(file: Path, columns: TableColumns, report: Report) -> TableColumns:
    """The same columns with the only metric of a file. Raises InputError where it has several or none, and says what to ask for."""
    names = header_of(file)
    timestamp = time_column(file, names, columns)
    found = [name for name in names if name != timestamp]
    if len(found) != 1:
        todo = (
            no_header(names) or "; say what to score: --value COLUMN, or --values 'PATTERN' for the metrics of a host"
        )
        msg = f"{file} has the columns {shown(names)}{todo}"
        raise InputError(msg)
    if no_header(found):
        report(f"{file}: its first line is taken for the name of its column, {found[0]!r}, and not for a value")
    return replace(columns, value=found[0])


def present(file: Path, names: Sequence[str], name: str) -> str:
    """A name that is one of a column. Raises InputError with those that there are."""
    if name not in names:
        msg = f"{file} has no column {name!r}; it has {shown(names)}{no_header(names)}"
        raise InputError(msg)
    return name


def no_header(names: Sequence[str]) -> str:
    """What is probably wrong with a file that has these names of columns; empty where nothing is to be seen."""
    if any(NUMBER.fullmatch(name.strip()) for name in names):
        return "; wanted the names of the columns in its first line"
    if len(names) == 1 and "|" in names[0]:
        return "; wanted a comma, semicolon or tab between columns"
    return ""


def shown(names: Sequence[str], most: int = 12, longest: int = 40) -> str:
    """Names of columns for people; quoted where one begins or ends with a blank."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    cut = (printable(name)[:longest] for name in names[:most])
    return ", ".join(name if name and name.strip() == name else repr(name) for name in cut) + more


def columns_of(file: Path, wanted: list[str], *, alone: bool) -> pd.DataFrame:
    """Columns of a file, those of CSV as texts. Of a column that is `alone` in CSV an empty line is a value that is missing."""
    names = list(dict.fromkeys(wanted))
    try:
        if is_parquet(file):
            return frame(pq.read_table(file, columns=names))
        parsing = csv_format.ParseOptions(
            delimiter=delimiter_of(file), newlines_in_values=True, ignore_empty_lines=not alone
        )
        as_text = csv_format.ConvertOptions(
            column_types={name: pa.string() for name in names}, include_columns=names, strings_can_be_null=False
        )
        return frame(csv_format.read_csv(file, parse_options=parsing, convert_options=as_text))
    except (OSError, pa.ArrowException) as error:
        raise InputError(unreadable(file, error)) from error


def frame(table: pa.Table) -> pd.DataFrame:
    """A table as pandas has it, each column as one: what pandas has written says which of them was its index."""
    found: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return found


def numbers(file: Path, name: str, column: pd.Series[Any]) -> Floats:
    """A column as numbers `(rows,)`, NaN where missing. Raises InputError for the first that is something else."""
    import pandas as pd

    found = np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    odd = np.flatnonzero(np.isnan(found) & column.notna().to_numpy())
    for row in odd.tolist():
        text = str(column.iloc[row]).strip()
        if text.lower() not in MISSING:
            msg = (
                f"{file}, row {row}, column {name!r} is {text[:40]!r}; wanted a number, or nothing where it is missing"
                f"{spelling(text)}"
            )
            raise InputError(msg)
    found[~np.isfinite(found)] = np.nan
    return found


def spelling(text: str) -> str:
    """How a number is written that is not spelled as wanted; empty for other text."""
    if WITH_COMMA.fullmatch(text):
        return ": write a decimal point instead of a comma, and nothing between thousands, as in 1234.5"
    if WITH_UNIT.fullmatch(text):
        return ": write it without a unit"
    return ""


def times(file: Path, name: str, column: pd.Series[Any]) -> Floats:
    """A column as epoch milliseconds `(rows,)`. Raises InputError for the first row that has no time."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return _milliseconds(file, name, column, pd.to_datetime(column, utc=True))
    if pd.api.types.is_timedelta64_dtype(column):  # since the beginning of a test
        column = column.dt.total_seconds()
    as_digits = dates_of_digits(column)
    if as_digits is not None:
        return _milliseconds(file, name, column, as_digits)
    epoch = np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    known = np.isfinite(epoch)
    if 2 * known.sum() > len(epoch):
        if not known.all():
            raise no_time(file, name, column, int(np.flatnonzero(~known)[0]))
        size = float(np.median(np.abs(epoch)))
        per_ms = next(per for least, per in UNITS if size >= least)
        return np.asarray(np.round(epoch / per_ms))
    return _milliseconds(file, name, column, pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601"))


def dates_of_digits(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """Times that are digits alone, such as 20260105 and 20260105 0930; None unless all rows are, and are dates."""
    import pandas as pd

    texts = column.astype(str).str.strip()
    if not texts.map(lambda text: DIGITS.fullmatch(text) is not None).all():
        return None
    digits = texts.str.replace("[T ]", "", regex=True)
    lengths = digits.str.len().unique()
    if len(lengths) != 1:
        return None
    found = pd.to_datetime(digits, errors="coerce", utc=True, format=DIGITS_FORMATS[int(lengths[0])])
    return None if found.isna().any() else found


def _milliseconds(file: Path, name: str, column: pd.Series[Any], found: pd.Series[Any]) -> Floats:
    unknown = np.flatnonzero(found.isna().to_numpy())
    if len(unknown):
        raise no_time(file, name, column, int(unknown[0]))
    # not nanoseconds, which end in 2262
    return np.asarray(np.round(found.astype("datetime64[us, UTC]").astype("int64").to_numpy() / 1e3))


def no_time(file: Path, name: str, column: pd.Series[Any], row: int) -> InputError:
    """The refusal of a row whose time cannot be read."""
    text = "" if column.isna().iloc[row] else str(column.iloc[row]).strip()
    what = f"is {text[:40]!r}" if text else "is missing"
    return InputError(
        f"{file}, row {row}, the time in column {name!r} {what}; wanted ISO 8601, such as 2026-01-05 09:30:00, "
        "or epoch time, of 1970 to 2199, in every row"
    )


@dataclass(frozen=True)
class OrderedTables:
    """Files in order, each with the times of its rows in epoch ms, which rise over all of them; `period` in seconds.

    `dated` says whether that is when the rows were; others begin at `FIRST_ROW_MS`.
    """

    tables: tuple[NumberTable, ...]
    times: tuple[Floats, ...]
    period: float
    dated: bool = True

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(map(len, self.tables))

    @cached_property
    def line(self) -> Floats:
        """The times of all rows, `(rows,)`."""
        return np.concatenate(self.times)

    @cached_property
    def begins(self) -> list[int]:
        """Rows before each file."""
        return [0, *np.cumsum([len(table) for table in self.tables]).tolist()]


def load(files: Sequence[Path], columns: TableColumns, period: float | None, report: Report) -> OrderedTables:
    """Read files and put their rows in order of time. Raises InputError for what does not fit together."""
    if period is not None and not (0.001 <= period < 1e9):
        msg = f"score: --period is {period}; wanted seconds between two rows, from 0.001"
        raise InputError(msg)
    if period is not None and columns.timestamp is None:
        unread = time_column(files[0], header_of(files[0]), columns) if files else None
        if unread is not None:
            report(f"with --period the times in column {unread!r} are not read; --timestamp {unread} reads them")
        columns = dataclasses.replace(columns, timed=False)
    tables = tuple(within_bounds(read(file, columns), report) for file in files)
    _alike(tables)
    if tables[0].times is None:
        return _numbered(tables, period, report)
    own = [table.times for table in tables if table.times is not None]
    dated = any(bool((np.abs(one) >= EARLIEST_MS).any()) for one in own)
    if not dated:
        report("the times are no dates: taking them for seconds since a test began")
        own = [one - own[0][0] + FIRST_ROW_MS for one in own]
    for table, one in zip(tables, own, strict=True):
        if (one <= 0).any():
            msg = f"{table.file}, row {int(np.argmax(one <= 0))}, is of a time before 1970; wanted later ones"
            raise InputError(msg)
        if (one >= LAST_MS).any():
            msg = f"{table.file}, row {int(np.argmax(one >= LAST_MS))}, is of a time after 2199; wanted earlier ones"
            raise InputError(msg)
    _forward(tables, own, report)
    risen = make_increasing(np.concatenate(own))
    cuts = np.cumsum([len(table) for table in tables])[:-1]
    return OrderedTables(tables, tuple(np.split(risen, cuts)), period or period_of(tables, own), dated)


def within_bounds(table: NumberTable, report: Report) -> NumberTable:
    """The table without values that no job takes, which are reported."""
    large = np.abs(table.values) > LARGEST
    if not large.any():
        return table
    row, metric = np.argwhere(large)[0].tolist()
    report(
        f"{table.file}: {large.sum()} values beyond {LARGEST:g} count as missing, the first in row {row}, column {table.metrics[metric]!r}"
    )
    return dataclasses.replace(table, values=np.where(large, np.nan, table.values))


def _alike(tables: Sequence[NumberTable]) -> None:
    first = tables[0]
    for table in tables[1:]:
        if set(table.metrics) != set(first.metrics):
            odd = sorted(set(table.metrics) ^ set(first.metrics))
            msg = f"{table.file} and {first.file} differ in column {odd[0]!r}; wanted files of the same metrics"
            raise InputError(msg)
        if (table.times is None) != (first.times is None):
            msg = (
                f"of {table.file} and {first.file} one has no times; name the column with --timestamp, or give --period"
            )
            raise InputError(msg)


def _numbered(tables: tuple[NumberTable, ...], period: float | None, report: Report) -> OrderedTables:
    """Rows without a time are a period apart."""
    if period is None:
        period = USUAL_PERIOD
        report(
            f"no column {', '.join(USUAL_TIMES)}, and neither --timestamp nor --period: taking rows to be {period:g} s apart"
        )
    end = np.cumsum([0, *map(len, tables)])
    spans = [np.arange(a + 1.0, b + 1.0) for a, b in itertools.pairwise(end.tolist())]
    return OrderedTables(
        tables, tuple(np.round(FIRST_ROW_MS + 1000 * period * span) for span in spans), period, dated=False
    )


def _forward(tables: Sequence[NumberTable], times: Sequence[Floats], report: Report) -> None:
    """Report how often the clock goes back. Raises InputError where more than `MOST_BACK` of the rows are not in order."""
    together = np.concatenate(times)
    back = np.flatnonzero(together[1:] <= np.maximum.accumulate(together)[:-1]) + 1
    if not len(back):
        return
    ends = np.cumsum([len(table) for table in tables])
    file = int(np.searchsorted(ends, back[0], side="right"))
    row = int(back[0] - (ends[file] - len(tables[file])))
    where = f"{tables[file].file}, row {row}"
    if len(back) > MOST_BACK * len(together):
        msg = (
            f"{where}: {len(back)} of {len(together)} rows are not later than one before; wanted one series or host a file, "
            "its rows in order of time, in UTC or with a zone, at least 1 ms apart"
        )
        raise InputError(msg)
    report(f"{len(back)} rows, first {where}, are not later than one before: they count as 1 ms after it")


def period_of(tables: Sequence[NumberTable], times: Sequence[Floats]) -> float:
    """Seconds between rows: the median of the steps above 0. Raises InputError if there is no second row."""
    steps = np.concatenate([np.diff(one) for one in times])
    steps = steps[steps > 0]
    if not len(steps):
        msg = f"{tables[0].file}: no two rows with different times, so their distance is not known; give --period"
        raise InputError(msg)
    return float(np.median(steps)) / 1000
