"""Functions compiled to machine code with numba: the same results on every processor, kept on disk beside their source.

*Same results*: no fast-math and no contraction of a product and a sum, so vector units of any width compute what one number at a time
would. Elementary functions come from `models.stats.elementary`, never from the C library.

*On disk*: machine code is in the `__pycache__` of the module, where every process finds it that imports the module, a Python worker of Spark
too; the folder may be read-only. `python -m models` fills it (`make setup` and the container image do). It belongs to one version
of Python and numba, one instruction set and one state of its `SOURCES`. A process that finds none says so on stderr, compiles for half a minute, and
keeps the code if it can write it.

On x86-64 code is made for AVX2 (x86-64-v3), so that an image that was built on one machine fits others; older processors get x86-64.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import caching, config, registry, types
from numba.extending import intrinsic

MODELS = Path(__file__).parents[1]
# Files whose constants and functions are compiled in, by folder; none uses a later one.
SOURCES = {
    "core": ("*.py",),
    "stats": ("*.py",),
    "univariate": ("*.py",),
    "detection": ("*_columns.py", "compiled_*.py"),
    "templates": ("matcher.py", "pattern_*.py"),
}
V3 = ("avx2", "bmi2", "f16c", "fma", "lzcnt", "movbe")  # what x86-64-v3 has beyond older ones

F = TypeVar("F", bound=Callable[..., Any])


def instruction_set(architecture: str, has: dict[str, bool]) -> str | None:
    """The processor that code is made for, by LLVM's name; None for this one. `has` are its features."""
    if not architecture.startswith("x86_64"):
        return None
    return "x86-64-v3" if all(has.get(name) for name in V3) else "x86-64"


_caches: list[_Cache] = []  # of the functions that have been compiled


@cache
def source_stamp(folder: str) -> str:
    """A hash of all sources that may be part of the compiled functions of a folder; numba itself looks at the function's own file alone."""
    found, folders = hashlib.sha256(), list(SOURCES)
    folders = folders[: folders.index(folder) + 1] if folder in SOURCES else folders
    for path in sorted(path for one in folders for files in SOURCES[one] for path in (MODELS / one).glob(files)):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


class _BesideSource(caching.InTreeCacheLocator):  # type: ignore[misc]
    """`__pycache__` beside the source, whether it can be written or not."""

    def get_source_stamp(self) -> str:
        return source_stamp(Path(self._py_file).parent.name)

    def ensure_cache_path(self) -> None:
        with suppress(OSError):  # as the code itself: see `_Cache.save_overload`
            super().ensure_cache_path()


class _Code(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_BesideSource,)


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Code

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        with suppress(OSError):  # a folder that cannot be read: as if there were no code
            found = super().load_overload(sig, target_context)
        if found is None:
            announce_compilation()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a read-only folder: the code is there for this process alone
            super().save_overload(sig, data)

    def is_missing(self) -> bool:
        """Whether there is no machine code of these sources for this processor, where some could be kept."""
        wanted = registry.cpu_target.target_context.codegen().magic_tuple()
        with suppress(OSError):
            return not any(target == wanted for _, target, _ in self._cache_file._load_index())
        return True


def is_missing() -> bool:
    """Whether machine code of a function of the modules that are imported has to be made first, and can be kept."""
    folders = {Path(one.cache_path) for one in _caches if one.is_missing()}
    return any(os.access(folder if folder.exists() else folder.parent, os.W_OK) for folder in folders)


@cache
def announce_compilation() -> None:
    """Say so on stderr, once in a process: for half a minute or longer nothing else is heard of it."""
    sys.stderr.write(
        "kappa: compiling the models to machine code, which takes about a minute; it is kept for the next start\n"
    )
    sys.stderr.flush()


def compiled(function: F) -> F:
    """The function as machine code, which is compiled when it is first called with arguments of a type and kept on disk.

    Division by 0 gives infinity or NaN, as in numpy. Raises TypeError for arguments that numba cannot take.
    """
    found = numba.njit(error_model="numpy")(function)
    found._cache = _Cache(function)
    _caches.append(found._cache)
    return cast(F, found)


def inlined(function: F) -> F:
    """A function for the use of compiled ones alone, which becomes a part of them, so that its loops are compiled for their shapes."""
    return cast(F, numba.njit(error_model="numpy", forceinline=True)(function))


def called(function: F) -> F:
    """A function for the use of compiled ones alone, which call it: for what has many callers and needs no more than to be there once.

    It makes no arrays and answers none, so references to those that it gets are not counted: of a loop over characters that was most of the time.
    """
    return cast(F, numba.njit(error_model="numpy", _nrt=False)(function))


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(_context: Any, number: Any) -> Any:
    """The bits of a double, as a whole number."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def double_of(_context: Any, bits: Any) -> Any:
    """The double with these bits: the inverse of `bits_of`."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def item(_context: Any, array: Any, index: Any) -> Any:
    """An element of an array of one dimension, without a look at whether the index is negative, which numpy counts from the end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = context.cast(builder, arguments[1], signature.args[1], types.int64)
        return builder.load(builder.gep(data, [place]))

    return array.dtype(array, index), generate


def polynomial(coefficients: tuple[float, ...]) -> Callable[[float], float]:
    """A polynomial for compiled functions, by Horner's rule; the first coefficient is that of 1."""

    @intrinsic  # type: ignore[untyped-decorator]
    def horner(_context: Any, x: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            out = ir.Constant(ir.DoubleType(), coefficients[-1])
            for number in coefficients[-2::-1]:
                out = builder.fadd(builder.fmul(out, arguments[0]), ir.Constant(ir.DoubleType(), number))
            return out

        return types.float64(types.float64), generate

    return cast(Callable[[float], float], horner)


if config.CPU_NAME is None and (chosen := instruction_set(llvm.get_process_triple(), llvm.get_host_cpu_features())):
    config.CPU_NAME, config.CPU_FEATURES = chosen, ""  # unless NUMBA_CPU_NAME names another one
