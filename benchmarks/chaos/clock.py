"""A wall clock that a server's process sees and that can be stepped: a library of a few lines that is loaded before libc.

libfaketime does the same and more, but its waits hold up a JVM: Kafka did not come up within three minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "no C compiler (Debian: the package gcc)"
FILE_VARIABLE = "KAPPA_TEST_CLOCK"  # names the file with the difference, seconds
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real)(clockid_t, struct timespec *);
static long difference;
static time_t looked;

/* The file is read once a second: reads and writes of a word are atomic here, and who comes a second late is no matter. */
static long apart(time_t now) {
    if (now != looked) {
        char text[32] = {0};
        int file = open(getenv("KAPPA_TEST_CLOCK"), O_RDONLY | O_CLOEXEC);
        looked = now;
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) difference = strtol(text, 0, 10);
            close(file);
        }
    }
    return difference;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, out);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += apart(out->tv_sec);
    return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


def may_step() -> bool:
    """Whether there is a compiler for the library."""
    return shutil.which("cc") is not None


class SteppedClock:
    """How far the wall clock of processes that are started inside `environment` is from the real one. Monotonic clocks go on."""

    def __init__(self, folder: Path) -> None:
        """`folder` is made, for the library and the difference. Raises FileNotFoundError without a compiler."""
        if not may_step():
            raise FileNotFoundError(MISSING)
        folder.mkdir(parents=True, exist_ok=True)
        source, self._library, self._file = folder / "clock.c", folder / "clock.so", folder / "difference"
        source.write_text(SOURCE)
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        self.step(0)

    def step(self, seconds: int) -> None:
        """From now on, within a second, the clock differs by so many seconds from the real one."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self._file)

    @contextmanager
    def environment(self) -> Iterator[None]:
        """What is started inside the block has this clock. Not for two threads at once."""
        own = {"LD_PRELOAD": str(self._library), FILE_VARIABLE: str(self._file)}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
