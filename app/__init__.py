"""The application around the jobs: settings, command line, embedded stack, collector, simulator, health."""

import os

# On processors with AVX-512 numpy takes logarithms and exponentials with functions of its own, whose last bits differ from those of
# the C library, which it takes on all others: the same log would have other results there. numpy reads this when it is imported.
PORTABLE_NUMPY = ("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")
os.environ.setdefault(*PORTABLE_NUMPY)
