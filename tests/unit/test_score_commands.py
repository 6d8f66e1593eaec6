"""`kappa score`: a row for each row, the same as the chain says of the same windows, and one clear line for what it cannot read."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from app.cli.main import app
from app.cli.score_files import COLUMNS, OF_HOST
from app.cli.table_files import FIRST_ROW_MS
from models.core.parameters import DetectorParameters
from models.core.series import Series, build
from models.detection.detector import ShardDetector
from models.detection.table_score import HOST, one_point_window
from pipelines.errors import InputError, KappaError

RNG = np.random.default_rng(7)
QUIET = np.round(20 + RNG.normal(size=160), 3)
STEP = np.concatenate([QUIET, [90.0] * 12, QUIET[:40]])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def written(folder: Path, columns: Mapping[str, Any], name: str = "in.csv") -> Path:
    file = folder / name
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return file


def scored(folder: Path, *arguments: Any) -> list[dict[str, str]]:
    out = folder / "out.csv"
    answer = run(*arguments, "--out", str(out))
    assert answer.exit_code == 0, answer.exception
    return rows(out)


def stamps(count: int, seconds: int = 300) -> list[str]:
    return [str(np.datetime64("2026-01-05T00:00:00") + k * seconds) for k in range(count)]


def refused(*arguments: Any) -> str:
    answer = run(*arguments)
    assert isinstance(answer.exception, KappaError), answer.output
    text = str(answer.exception)
    assert "\n" not in text
    return text


def test_what_is_said_of_a_row_is_what_the_detector_says_of_its_window(tmp_path: Path) -> None:
    found = scored(tmp_path, written(tmp_path, {"v": STEP}), "--value", "v", "--period", "300")
    detector, name = (
        ShardDetector(DetectorParameters(window_seconds=300)),
        np.array([build(Series("gauge", HOST, metric="v"))]),
    )
    opened = []
    for k, (row, value) in enumerate(zip(found, STEP, strict=True)):
        scores, novelties = detector.step(
            FIRST_ROW_MS + 300_000 * (k + 1), one_point_window(name.astype(object), np.array([value]))
        )
        for column in ("score", "value", "typical", "lower", "upper"):
            number = float(getattr(scores, column)[0])
            assert row[column] == ("" if np.isnan(number) else format(number, ".7g"))
        assert row["kind"] == scores.kind[0]
        if any(n.status == "open" for n in novelties):
            opened.append(k)
    assert opened == [160]
    assert [k for k, row in enumerate(found) if row["novelty"] == "1" and row["kind"] == "anomaly"] == opened


def test_each_event_has_one_row_above_the_threshold(tmp_path: Path) -> None:
    file, out = written(tmp_path, {"timestamp": stamps(len(STEP)), "v": STEP}), tmp_path / "out.csv"
    made = json.loads(run(str(file), "--value", "v", "--out", str(out), "--json").stdout)
    above_threshold = [
        k
        for k, row in enumerate(rows(out))
        if row["anomaly_score"] and float(row["anomaly_score"]) >= made["threshold"]
    ]
    assert above_threshold == [160]
    assert made["first_novelties"][0]["row"] == made["first_novelties"][0]["since"] == 160
    assert made["first_novelties"][0]["time"] == "2026-01-05T13:20:00Z"
    assert made["scored"] < made["rows"] == len(STEP)


def test_rows_are_in_order_and_blank_while_warming_up(tmp_path: Path) -> None:
    found = scored(tmp_path, written(tmp_path, {"v": STEP}), "--value", "v", "--period", "300")
    assert tuple(found[0]) == COLUMNS
    assert [(row["file"], row["row"]) for row in found] == [("0", str(k)) for k in range(len(STEP))]
    assert {row["kind"] for row in found[:20]} == {"warming"}
    assert {row["anomaly_score"] + row["novelty"] for row in found[:20]} == {""}
    assert all(row["anomaly_score"] for row in found[60:])


def test_the_first_files_only_teach(tmp_path: Path) -> None:
    one, two = written(tmp_path, {"v": STEP[:100]}, "1.csv"), written(tmp_path, {"v": STEP[100:]}, "2.csv")
    split = scored(tmp_path, one, two, "--value", "v", "--period", "300")
    assert [row["file"] for row in split] == ["0"] * 100 + ["1"] * (len(STEP) - 100)
    assert split[100]["row"] == "0"
    assert {row["kind"] for row in split[:100]} == {"teaching"}
    assert {row["anomaly_score"] for row in split[:100]} == {""}
    whole = scored(tmp_path, written(tmp_path, {"v": STEP}), "--value", "v", "--period", "300")
    assert [row["anomaly_score"] for row in split[100:]] == [row["anomaly_score"] for row in whole[100:]]


def test_a_host_has_one_score_and_names_what_contributes(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(50, 1, (300, 6))
    values[250:260, 4] += 40
    columns = {"t": stamps(300, 60), **{f"m{i}": values[:, i] for i in range(6)}, "label": [0] * 300}
    found = scored(tmp_path, written(tmp_path, columns), "--values", "m*", "--timestamp", "t")
    assert tuple(found[0]) == COLUMNS + OF_HOST
    score = np.array([float(row["anomaly_score"] or "nan") for row in found])
    assert 250 <= np.nanargmax(score) <= 260  # the way back is as far
    assert found[250]["top"].split(";")[0] == "m4"
    assert float(found[250]["value"]) == pytest.approx(values[250, 4], abs=1e-3)
    assert sum(map(float, found[250]["share"].split(";"))) <= 1.01
    assert [k for k, row in enumerate(found) if row["novelty"] == "1"] == [250]


def test_no_name_of_a_metric_is_a_formula_for_a_spreadsheet_and_numbers_stay_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(-50, 1, (300, 6))
    values[250:260, 4] += 40
    columns = {"t": stamps(300, 60), **{f"=m{i}": values[:, i] for i in range(6)}}
    found = scored(tmp_path, written(tmp_path, columns), "--values", "=m*", "--timestamp", "t")
    assert found[250]["top"].split(";")[0] == "'=m4"
    assert all(name.startswith("'=m") for row in found if row["top"] for name in row["top"].split(";"))
    assert float(found[100]["value"]) < 0 and found[100]["value"].startswith("-")


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    times, file = stamps(len(STEP)), tmp_path / "in.parquet"
    stamped = np.array(times, dtype="datetime64[ms]")
    pq.write_table(pa.table({"when": stamped, "v": STEP}), file)
    text = written(tmp_path, {"when": times, "v": STEP})
    about = ("--value", "v", "--timestamp", "when")
    assert scored(tmp_path, file, *about) == scored(tmp_path, text, *about)


def test_an_index_of_pandas_is_a_column_as_any_other(tmp_path: Path) -> None:
    table, file = pd.DataFrame({"when": pd.to_datetime(stamps(len(STEP))), "v": STEP}), tmp_path / "in.parquet"
    about = ("--value", "v", "--timestamp", "when")
    table.to_parquet(file)
    as_column = scored(tmp_path, file, *about)
    for index in ("when", "v"):
        table.set_index(index).to_parquet(file)
        assert scored(tmp_path, file, *about) == as_column


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_of_parquet_are_times_of_a_test_whatever_their_unit(tmp_path: Path, unit: str) -> None:
    since, file = pd.to_timedelta([60 * k for k in range(len(STEP))], unit="s"), tmp_path / "in.parquet"
    pq.write_table(pa.table({"time": pa.array(since).cast(pa.duration(unit)), "v": STEP}), file)
    made = json.loads(run(str(file), "--value", "v", "--json").stdout)
    assert (made["period_seconds"], made["first_novelties"][0]["time"]) == (60, "+2:40:00")


def test_an_empty_line_of_a_single_column_is_a_missing_value(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("v\n" + "".join("\n" if k == 40 else f"{value}\n" for k, value in enumerate(STEP)))
    found = scored(tmp_path, file, "--value", "v", "--period", "300")
    assert [k for k, row in enumerate(found) if row["kind"] == "missing"] == [40]
    assert found[160]["novelty"] == "1"


def test_a_value_that_is_missing_has_a_row_that_says_nothing(tmp_path: Path) -> None:
    holes = {40: "", 41: "NaN", 90: "null", 91: "inf"}
    values = [holes.get(k, value) for k, value in enumerate(STEP)]
    found = scored(tmp_path, written(tmp_path, {"v": values}), "--value", "v", "--period", "300")
    assert [k for k, row in enumerate(found) if row["kind"] == "missing"] == sorted(holes)
    assert found[160]["novelty"] == "1"


def test_times_that_repeat_or_go_back_a_little_keep_their_rows(tmp_path: Path) -> None:
    times = stamps(len(STEP))
    times[80:92] = times[68:80]
    found = scored(tmp_path, written(tmp_path, {"timestamp": times, "v": STEP}), "--value", "v")
    assert len(found) == len(STEP)
    assert found[160]["novelty"] == "1"


def test_a_fleet_of_errors_each_in_one_line(tmp_path: Path) -> None:
    def file(text: str) -> Path:
        path = tmp_path / "bad.csv"
        path.write_text(text)
        return path

    v = ("--value", "v")
    assert "is empty" in refused(file(""), *v)
    assert "or its first line is" in refused(file("\nv\n1\n"), *v)
    assert "it has ts, ' v'" in refused(file("ts, v\n1,2\n"), *v)
    assert "has no rows" in refused(file("v\n"), *v)
    assert "no column 'v'; it has a, b" in refused(file("a,b\n1,2\n"), *v)
    assert "no column like 'm*'" in refused(file("a,b\n1,2\n"), "--values", "m*")
    assert refused(file("v\n1\nup\n"), *v).endswith(
        "row 1, column 'v' is 'up'; wanted a number, or nothing where it is missing"
    )
    assert "row 1, the time in column 'ts' is missing" in refused(file("ts,v\n2026-01-05,1\n,2\n"), *v)
    assert "row 0, the time in column 'ts' is 'noon'" in refused(file("ts,v\nnoon,1\n"), *v)
    assert "its rows in order of time" in refused(file("ts,v\n" + "".join(f"{9000 - k},1\n" for k in range(30))), *v)
    assert "give --period" in refused(file("ts,v\n2026-01-05,1\n"), *v)
    assert "--period is 0" in refused(file("v\n1\n"), *v, "--period", "0")
    assert "several columns 'v'" in refused(file("v,v\n1,2\n"), *v)
    assert "No such file" in refused(tmp_path / "none.csv", *v)
    other = written(tmp_path, {"w": [1.0]}, "other.csv")
    assert "no column 'v'" in refused(file("v\n1\n"), other, *v, "--period", "1")
    os.mkfifo(tmp_path / "pipe")
    assert "no file that can be read twice" in refused(tmp_path / "pipe", *v)
    itself = file("v\n1\n")
    assert "is the file that is read" in refused(itself, *v, "--period", "1", "--out", itself)
    assert itself.read_text() == "v\n1\n"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("number", ["21,5", "-1.234,5", "1,234.5", "1 234,5", "1\u00a0234,5", "1,234,567"])
def test_a_number_with_a_comma_is_refused_with_how_to_write_it(tmp_path: Path, number: str) -> None:
    file = tmp_path / "in.csv"
    file.write_text(f"Zeit;Wert\n2026-01-05;{number}\n")
    answer = refused(file, "--value", "Wert", "--timestamp", "Zeit")
    assert repr(number) in answer
    assert "a decimal point instead of a comma" in answer


@pytest.mark.parametrize("number", ["21.5 %", "12ms", "3.5 °C", "8 MB/s"])
def test_a_number_with_a_unit_is_refused_with_how_to_write_it(tmp_path: Path, number: str) -> None:
    assert "without a unit" in refused(written(tmp_path, {"v": [1.0, number]}), "--value", "v")


@pytest.mark.parametrize(
    ("text", "what"),
    [("2026-01-05,20.5\n", "the names of the columns in its first line"), ("v|w\n1|2\n", "a comma, semicolon or tab")],
)
def test_a_file_without_names_or_delimiters_is_refused_with_what_is_wanted(
    tmp_path: Path, text: str, what: str
) -> None:
    file = tmp_path / "in.csv"
    file.write_text(text)
    assert what in refused(file, "--value", "v")
    assert what in refused(file, "--values", "q*")


@pytest.mark.parametrize("time", ["05.01.2026 09:30", "01/05/2026 09:30 AM", "2026-01-05T09:30:00 CET"])
def test_a_time_of_another_form_is_refused_with_an_example(tmp_path: Path, time: str) -> None:
    answer = refused(written(tmp_path, {"when": [time], "v": [1.0]}), "--value", "v", "--timestamp", "when")
    assert time in answer
    assert "such as 2026-01-05 09:30:00" in answer


def test_a_column_of_times_that_is_not_recognised_is_said_with_how_to_name_it(tmp_path: Path) -> None:
    answer = run(str(written(tmp_path, {"Zeit": stamps(len(STEP)), "v": STEP})), "--value", "v", "--json")
    assert json.loads(answer.stdout)["period_seconds"] == 60
    assert "neither --timestamp nor --period" in answer.stderr


def test_value_and_values_are_not_wanted_together(tmp_path: Path) -> None:
    assert run(str(written(tmp_path, {"v": [1.0]})), "--value", "v", "--values", "v").exit_code == 2


def test_the_only_column_beside_the_times_is_scored_without_being_named(tmp_path: Path) -> None:
    timed = written(tmp_path, {"time": stamps(len(STEP)), "v": STEP})
    assert scored(tmp_path, timed) == scored(tmp_path, timed, "--value", "v")
    alone = written(tmp_path, {"v": STEP}, "alone.csv")
    assert scored(tmp_path, alone, "--period", "300") == scored(tmp_path, alone, "--value", "v", "--period", "300")


@pytest.mark.parametrize("names", [["time", "a", "b"], ["a", "b"], ["time"]])
def test_a_file_of_several_metrics_or_none_is_refused_with_its_columns_and_what_to_say(
    tmp_path: Path, names: list[str]
) -> None:
    answer = refused(written(tmp_path, {name: ["1"] for name in names}))
    assert f"has the columns {', '.join(names)}; say what to score: --value COLUMN" in answer


def test_a_file_of_several_columns_without_names_is_refused_with_what_is_wanted(tmp_path: Path) -> None:
    answer = refused(written(tmp_path, {"1": [3], "2": [4]}))
    assert answer.endswith("has the columns 1, 2; wanted the names of the columns in its first line")


def test_a_number_that_is_taken_for_the_name_of_the_only_column_is_reported(tmp_path: Path) -> None:
    file = written(tmp_path, {"51.28": [3, 4]})
    note = "its first line is taken for the name of its column, '51.28', and not for a value"
    assert note in run(str(file)).stderr
    assert note not in run(str(file), "--value", "51.28").stderr


def test_without_a_place_to_write_rows_are_on_stdout(tmp_path: Path) -> None:
    answer = run(str(written(tmp_path, {"v": STEP[:40]})), "--value", "v", "--period", "300")
    assert answer.stdout.splitlines()[0] == ",".join(COLUMNS)
    assert len(answer.stdout.splitlines()) == 41


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    file = written(tmp_path, {"v": STEP})
    first = scored(tmp_path, file, "--value", "v", "--period", "10")
    assert first == scored(tmp_path, file, "--value", "v", "--period", "10")


def test_a_file_of_a_folder_that_is_not_there_is_refused_before_it_is_scored(tmp_path: Path) -> None:
    file = written(tmp_path, {"v": [1.0, 2.0]})
    with pytest.raises(InputError, match="cannot write"):
        raise run(str(file), "--value", "v", "--period", "9", "--out", str(tmp_path / "no" / "o.csv")).exception  # type: ignore[misc]


@pytest.mark.parametrize(
    ("times", "first"),
    [
        ([60 * k for k in range(len(STEP))], "+2:40:00"),
        ([-6000 + 60 * k for k in range(len(STEP))], "+2:40:00"),
        ([20250101 + k if k < 31 else 20250170 + k for k in range(31)], None),
    ],
)
def test_times_from_the_start_of_a_test_are_read_and_shown_as_such(
    tmp_path: Path, times: list[int], first: str | None
) -> None:
    file = written(tmp_path, {"time": times, "v": STEP[: len(times)]})
    made = json.loads(run(str(file), "--value", "v", "--json").stdout)
    assert made["period_seconds"] == (60 if first else 86_400)
    assert [one["time"] for one in made["first_novelties"]][:1] == ([first] if first else [])


def test_values_that_no_job_takes_count_as_missing_and_are_reported(tmp_path: Path) -> None:
    values = STEP.copy()
    values[30] = 1e308
    answer = run(str(written(tmp_path, {"v": values})), "--value", "v", "--period", "300", "--json")
    assert json.loads(answer.stdout)["missing"] == 1
    assert "1 values beyond 1e+15 count as missing, the first in row 30, column 'v'" in answer.stderr


def test_a_time_that_cannot_be_read_is_named_with_its_own_row(tmp_path: Path) -> None:
    times = [str(1_767_571_200 + 60 * k) for k in range(len(STEP))]
    times[150] = "garbage"
    assert "row 150, the time in column 'time' is 'garbage'" in refused(
        str(written(tmp_path, {"time": times, "v": STEP})), "--value", "v"
    )


def test_times_before_1970_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, {"time": ["1960-01-01", "1960-01-02", "1960-01-03"], "v": [1, 2, 3]})
    assert "row 0, is of a time before 1970" in refused(str(file), "--value", "v")


@pytest.mark.parametrize(("year", "what"), [(1600, "before 1970"), (2300, "after 2199"), (9999, "after 2199")])
def test_times_that_no_record_may_have_are_refused_in_parquet_as_well(tmp_path: Path, year: int, what: str) -> None:
    when = [datetime(year, 1, 1, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC)]
    pq.write_table(
        pa.table({"time": pa.array(when, pa.timestamp("us", "UTC")), "v": [1.0, 2.0]}), tmp_path / "in.parquet"
    )
    assert f"row 0, is of a time {what}" in refused(tmp_path / "in.parquet", "--value", "v")


def test_the_column_of_times_may_be_the_one_of_values(tmp_path: Path) -> None:
    file = written(tmp_path, {"time": [1_767_571_200 + 60 * k for k in range(40)]})
    assert len(scored(tmp_path, file, "--value", "time", "--timestamp", "time")) == 40


def test_times_that_are_not_read_are_mentioned(tmp_path: Path) -> None:
    answer = run(
        str(written(tmp_path, {"time": stamps(len(STEP)), "v": STEP})), "--value", "v", "--period", "60", "--json"
    )
    assert "with --period the times in column 'time' are not read" in answer.stderr


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"\x1f\x8b\x08\x00", "gzip: unpack it"),
        (b"BZh91AY&SY\xfb", "bzip2: unpack it"),
        (b"\xfd7zXZ\x00", "xz: unpack it"),
        (b"(\xb5/\xfd\x24", "zstd: unpack it"),
        (b"PK\x03\x04", "save it as CSV"),
        ("t,v\n".encode("utf-16"), "UTF-16"),
        ("t,\u00b0C\n".encode("latin-1"), "not UTF-8: save it as UTF-8"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path: Path, begin: bytes, what: str) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(begin + b"\xff\xfe\x00" * 20)
    assert what in refused(str(file), "--value", "v")


def test_times_less_than_a_millisecond_apart_are_refused_however_they_are_written(tmp_path: Path) -> None:
    epoch_us = 1_767_571_200_000_000 + 100 * np.arange(len(STEP))
    in_iso = [str(np.datetime64(int(at), "us")) for at in epoch_us]
    for number, times in enumerate((in_iso, epoch_us.tolist())):
        file = written(tmp_path, {"time": times, "v": STEP}, f"{number}.csv")
        with pytest.raises(InputError, match="at least 1 ms apart"):
            raise run(str(file), "--value", "v").exception  # type: ignore[misc]
