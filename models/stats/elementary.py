"""Elementary functions that have the same bits on every processor, for compiled code.

The C library and numpy choose by the processor among functions whose last bits differ. These consist of sums, products, quotients, roots and
shifts alone, which IEEE 754 defines to the bit. They have no branch and no table, so LLVM computes several series at once.

    exp, exp2      x = k ln 2 + r, |r| <= ln 2 / 2; Taylor's series of exp r to r^13; 2^k by its bits
    log, log1p     x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); s = f / (2 + f); ln(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), R a
                   polynomial through Chebyshev's nodes
    two_sided      -ln(2 Phi(-z)) = x^2 - ln erfcx x with x = z / sqrt(2); -ln erfcx x = u Q(u), u = x / (x + 6.5), Q a Chebyshev
                   interpolant of degree 29 on 0 <= z <= 20 (computed with 50 digits)

Largest errors, in units of the last place, measured against extended precision (tests/models/test_elementary.py): exp 1, exp2 2, log 1,
log1p 1, asinh 3, two_sided 3, power 2 + |ln y|. Results below 1e-307 are 0; NaN gives NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.core.compiled import bits_of, double_of, inlined, polynomial

ROUNDER = 1.5 * 2.0**52  # added and taken away, it rounds to a whole number, which is then in the lowest bits
LN2, OF_TWO = math.log(2), 1 / math.log(2)
LN2_HIGH, LN2_LOW = (
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
)  # ln 2, the first with 21 zero bits at its end
LARGEST, LEAST = 709.0, -708.0  # arguments of exp that have a normal result
TAYLOR = tuple(1 / math.factorial(k) for k in range(14))
HALF_ROOT = np.int64(0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
UPPER, UPPER_2048 = (
    np.int64(0x4330000000000000),
    2.0**52 + 2048,
)  # bits of 2^52, below which a small whole number stands as it is
R = (
    0.6666666666666666,
    0.4000000000000088,
    0.28571428570803614,
    0.22222222391713917,
    0.18181795640132906,
    0.15386239702814658,
    0.13268773138656886,
    0.13086626147840102,
)
ROOT_HALF = math.sqrt(0.5)
FARTHEST_Z = 20.0
MIDDLE = 6.5
WIDTH = 2 * (FARTHEST_Z * ROOT_HALF + MIDDLE) / (FARTHEST_Z * ROOT_HALF)
Q = (
    5.347666114452278,
    -1.2296833218598269,
    0.6568552951977507,
    -0.12060817491724879,
    0.030274312189821993,
    0.02730388775697396,
    -0.014862747280845896,
    0.009594898764470691,
    -0.0010911590482945972,
    -0.0005180311853708726,
    0.001191651737563505,
    -0.0005108873670554815,
    0.00018246784376058575,
    5.839883736354422e-05,
    -6.673413005290137e-05,
    4.790229848718481e-05,
    -1.1228419412657373e-05,
    -1.6448903777181031e-06,
    6.008561671324908e-06,
    -3.3198668554933064e-06,
    1.211425685105393e-06,
    1.7327381049402015e-07,
    -3.542725587757024e-07,
    3.154298303261835e-07,
    -1.5078036008254454e-07,
    -1.6045461168994203e-09,
    7.601313798067924e-08,
    -3.1614392894449336e-08,
    -7.568848698574804e-09,
    6.745201733403949e-09,
)

taylor, logarithm_rest, half_rest = polynomial(TAYLOR), polynomial(R), polynomial(Q)


@inlined
def power_of_two(k: float) -> Any:
    """2^k of a whole number from -1022 to 1023."""
    return double_of((bits_of(k + ROUNDER) + np.int64(1023)) << np.int64(52))


@inlined
def exp(x: float) -> float:
    """e^x: 0 below `LEAST`, infinity above `LARGEST`."""
    k = (x * OF_TWO + ROUNDER) - ROUNDER
    k = -1022.0 if k < -1022.0 else (1023.0 if k > 1023.0 else k)
    out = taylor((x - k * LN2_HIGH) - k * LN2_LOW) * power_of_two(k)
    out = 0.0 if x < LEAST else out
    return np.inf if x > LARGEST else out


@inlined
def exp2(x: float) -> float:
    """2^x for -1000 <= x <= 1000."""
    k = (x + ROUNDER) - ROUNDER
    out: float = taylor((x - k) * LN2) * power_of_two(k)
    return out


@inlined
def log_of(x: float, rest: float) -> Any:
    """ln(x + rest) of a normal x > 0, where |rest| is below a unit in the last place of x."""
    bits = bits_of(x)
    shift = (bits - HALF_ROOT) >> np.int64(52)  # k
    k = double_of((shift + np.int64(2048)) | UPPER) - UPPER_2048
    f = double_of(bits - (shift << np.int64(52))) - 1.0
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + z * logarithm_rest(z)) + (k * LN2_LOW + rest / x))) - f)


@inlined
def log(x: float) -> float:
    """ln x for x >= 0: of 0 and of anything below 1e-307, -infinity."""
    out = log_of(x, 0.0)
    return out if x > 1e-307 else (-np.inf if x >= 0 else np.nan)


@inlined
def log1p(x: float) -> float:
    """ln(1 + x) for x >= 0."""
    u = 1.0 + x
    back = u - 1.0
    out: float = log_of(u, (1.0 - (u - back)) + (x - back))
    return out


@inlined
def asinh(x: float) -> float:
    """Inverse hyperbolic sine for |x| < 1e150."""
    size = abs(x)
    square = size * size
    out = log1p(size + square / (1.0 + np.sqrt(square + 1.0)))
    return -out if x < 0 else out


@inlined
def power(y: float, exponent: float) -> float:
    """y^exponent for y >= 0 and an exponent above 0."""
    return exp(exponent * log(y))


@inlined
def two_sided(z: float) -> float:
    """-ln P(|Z| > z) of a standard normal Z, nats, for 0 <= z <= 20."""
    x = z * ROOT_HALF
    u = x / (x + MIDDLE)
    return x * x + u * half_rest(u * WIDTH - 1.0)
