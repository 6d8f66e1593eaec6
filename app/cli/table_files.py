"""Tables of numbers from CSV and Parquet files: which columns are metrics, and when each row was.

A value is a number, or missing: blank, `NaN`, `null`, `NA`, `None`; infinite ones are missing too. A time is ISO 8601
(without a zone it is UTC) or epoch seconds, milliseconds, microseconds or nanoseconds, told apart by their size.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv_format
import pyarrow.parquet as pq

from models.core.windows import Floats
from pipelines.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "nan", "null", "na", "n/a", "none", "-nan", "inf", "-inf", "+inf", "infinity", "-infinity")
USUAL_TIMES = ("timestamp", "@timestamp", "time", "datetime", "date", "ts")
DELIMITERS = ",;\t"
# epoch times: from which size on a number is of the next finer unit, and how many of it make a millisecond
UNITS = ((1e17, 1e6), (1e14, 1e3), (1e11, 1.0), (0.0, 1e-3))


@dataclass(frozen=True)
class Wanted:
    """Columns to read: one by its name or several by a pattern, and where the time is (none: wherever it usually is).

    With `timed` False the rows are told by their number, and no column is a time.
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


def read(file: Path, wanted: Wanted) -> NumberTable:
    """Read a file. Raises InputError for what cannot be read, a column that is missing, and text where a number should be."""
    names = header_of(file)
    timestamp = time_column(file, names, wanted)
    metrics = metric_columns(file, names, wanted, timestamp)
    table = columns_of(file, [*metrics, *([timestamp] if timestamp else [])])
    if not len(table):
        msg = f"{file} has no rows; wanted at least one beside its header"
        raise InputError(msg)
    values = np.stack([numbers(file, name, table[name]) for name in metrics], axis=1)
    return NumberTable(file, tuple(metrics), values, times(file, timestamp, table[timestamp]) if timestamp else None)


def header_of(file: Path) -> list[str]:
    """Names of the columns. Raises InputError for a file that is not there, is empty, or names a column twice."""
    try:
        names = pq.read_schema(file).names if is_parquet(file) else next(rows_of(file), [])
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError, csv.Error) as error:
        raise InputError(unreadable(file, error)) from error
    if not names:
        msg = f"{file} is empty; wanted a line with the names of its columns, or Parquet"
        raise InputError(msg)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"{file} has several columns {twice[0]!r}; wanted a name of its own for each"
        raise InputError(msg)
    return list(names)


def unreadable(file: Path, error: Exception) -> str:
    """What is wrong with a file, in one line."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n", maxsplit=1)[0]
    return f"cannot read {file}: {why}; wanted CSV with a header, or Parquet"


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


def time_column(file: Path, names: Sequence[str], wanted: Wanted) -> str | None:
    """The column of times; None if rows have none."""
    if wanted.timestamp is not None:
        return present(file, names, wanted.timestamp)
    if not wanted.timed:
        return None
    return next((name for name in names if name.lower() in USUAL_TIMES and name != wanted.value), None)


def metric_columns(file: Path, names: Sequence[str], wanted: Wanted, timestamp: str | None) -> list[str]:
    """The columns of metrics, in the order of the file."""
    if wanted.value is not None:
        return [present(file, names, wanted.value)]
    found = [name for name in names if fnmatchcase(name, wanted.values or "*") and name != timestamp]
    if not found:
        msg = f"{file} has no column like {wanted.values!r}; it has {shown(names)}"
        raise InputError(msg)
    return found


def present(file: Path, names: Sequence[str], name: str) -> str:
    """A name that is one of a column. Raises InputError with those that there are."""
    if name not in names:
        msg = f"{file} has no column {name!r}; it has {shown(names)}"
        raise InputError(msg)
    return name


def shown(names: Sequence[str], most: int = 12) -> str:
    """Names of columns for people."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def columns_of(file: Path, names: list[str]) -> pd.DataFrame:
    """Columns of a file, those of CSV as texts."""
    try:
        if is_parquet(file):
            return frame(pq.read_table(file, columns=names))
        parsing = csv_format.ParseOptions(delimiter=delimiter_of(file), newlines_in_values=True)
        as_text = csv_format.ConvertOptions(
            column_types={name: pa.string() for name in names}, include_columns=names, strings_can_be_null=False
        )
        return frame(csv_format.read_csv(file, parse_options=parsing, convert_options=as_text))
    except (OSError, pa.ArrowException) as error:
        raise InputError(unreadable(file, error)) from error


def frame(table: pa.Table) -> pd.DataFrame:
    """A table as pandas has it."""
    found: pd.DataFrame = table.to_pandas()
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
            )
            raise InputError(msg)
    found[~np.isfinite(found)] = np.nan
    return found


def times(file: Path, name: str, column: pd.Series[Any]) -> Floats:
    """A column as epoch milliseconds `(rows,)`. Raises InputError for the first row that has no time."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return _milliseconds(file, name, column, pd.to_datetime(column, utc=True))
    epoch = np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    if np.isfinite(epoch).all():
        size = float(np.median(np.abs(epoch)))
        per_ms = next(per for least, per in UNITS if size >= least)
        return np.asarray(np.round(epoch / per_ms))
    return _milliseconds(file, name, column, pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601"))


def _milliseconds(file: Path, name: str, column: pd.Series[Any], found: pd.Series[Any]) -> Floats:
    unknown = np.flatnonzero(found.isna().to_numpy())
    if len(unknown):
        text = "" if column.isna().iloc[unknown[0]] else str(column.iloc[unknown[0]]).strip()
        what = f"is {text[:40]!r}" if text else "is missing"
        msg = (
            f"{file}, row {unknown[0]}, the time in column {name!r} {what}; wanted ISO 8601 or epoch time in every row"
        )
        raise InputError(msg)
    return np.asarray(found.astype("datetime64[ns, UTC]").astype("int64").to_numpy() / 1e6)
