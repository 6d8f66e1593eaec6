"""The compiled step of the univariate model: against the same model in numpy, from the same state, window after window."""

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from benchmarks.numpy_form.model import NumpyUnivariate
from models.core.compiled import V3, instruction_set
from models.univariate import compiled_step
from models.univariate.block import SERIES
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import UnivariateState

P = UnivariateParameters()
START = 1_767_571_200_000
Floats = np.ndarray


def fleet(seed: int, rows: int, series: int) -> Floats:
    """Series of many kinds and sizes, with outliers, repeats, levels that move and missing rows, `(rows, series)`."""
    rng = np.random.default_rng(seed)
    kind, size = np.arange(series) % 7, 10.0 ** rng.uniform(-6, 12, series)
    x = rng.normal(3, 1, (rows, series))
    x = np.where(kind == 1, np.cumsum(x - 3, axis=0), x)
    x = np.where(kind == 2, np.exp(2 * x), x)
    x = np.where(kind == 3, rng.poisson(0.3, x.shape), x)
    x = np.where(kind == 4, 7.0, x)
    x = np.where(kind == 5, x + 20 * np.sin(np.arange(rows) / 40)[:, None], x)
    x = np.where((kind == 6) & (np.arange(rows) > rows // 2)[:, None], x + 50, x)
    x = np.where(rng.random(x.shape) < 0.01, 40 * x, x) * size
    x[rng.random(x.shape) < 0.05] = np.nan
    return x


def window(k: int, row: Floats, seconds: float) -> tuple[int, Floats, Floats, Floats, Floats]:
    """The arguments of a step; some windows have one point, whose spread is not known."""
    rng, index = np.random.default_rng(k), np.flatnonzero(np.isfinite(row))
    points = rng.integers(1, 4, len(index))
    squares = rng.random(len(index)) * row[index] ** 2 * (points > 1)
    return START + int(1000 * seconds) * k, index, points, row[index], squares


def assert_alike(ours: Univariate, theirs: Univariate, scale: Floats) -> None:
    """Equal state, but for the last bits of single precision and surprises at the edge of two bins; `scale` is the size of each series' values."""
    for mine, other in ((ours.state.hot, theirs.state.hot), (ours.state.cold, theirs.state.cold)):
        for name, values in mine.items():
            if values.dtype.kind == "u":
                assert (values != other[name]).mean() < 1e-3, name
            else:
                wanted = other[name]
                differs = values != wanted  # what has no number yet is infinite in both
                off = np.abs(np.subtract(values, wanted, out=np.zeros(values.shape), where=differs))
                assert (off <= 3e-5 * np.abs(wanted) + 1e-6 * np.maximum(scale**2, scale)).all(), name


@pytest.mark.parametrize("seconds", [10.0, 900.0])
def test_a_step_has_the_answers_and_the_state_of_the_model_in_numpy(seconds: float) -> None:
    """Each step begins from the state of the compiled model, so a difference is that of one step."""
    x = fleet(3, 300, 2 * SERIES + 44)
    ours, theirs = Univariate(P), NumpyUnivariate(P)
    for model in (ours, theirs):
        model.state.grow(x.shape[1])
    everything, scale = np.arange(x.shape[1]), np.nanmax(np.abs(x), axis=0)
    for k, row in enumerate(x):
        theirs.put_back(everything, ours.copied(everything))
        found, wanted = (model.step(*window(k, row, seconds)) for model in (ours, theirs))
        known = np.isfinite(row)
        for name, values in wanted._asdict().items():
            if name == "dominant_feature":
                assert (found.dominant_feature != values).mean() < 0.01
                continue
            tolerance = 3e-5 * (scale[known] if name in ("typical", "lower", "upper") else 1.0)
            mine = getattr(found, name)
            assert np.array_equal(np.isnan(mine), np.isnan(values)), (k, name)
            assert (np.nan_to_num(np.abs(mine - values)) <= tolerance + 3e-5 * np.nan_to_num(np.abs(values))).all(), (
                k,
                name,
            )
        assert_alike(ours, theirs, scale)


def test_published_digits_are_those_of_the_model_in_numpy_after_two_days() -> None:
    x = fleet(5, 192, 40)
    ours, theirs = Univariate(P), NumpyUnivariate(P)
    for model in (ours, theirs):
        model.state.grow(x.shape[1])
    for k, row in enumerate(x):
        found, wanted = (model.step(*window(k, row, 900.0)) for model in (ours, theirs))
    for name in ("base", "score", "health", "typical"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-5, abs=1e-5, nan_ok=True), name


def test_values_that_are_bounded_are_so_in_numpy() -> None:
    x = np.random.default_rng(6).normal(100, 1, (200, 8))
    x[100] = [99.0, 1e3, -1e4, 1e6, 1e9, 1e12, -1e15, 200.0]
    x[150:] *= [1.0, 10.0, 100.0, 1e4, 1e6, 1e9, -1e12, 2.0]
    ours, theirs = Univariate(P), NumpyUnivariate(P)
    for model in (ours, theirs):
        model.state.grow(x.shape[1])
    for k, row in enumerate(x):
        found, wanted = (model.step(*window(k, row, 900.0)) for model in (ours, theirs))
        assert found.base == pytest.approx(wanted.base, rel=1e-4, abs=1e-4, nan_ok=True), k
        assert found.typical == pytest.approx(wanted.typical, rel=1e-4, nan_ok=True), k


def test_blocks_change_nothing() -> None:
    """A series has the bits that it would have alone, whatever stands beside it and wherever a block ends."""
    x = fleet(7, 40, SERIES + 3)
    together = Univariate(P)
    together.state.grow(x.shape[1])
    chosen = [0, 5, SERIES - 1, SERIES, SERIES + 2]
    alone = {j: Univariate(P) for j in chosen}
    for model in alone.values():
        model.state.grow(1)
    for k, row in enumerate(np.nan_to_num(x, nan=1.0)):
        t, index, points, mean, squares = window(k, row, 900.0)
        found = together.step(t, index, points, mean, squares)
        for j, model in alone.items():
            one = model.step(t, np.zeros(1, np.int64), points[[j]], mean[[j]], squares[[j]])
            for name, values in one._asdict().items():
                assert np.array_equal(values[..., 0], getattr(found, name)[..., j], equal_nan=True), (k, j, name)


DIGEST = """
import hashlib, sys
sys.path[:0] = {paths!r}
import app
import numpy as np
from test_compiled_step import P, Univariate, fleet, window
x = fleet(11, 120, 150)
model = Univariate(P)
model.state.grow(x.shape[1])
found = hashlib.sha256()
for k, row in enumerate(x):
    for values in model.step(*window(k, row, 900.0))._asdict().values():
        found.update(values.tobytes())
for part in model.state.dump().values():
    found.update(part)
print(found.hexdigest())
"""


def digest(instructions: str, environment: dict[str, str]) -> str:
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    given = os.environ | environment | {"NUMBA_CPU_NAME": instructions, "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-c", DIGEST.format(paths=paths)]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout.strip()


def test_machine_code_is_there_for_every_state_that_a_model_can_have() -> None:
    """Arrays of another kind would be compiled for while a batch waits."""
    x = fleet(9, 60, 4)
    model = Univariate(P)
    for k, row in enumerate(np.nan_to_num(x)):
        model.state.grow(1 + k // 20)
        model = Univariate(P, UnivariateState.load(model.state.dump())) if k % 7 == 0 else model
        if k == 50:
            model.state.keep(np.array([2, 0]))
        n = min(model.state.series, 3)
        model.overrides = {"warm_up_minutes": np.full(n, 20.0)} if k % 2 else {}
        t, _, points, mean, squares = window(k, row[:n], 900.0)
        model.step(t if k % 3 else np.full(n, float(t)), np.arange(n)[::-1], points, mean[::-1], squares)
    assert len(compiled_step.step.signatures) == 1  # type: ignore[attr-defined]


def made_of(script: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """What a Python of its own prints, that finds modules in these folders and in this project."""
    paths = os.pathsep.join(map(str, [*folders, Path(__file__).parents[2]]))
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True)


def write_times(folder: Path, **functions: str) -> None:
    """A module `times` of compiled functions of x, by their names."""
    texts = (f"@compiled\ndef {name}(x):\n    return {value}\n" for name, value in functions.items())
    (folder / "times.py").write_text("from models.core.compiled import compiled\n\n" + "".join(texts))


def test_machine_code_in_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    write_times(tmp_path, times_2="2 * x")
    (tmp_path / "__pycache__").write_text("a file where the folder would be")
    assert made_of("import times; print(times.times_2(4.0))", tmp_path).stdout == "8.0\n"


def test_who_compiles_says_so_once_and_who_finds_machine_code_says_nothing(tmp_path: Path) -> None:
    write_times(tmp_path, times_2="2 * x", times_3="3 * x")
    script = "import times; print(times.times_2(1.0), times.times_3(1.0), times.times_3(1))"
    first, second = made_of(script, tmp_path), made_of(script, tmp_path)
    assert first.stdout == second.stdout == "2.0 3.0 3\n"
    assert first.stderr.count("\n") == 1 and "compiling" in first.stderr
    assert second.stderr == ""


MISSING = """
from models.core import compiled
import times
print(compiled.is_missing())
times.times_2(1.0)
print(compiled.is_missing())
"""


def test_machine_code_is_missing_until_it_has_been_made_and_never_where_it_cannot_be_kept(tmp_path: Path) -> None:
    write_times(tmp_path, times_2="2 * x")
    assert made_of(MISSING, tmp_path).stdout == "True\nFalse\n"
    assert made_of(MISSING, tmp_path).stdout == "False\nFalse\n"
    write_times(tmp_path, times_2="x * 2")
    nowhere = "import os; os.access = lambda *_: False\n" + MISSING  # who runs the tests may write everywhere
    assert made_of(nowhere, tmp_path).stdout == "False\nFalse\n"


def test_make_setup_makes_the_machine_code_of_every_function() -> None:
    script = "import models.__main__ as all_models; from models.core import compiled; all_models.main(); print(compiled.is_missing())"
    assert made_of(script).stdout == "False\n"


def test_the_instruction_set_is_one_that_the_processor_has() -> None:
    assert instruction_set("x86_64-unknown-linux-gnu", dict.fromkeys(V3, True)) == "x86-64-v3"
    assert instruction_set("x86_64-unknown-linux-gnu", dict.fromkeys(V3, True) | {"fma": False}) == "x86-64"
    assert instruction_set("aarch64-unknown-linux-gnu", {}) is None


@pytest.mark.long
def test_results_have_the_same_bits_with_vector_units_of_every_width() -> None:
    """Machine code for processors without AVX, with AVX2 and, where there is one, with AVX-512; numpy limited alike."""
    has = llvm.get_host_cpu_features()
    narrow = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"}
    found = {digest("x86-64", narrow)}
    if instruction_set(llvm.get_process_triple(), has) == "x86-64-v3":
        found.add(digest("x86-64-v3", {}))
    if all(has.get(name) for name in ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")):
        found.add(digest("x86-64-v4", {}))
    assert len(found) == 1
