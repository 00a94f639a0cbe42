"""Samplers: functions from 64 random bits to a draw from a distribution, equal on every machine.

A sampler is a function of one word. A sampler that needs more (rejection) hashes the word further (`again`), so
every draw, whatever its method, has one address and changes no other.

Normals are drawn by the ziggurat of Marsaglia and Tsang (2000) with 256 layers, gammas by Marsaglia and Tsang (2000)
with the power transform below shape 1. Betas come from two gammas, Student's t from a normal and a gamma. Poisson
counts are drawn by inversion below mean 10 and by Hoermann's transformed rejection (PTRS, 1993) above. Quantiles of
the normal distribution follow Wichura's algorithm AS 241 (1988).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sameluck.compilation.decorators import called, inlined, likely
from sameluck.randomness.streams import Bits, again

_TAIL = 3.6541528853610088  # where the ziggurat's bottom layer ends
_LAYER = 4.92867323399e-3  # the area of each of the ziggurat's 256 layers


def _ziggurat() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    edge = np.zeros(257)
    # The bottom layer has the tail beyond `_TAIL` too; as a rectangle of the common area it would reach this far.
    edge[0] = _LAYER / math.exp(-0.5 * _TAIL * _TAIL)
    edge[1] = _TAIL
    for layer in range(2, 256):
        inner = edge[layer - 1]
        edge[layer] = math.sqrt(-2.0 * math.log(_LAYER / inner + math.exp(-0.5 * inner * inner)))
    # Scalar functions: the last bit of NumPy's vector functions depends on the processor.
    height = np.array([math.exp(-0.5 * x * x) for x in edge])
    return edge[:256] * 2.0**-53, edge[1:], height


_SCALE, _INSIDE, _HEIGHT = _ziggurat()
_8BITS, _10BITS, _1, _8, _11 = (np.uint64(number) for number in (255, 1023, 1, 8, 11))
# Far apart, so that a sampler's own attempts (1, 2, ...) never meet another use of the same word.
_ROUND, _ACCEPT, _POWER, _SHAPE, _LEFT, _RIGHT = (use << 40 for use in range(1, 7))

_MIN_PROBABILITY = 1e-300  # smaller probabilities have the same quantile, -37
# The coefficients of AS 241: numerator and denominator, by power.
# fmt: off
_CENTRE = np.array([
    [3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3],
    [1.0, 4.2313330701600911252e1, 6.8718700749205790830e2,
     5.3941960214247511077e3, 2.1213794301586595867e4, 3.9307895800092710610e4,
     2.8729085735721942674e4, 5.2264952788528545610e3],
])
_MIDDLE = np.array([
    [1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550,
     3.64784832476320460504, 1.27045825245236838258, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4],
    [1.0, 2.05319162663775882187, 1.67638483018380384940,
     6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
     5.47593808499534494600e-4, 1.05075007164441684324e-9],
])
_FAR = np.array([
    [6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7],
    [1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
     1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
     1.42151175831644588870e-7, 2.04426310338993978564e-15],
])
# fmt: on


@inlined
def uniform(bits: Bits) -> float:
    """Draw from the uniform distribution on [0, 1); a multiple of 2^-53."""
    return np.int64(bits >> _11) * 2.0**-53


@inlined
def _open_uniform(bits: Bits) -> float:
    # An odd multiple of 2^-53: never 0, and never rounded to 1.
    return np.int64((bits >> _11) | _1) * 2.0**-53


@inlined
def normal(bits: Bits) -> float:
    """Draw from the standard normal distribution."""
    # 53 bits with a sign, made odd to be symmetric about 0; the layer is an unsigned index, which needs no check.
    layer = bits & _8BITS
    x = ((np.int64(bits) >> 10) | 1) * _SCALE[layer]
    if likely(abs(x) < _INSIDE[layer]):
        return x
    return _normal_outside(bits, layer, x)


@called
def _normal_outside(bits: Bits, layer: Bits, x: float) -> float:
    # One or two normals in a hundred come here, so that it is called: the loop that draws stays small.
    attempt = 0
    while True:
        if layer == 0:
            return math.copysign(_normal_tail(bits, attempt), x)
        low, high = _HEIGHT[layer], _HEIGHT[np.int64(layer) + 1]
        if low + (high - low) * uniform(again(bits, attempt + 1)) < math.exp(-0.5 * x * x):
            return x
        fresh = again(bits, attempt + 2)
        attempt += 2
        layer = fresh & _8BITS
        x = ((np.int64(fresh) >> 10) | 1) * _SCALE[layer]
        if abs(x) < _INSIDE[layer]:
            return x


@called
def _normal_tail(bits: Bits, attempt: int) -> float:
    # Marsaglia's method (1964) for the tail: an exponential distance beyond `_TAIL`, accepted with exp(-x^2 / 2).
    while True:
        x = -math.log(_open_uniform(again(bits, attempt + 1))) / _TAIL
        y = -math.log(_open_uniform(again(bits, attempt + 2)))
        if 2.0 * y >= x * x:
            return _TAIL + x
        attempt += 2


@called
def exponential(bits: Bits) -> float:
    """Draw from the exponential distribution with mean 1."""
    return -math.log(_open_uniform(bits))


@inlined
def gamma_from(bits: Bits, depth: float, spread: float) -> float:
    """Draw from a gamma distribution of shape >= 1, given `depth` = shape - 1/3 and `spread` = 1 / sqrt(9 depth)."""
    # The uniform is known to 10 bits at first, which nearly always decides; they are bits that the normal does not
    # use or uses least. Accepting below 1 - 2.6811 depth y^4, with y = spread x, is safe. The exact test's logarithm
    # is depth g(y), and -g(y) < 2.34 y^4 for y > -0.8; below that, for depth >= 1, nothing is accepted here. For a
    # smaller depth it is stricter than Marsaglia and Tsang's 1 - 0.0331 x^4, which does not sharpen with the shape.
    x = normal(bits)
    y = spread * x
    root = 1.0 + y
    coarse = np.int64((bits >> _8) & _10BITS)
    if likely(coarse < 1023.0 - (1024.0 * 2.6811) * depth * (y * y) * (y * y)):
        return depth * (root * root * root)
    return _gamma_unsure(bits, depth, spread, x)


@called
def _gamma_unsure(bits: Bits, depth: float, spread: float, x: float) -> float:
    while True:
        root = 1.0 + spread * x
        cube = root * root * root
        coarse = np.int64((bits >> _8) & _10BITS)
        # The uniform that `gamma_from` knew to 10 bits, now with its other bits: it must not be drawn anew.
        u = (coarse + _open_uniform(again(bits, _ACCEPT))) * 2.0**-10
        if root > 0.0 and math.log(u) < 0.5 * x * x + depth * (1.0 - cube + math.log(cube)):
            return depth * cube
        bits = again(bits, _ROUND)
        x = normal(bits)


@called
def gamma(bits: Bits, shape: float) -> float:
    """Draw from a gamma distribution with scale 1."""
    return math.exp(log_gamma(bits, shape))


@called
def log_gamma(bits: Bits, shape: float) -> float:
    """Draw the logarithm of a gamma variable: safe where the variable itself would underflow (tiny shapes)."""
    # Below 1, a gamma variable of shape + 1 times U^(1 / shape) has the shape (Marsaglia and Tsang, 2000, section 6).
    lifted = shape if shape >= 1.0 else shape + 1.0
    depth = lifted - 1.0 / 3.0
    value = math.log(gamma_from(again(bits, _SHAPE), depth, 1.0 / math.sqrt(9.0 * depth)))
    if shape < 1.0:
        value += math.log(_open_uniform(again(bits, _POWER))) / shape
    return value


@called
def beta(bits: Bits, a: float, b: float) -> float:
    """Draw from Beta(a, b)."""
    odds = beta_log_odds(bits, a, b)
    # Either form takes the exponential of a negative number, which cannot overflow.
    if odds > 0.0:
        return 1.0 / (1.0 + math.exp(-odds))
    lift = math.exp(odds)
    return lift / (1.0 + lift)


@inlined
def beta_odds(
    bits: Bits, depth_a: float, spread_a: float, depth_b: float, spread_b: float
) -> float:
    """Draw the odds x / (1 - x) of x from Beta(a, b); a, b >= 1, both given as `gamma_from` takes them."""
    return gamma_from(bits, depth_a, spread_a) / gamma_from(again(bits, _RIGHT), depth_b, spread_b)


@called
def beta_log_odds(bits: Bits, a: float, b: float) -> float:
    """Draw log(x / (1 - x)) of x from Beta(a, b): it separates draws that round to the same 0.0 or 1.0."""
    return log_gamma(again(bits, _LEFT), a) - log_gamma(again(bits, _RIGHT), b)


@called
def student_t(bits: Bits, df: float) -> float:
    """Draw from Student's t distribution with `df` degrees of freedom."""
    half = 0.5 * df
    return normal(bits) * math.exp(0.5 * (math.log(half) - log_gamma(again(bits, _RIGHT), half)))


@called
def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile of a probability."""
    q = probability - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * _ratio(r, _CENTRE)
    r = math.sqrt(-math.log(max(min(probability, 1.0 - probability), _MIN_PROBABILITY)))
    x = _ratio(r - 1.6, _MIDDLE) if r <= 5.0 else _ratio(r - 5.0, _FAR)
    return math.copysign(x, q)


@inlined
def _ratio(r: float, table: NDArray[np.float64]) -> float:
    # The ratio of two polynomials of degree 7, by Horner's rule.
    above, below = table[0, 7], table[1, 7]
    for power in range(6, -1, -1):
        above = above * r + table[0, power]
        below = below * r + table[1, power]
    return above / below


@called
def poisson(bits: Bits, mean: float) -> float:
    """Draw from a Poisson distribution, as a float."""
    return _poisson_by_inversion(bits, mean) if mean < 10.0 else _poisson_by_rejection(bits, mean)


@called
def _poisson_by_inversion(bits: Bits, mean: float) -> float:
    # At most 100 terms: rounding may leave a remainder that no further probability uses up.
    left = uniform(bits)
    count = 0.0
    probability = math.exp(-mean)
    while left >= probability and count < 100.0:
        left -= probability
        count += 1.0
        probability *= mean / count
    return count


@called
def _poisson_by_rejection(bits: Bits, mean: float) -> float:
    log_mean = math.log(mean)
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    near = 0.9277 - 3.6224 / (b - 2.0)
    attempt = 0
    while True:
        u = _open_uniform(again(bits, attempt + 1)) - 0.5
        v = _open_uniform(again(bits, attempt + 2))
        attempt += 2
        us = 0.5 - abs(u)
        # Names and constants as in the article. The first test accepts most attempts without a logarithm.
        count = math.floor((2.0 * a / us + b) * u + mean + 0.43)
        if us >= 0.07 and v <= near:
            return float(count)
        if count < 0 or (us < 0.013 and v > us):
            continue
        hat = math.log(v) + math.log(inverse) - math.log(a / (us * us) + b)
        if hat <= count * log_mean - mean - math.lgamma(count + 1.0):
            return float(count)


@inlined
def discrete(bits: Bits, cumulative: NDArray[np.float64]) -> int:
    """Draw an index with probabilities given by their running sums; the last sum is the total."""
    target = uniform(bits) * cumulative[cumulative.size - 1]
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low
