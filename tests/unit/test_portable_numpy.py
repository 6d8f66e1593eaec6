"""The same log has the same results on every processor: numpy's functions for AVX-512 are off wherever models run."""

from __future__ import annotations

import subprocess
import sys

SHOWN = """
import app
from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched, __cpu_features__ as features
print(sorted(name for name in dispatched if features[name]))
"""


def test_a_process_of_the_application_uses_nothing_newer_than_avx2() -> None:
    found = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True).stdout.strip()
    assert found in ("['X86_V3']", "[]")
