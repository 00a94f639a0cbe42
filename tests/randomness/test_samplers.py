"""Every sampler follows its law (against SciPy), and its compiled form is its plain one to the bit."""

import math

import numba
import numpy as np
import pytest
from scipy import special, stats

from budget import (
    SEED,
    assert_count,
    assert_distribution,
    assert_mean,
    assert_probabilities,
    assert_rates,
    z_bound,
)
from nonempty import nonempty
from sameluck.randomness import samplers
from sameluck.randomness.streams import Key, again, stream, subkey, word

DRAWS = 200_000


@numba.njit(nogil=True)
def fill_words(first, second, start, words):
    key = Key(first, second)
    for index in range(words.size):
        words[index] = word(key, start + index)


def words_of(name, count=DRAWS, start=0):
    """The words of a stream of a test's own, by the test's name."""
    key = subkey(stream(SEED, 1, 0, 0), sum(name.encode()))
    words = np.empty(count, np.uint64)
    fill_words(key.first, key.second, start, words)
    return words


def compile_filler(sampler):
    """A compiled loop that draws one number for each word."""

    @numba.njit(nogil=True)
    def fill(words, out, *values):
        for index in range(words.size):
            out[index] = sampler(words[index], *values)

    return fill


FILLERS = {}


def draws(sampler, words, *values):
    """One compiled draw for each word."""
    if sampler not in FILLERS:
        FILLERS[sampler] = compile_filler(sampler)
    out = np.empty(words.size)
    FILLERS[sampler](words, out, *values)
    return out


def depth_and_spread(shape):
    """A shape as `gamma_from` takes it."""
    depth = shape - 1.0 / 3.0
    return depth, 1.0 / math.sqrt(9.0 * depth)


# --- laws -------------------------------------------------------------------------------------------------------
# Kolmogorov and Smirnov at 200,000 draws and a false alarm of 1e-6 see a distribution function off by 0.006.


@pytest.mark.slow
def test_uniform():
    """Uniform on [0, 1): law, mean, and the extreme words."""
    sample = draws(samplers.uniform, words_of("uniform"))

    assert_distribution(sample, stats.uniform.cdf)
    assert samplers.uniform(np.uint64(0)) == 0.0
    assert samplers.uniform(np.uint64(2**64 - 1)) == 1.0 - 2.0**-53


@pytest.mark.slow
def test_exponential():
    """Exponential with mean 1."""
    sample = draws(samplers.exponential, words_of("exponential"))

    assert_distribution(sample, stats.expon.cdf)
    assert_mean(sample, 1.0)


def test_an_exponential_is_positive_and_finite():
    """Also for the first and the last word: the uniform inside is open at both ends."""
    assert 0 < samplers.exponential(np.uint64(2**64 - 1)) < 1e-15
    assert 36 < samplers.exponential(np.uint64(0)) < 40


NORMALS = 20_000_000


@pytest.fixture(scope="module")
def normal_cells():
    """20 million normals, counted in 1,000 cells of equal chance and beyond two far points on either side."""
    edges = stats.norm.ppf(np.linspace(0, 1, 1_001)[1:-1])
    far = np.array([-5.0, -3.65, 3.65, 5.0])
    cells, tails, moments = np.zeros(1_000, int), np.zeros(5, int), np.zeros(4)
    for block in range(20):
        sample = draws(samplers.normal, words_of("normal", 1_000_000, block * 1_000_000))
        cells += np.bincount(np.searchsorted(edges, sample), minlength=1_000)
        tails += np.bincount(np.searchsorted(far, sample), minlength=5)
        moments += [(sample**power).sum() for power in (1, 2, 3, 4)]
    return cells, tails, moments / NORMALS


@pytest.mark.slow
def test_normal_law(normal_cells):
    """The ziggurat at 20 million draws: chi-square in 1,000 cells of equal chance. False alarm 1e-6; sees one cell
    in a thousand off by 6%, or a tenth of all cells by 1%."""
    cells, _, _ = normal_cells

    assert_probabilities(cells, np.full(1_000, 1 / 1_000))


@pytest.mark.slow
def test_normal_tails(normal_cells):
    """Beyond 3.65 (the ziggurat's own end is 3.654) and beyond 5, on either side. False alarm 1e-6 each; sees 7%
    more or less beyond 3.65, and a tail cut at 5."""
    _, tails, _ = normal_cells

    for beyond, counts in ((5.0, (tails[0], tails[4])), (3.65, (tails[:2].sum(), tails[3:].sum()))):
        for count in nonempty(counts):
            assert_count(count, NORMALS, stats.norm.sf(beyond))


@pytest.mark.slow
def test_normal_moments(normal_cells):
    """The first four moments, within 4.9 standard errors of 0, 1, 0, 3: sees a mean off by 0.0012."""
    _, _, moments = normal_cells
    variances = np.array([1, 2, 15, 96])

    z = (moments - [0, 1, 0, 3]) / np.sqrt(variances / NORMALS)

    assert np.abs(z).max() < z_bound(4)


@pytest.mark.slow
def test_the_normal_beyond_its_tables_follows_the_tail():
    """Words that start in the ziggurat's bottom layer and leave it: their draws follow the normal tail exactly."""
    words = words_of("tail", 20_000_000)
    words = words[(words & np.uint64(255)) == 0]
    sample = np.abs(draws(samplers.normal, words))
    beyond = sample[sample > 3.7]

    assert beyond.size > 3_000
    assert_distribution(beyond, lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(3.7))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [1e-3, 0.01, 0.5, 0.999])
def test_gamma_of_a_small_shape(shape):
    """Shapes below 1, on the logarithmic scale where draws do not underflow."""
    sample = draws(samplers.log_gamma, words_of("small"), shape)

    assert np.isfinite(sample).all()
    assert_distribution(sample, lambda y: log_gamma_cdf(y, shape))


def log_gamma_cdf(y, shape):
    """P(log G <= y): the incomplete gamma function, or its first term where the argument underflows."""
    first_term = np.exp(shape * y - special.gammaln(shape + 1))
    return np.where(y < -30, first_term, special.gammainc(shape, np.exp(np.maximum(y, -30))))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 7.0, 1e3, 1e6])
def test_gamma(shape):
    """Law and mean, from below 1 to a million."""
    sample = draws(samplers.gamma, words_of("gamma"), shape)

    assert_distribution(sample, stats.gamma(shape).cdf)
    assert_mean(sample, shape)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [1.0, 1.1, 30.0])
def test_gamma_with_prepared_shape(shape):
    """`gamma_from`, as Thompson sampling calls it."""
    sample = draws(samplers.gamma_from, words_of("prepared"), *depth_and_spread(shape))

    assert_distribution(sample, stats.gamma(shape).cdf)


SHAPES = [(1.0, 1.0), (2.0, 5.0), (1e5, 3.0), (3.0, 1e5), (0.5, 0.5), (1e-1, 4.0), (1e6, 1e6)]


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta(a, b):
    """Law and mean, from U-shaped to needle-shaped."""
    sample = draws(samplers.beta, words_of("beta"), a, b)

    assert ((sample >= 0) & (sample <= 1)).all()
    assert_distribution(sample, stats.beta(a, b).cdf)
    assert_mean(sample, a / (a + b))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b"), [(0.01, 0.01), (1e-3, 2.0), (0.5, 0.25), (1.0, 1.0), (1e5, 3.0)]
)
def test_beta_log_odds(a, b):
    """The law of the log odds, which keeps apart what rounds to 0 or 1: a third of Beta(0.01, 0.01) does."""
    sample = draws(samplers.beta_log_odds, words_of("log odds"), a, b)

    assert np.isfinite(sample).all()
    assert_distribution(sample, lambda y: log_odds_cdf(y, a, b))


def log_odds_cdf(y, a, b):
    """P(log odds <= y) of Beta(a, b), each side by the incomplete beta function where it is accurate."""
    low = lower_tail(np.minimum(y, 0), a, b)
    return np.where(y < 0, low, 1 - lower_tail(np.minimum(-y, 0), b, a))


def lower_tail(y, a, b):
    first_term = np.exp(a * y - math.log(a) - special.betaln(a, b))
    return np.where(y < -30, first_term, special.betainc(a, b, special.expit(np.maximum(y, -30))))


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (3.0, 2.0), (400.0, 30.0), (1e5, 3.0)])
def test_beta_odds(a, b):
    """odds / (1 + odds) is Beta(a, b), for the shapes Thompson sampling meets."""
    odds = draws(samplers.beta_odds, words_of("odds"), *depth_and_spread(a), *depth_and_spread(b))

    assert_distribution(odds / (1 + odds), stats.beta(a, b).cdf)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.1, 1.0, 9.99, 10.0, 30.5, 1e3, 1e6])
def test_poisson(mean):
    """Chi-square over some 100 cells, on either side of the change of method at 10. Sees one cell of a hundred off by
    20%; false alarm 1e-6."""
    sample = draws(samplers.poisson, words_of("poisson"), mean)
    law = stats.poisson(mean)
    edges = np.unique(law.ppf(np.linspace(0.005, 0.995, 100)))
    cells = np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1)

    assert (sample == np.floor(sample)).all()
    assert (sample >= 0).all()
    assert_probabilities(cells, np.diff([0, *law.cdf(edges), 1]))
    assert_mean(sample, mean)


@pytest.mark.slow
def test_poisson_of_nothing():
    """Mean 0 is always 0."""
    assert (draws(samplers.poisson, words_of("nothing"), 0.0) == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("chances", [[1.0], [0.5, 0.5], [0.1, 0.0, 0.6, 0.3], [1e-3] * 7 + [0.993]])
def test_discrete(chances):
    """Indices by their chances; an index with chance 0 is never drawn."""
    counts = np.bincount(
        draws(samplers.discrete, words_of("discrete"), np.cumsum(chances)).astype(int),
        minlength=len(chances),
    )

    assert counts.size == len(chances)
    assert (counts[np.array(chances) == 0] == 0).all()
    if len(chances) > 1:
        for count, chance in zip(counts, chances, strict=True):
            assert_count(count, DRAWS, chance)


def test_discrete_takes_weights_that_do_not_add_up_to_one():
    """Only their ratios matter."""
    words = words_of("weights", 10_000)
    chances, weights = np.cumsum([0.25, 0.5, 0.25]), np.cumsum([1.0, 2.0, 1.0])

    np.testing.assert_array_equal(
        draws(samplers.discrete, words, chances), draws(samplers.discrete, words, weights)
    )


@pytest.mark.slow
def test_neighbouring_words_give_unrelated_draws():
    """Betas of consecutive words: serial correlation below 4.9 / sqrt(n) = 0.011. False alarm 1e-6."""
    sample = draws(samplers.beta, words_of("serial"), 2.0, 3.0) - 0.4

    correlation = np.mean(sample[1:] * sample[:-1]) / np.var(sample)

    assert abs(correlation) * math.sqrt(DRAWS) < z_bound()


@pytest.mark.slow
def test_the_two_gammas_of_a_beta_are_unrelated():
    """odds of Beta(a, a) are symmetric: as many above 1 as below, also in the middle. False alarm 1e-6."""
    odds = draws(samplers.beta_odds, words_of("symmetry"), *depth_and_spread(5.0) * 2)

    assert_count((odds > 1).sum(), DRAWS, 0.5)
    assert_rates([(odds > 2).sum()], DRAWS, stats.beta(5, 5).sf(2 / 3))
    assert_rates([(odds < 0.5).sum()], DRAWS, stats.beta(5, 5).cdf(1 / 3))


def word_before(bits, attempt):
    """The word whose `again(word, attempt)` is the given one: the generator's steps undone, last one first."""
    x = bits
    x ^= (x >> 31) ^ (x >> 62)
    x = x * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    x ^= (x >> 27) ^ (x >> 54)
    x = x * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    x ^= (x >> 30) ^ (x >> 60)
    return np.uint64((x - attempt * 0x9E3779B97F4A7C15) % 2**64 ^ 0xD1B54A32D192ED03)


@pytest.mark.parametrize("extreme", [0, 2**64 - 1])
@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
@pytest.mark.parametrize("mean", [10.0, 1e6])
def test_extreme_words_inside_a_poisson_do_no_harm(attempt, extreme, mean):
    """A word of which one further word is the first or the last of all: still a draw near the mean, no crash."""
    bits = word_before(extreme, attempt)
    assert int(again(bits, attempt)) == extreme

    drawn = samplers.poisson(bits, mean)

    assert abs(drawn - mean) < 10 * math.sqrt(mean)


# --- compiled = plain -------------------------------------------------------------------------------------------

CALLS = [
    (samplers.uniform, ()),
    (samplers.normal, ()),
    (samplers.exponential, ()),
    (samplers.gamma, (0.3,)),
    (samplers.gamma, (17.5,)),
    (samplers.log_gamma, (1e-3,)),
    (samplers.gamma_from, depth_and_spread(1.0)),
    (samplers.gamma_from, depth_and_spread(250.0)),
    (samplers.beta, (0.5, 0.25)),
    (samplers.beta, (1e5, 3.0)),
    (samplers.beta_log_odds, (0.01, 0.01)),
    (samplers.beta_odds, (*depth_and_spread(1.0), *depth_and_spread(40.0))),
    (samplers.poisson, (0.1,)),
    (samplers.poisson, (9.99,)),
    (samplers.poisson, (10.0,)),
    (samplers.poisson, (1e6,)),
    (samplers.discrete, (np.cumsum([0.1, 0.0, 0.6, 0.3]),)),
]


def awkward_words():
    """Words that take the rare paths: all layers of the ziggurat at and next to their ends, the first and the last
    word, and words of few bits."""
    ends = [0, 1, 2**52 - 1, 2**52, 2**53 - 2, 2**53 - 1, 2**53 // 100, 2**53 - 2**53 // 100]
    layered = [(end << 11) | layer for end in ends for layer in range(256)]
    return np.array([*layered, *(1 << bit for bit in range(64)), 2**64 - 1], np.uint64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "values"),
    CALLS,
    ids=[f"{call[0].__name__}{len(call[1])}-{n}" for n, call in enumerate(CALLS)],
)
def test_compiled_draws_are_plain_ones(sampler, values):
    """The same bits from machine code and from Python, on random words and on those that take rare paths."""
    words = np.concatenate([words_of("plain", 2_000), awkward_words()])

    plain = [float(sampler(bits, *values)) for bits in words]

    assert draws(sampler, words, *values).tolist() == plain
