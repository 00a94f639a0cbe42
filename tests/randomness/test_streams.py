"""Random numbers by address: the frozen bits of stream version 1, and tests of neighbouring addresses."""

import hashlib

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from budget import SEED, assert_count, assert_probabilities, assert_rates, z_bound
from nonempty import nonempty
from sameluck.errors import AddressReused
from sameluck.randomness import streams

WORDS = st.integers(0, 2**64 - 1)

# --- version 1, written a second time with Python's own integers ------------------------------------------------

ALL = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
LANE = 0xD1B54A32D192ED03


def finish(x):
    x = ((x ^ (x >> 27)) * SECOND) & ALL
    return x ^ (x >> 31)


def mix(x):
    return finish(((x ^ (x >> 30)) * FIRST) & ALL)


def subkey(key, coordinate):
    step = mix((coordinate + GOLDEN) & ALL)
    return mix(key[0] ^ step), mix(((key[1] + step) * LANE) & ALL)


def stream(seed, purpose, replication, owner):
    key = mix((seed + LANE) & ALL), mix(seed ^ FIRST)
    for coordinate in (purpose, replication, owner):
        key = subkey(key, coordinate)
    return key


def word(key, index):
    x = (key[0] + index * GOLDEN) & ALL
    return finish((((x ^ (x >> 30)) * FIRST) & ALL) ^ key[1])


def at(noise, period, slot):
    return word(noise, (period * 2**20 + slot) & ALL)


def again(bits, attempt):
    return mix(((bits ^ LANE) + attempt * GOLDEN) & ALL)


GOLDEN_WORDS = [
    0x6353AD4DD1B150F5,
    0xDC4871C208D7AF36,
    0x092D825C08274827,
    0x77571E63403F8F7F,
]


def test_version_one_is_frozen():
    """Change a bit of this and every published result changes: that is what `VERSION` is for."""
    assert streams.VERSION == 1
    assert (streams.REWARD, streams.DECISION, streams.INSTANCE) == (1, 2, 3)
    assert streams.ALL_POLICIES == 0
    key = streams.stream(7, streams.REWARD, 5, streams.owner_of("ucb"))
    stack = streams.subkey(key, 3)
    noise = streams.stream(7, streams.DECISION, 5, 0)
    found = [streams.word(stack, 0), streams.word(stack, 10**9), streams.at(noise, 12, 2)]
    found.append(streams.again(found[0], 1))
    assert [int(bits) for bits in found] == GOLDEN_WORDS


@given(WORDS, WORDS, WORDS, WORDS, WORDS, WORDS)
def test_the_streams_are_what_plain_integers_give(seed, purpose, replication, owner, arm, position):
    """`stream`, `subkey`, `word`, `at` and `again` equal an independent implementation, for any coordinates."""
    key = streams.stream(seed, purpose, replication, owner)
    stack = streams.subkey(key, arm)

    assert tuple(map(int, key)) == stream(seed, purpose, replication, owner)
    assert tuple(map(int, stack)) == subkey(stream(seed, purpose, replication, owner), arm)
    expected = word(tuple(map(int, stack)), position)
    assert int(streams.word(stack, position)) == expected
    assert int(streams.at(key, period := arm >> 25, position >> 44)) == at(
        tuple(map(int, key)), period, position >> 44
    )
    assert int(streams.again(np.uint64(expected), position)) == again(expected, position)


def test_with_half_a_key_it_is_splitmix64():
    """The published numbers of SplitMix64 for seed 1234567 (Steele, Lea and Flood's generator)."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    key = streams.Key(np.uint64(1234567), np.uint64(0))

    assert [int(streams.word(key, index)) for index in (1, 2, 3, 4)] == published


def test_an_owner_is_a_stable_hash_of_the_name():
    """64 bits of BLAKE2b with the last bit set, so it is never the owner 0 of what all policies share."""
    digest = hashlib.blake2b("ucb \N{SAUROPOD}".encode(), digest_size=8).digest()

    assert streams.owner_of("ucb \N{SAUROPOD}") == int.from_bytes(digest, "little") | 1
    assert len({streams.owner_of(str(number)) for number in range(100_000)}) == 100_000


def test_a_guarded_key_refuses_a_second_read():
    """Reading is otherwise the same; a second read of one index names the reader."""
    key = streams.stream(1, 2, 3, 4)
    guarded = streams.OnceKey(key, "policy 'x'")

    assert streams.at(guarded, 5, 1) == streams.at(key, 5, 1)
    assert streams.word(guarded, 9) == streams.word(key, 9)
    with pytest.raises(AddressReused, match=r"policy 'x'.*twice"):
        streams.at(guarded, 5, 1)


# --- the battery ------------------------------------------------------------------------------------------------
# An address is a row of numbers; the battery walks along each of its coordinates and flips each of its bits.


@numba.njit(nogil=True)
def reward_word(address):
    key = streams.stream(address[0], address[1], address[2], address[3])
    return streams.word(streams.subkey(key, address[4]), address[5])


@numba.njit(nogil=True)
def decision_word(address):
    key = streams.stream(address[0], address[1], address[2], address[3])
    return streams.at(key, address[4], address[5])


@numba.njit(nogil=True)
def retry_word(address):
    return streams.again(address[0], address[1])


READERS = {
    "reward": (reward_word, ("seed", "purpose", "replication", "owner", "arm", "position")),
    "decision": (decision_word, ("seed", "purpose", "replication", "owner", "period", "slot")),
    "retry": (retry_word, ("word", "attempt")),
}
# How many bits of a coordinate are ever used.
WIDTH = {"purpose": 2, "replication": 40, "arm": 20, "position": 40, "period": 40, "slot": 20}
COORDINATES = [
    pytest.param(reader, place, id=f"{kind}-{name}")
    for kind, (reader, names) in READERS.items()
    for place, name in enumerate(names)
]
START = np.array([SEED, 1, 0, 0, 0, 0], np.uint64)


@numba.njit(nogil=True)
def walk(read, start, place, step, words):
    address = start.copy()
    for index in range(words.size):
        address[place] = start[place] + np.uint64(index) * step
        words[index] = read(address)


def words_along(reader, place, count, start=START, step=1):
    """The words at addresses that differ in one coordinate only, by 1 (or by a step) each."""
    words = np.empty(count, np.uint64)
    walk(reader, start, place, np.uint64(step), words)
    return words


def assert_sound(words, looks):
    """Bytes and pairs of top bits are equidistributed, no bit sticks to its neighbour's, lags do not correlate."""
    uniform = words / 2.0**64 - 0.5
    for byte in words.view(np.uint8).reshape(-1, 8).T:
        assert_probabilities(np.bincount(byte, minlength=256), np.full(256, 1 / 256), 9 * looks)
    top = (words >> np.uint64(60)).astype(np.int64)
    for lag in range(1, 5):
        pairs = np.bincount(16 * top[: -lag : lag + 1] + top[lag :: lag + 1], minlength=256)
        assert_probabilities(pairs, np.full(256, 1 / 256), 4 * looks)
        correlation = np.mean(uniform[lag:] * uniform[:-lag]) * 12
        assert abs(correlation) * np.sqrt(words.size) < z_bound(4 * looks)
    flips = words[1:] ^ words[:-1]
    bits = np.unpackbits(flips.view(np.uint8)).reshape(-1, 64).sum(axis=0)
    assert_rates(bits, flips.size, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "place"), COORDINATES)
def test_words_along_every_coordinate_are_sound(reader, place):
    """Neighbouring addresses, in whichever coordinate, are as good as independent.

    False alarm below 1e-5 in all; with 2^19 words it sees a correlation of 0.008, a bit that follows its
    neighbour in 50.5% of cases and byte frequencies off by some 7%.
    """
    assert_sound(words_along(reader, place, 1 << 19), looks=4)


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 3, 1 << 20, 1 << 32, GOLDEN, SECOND])
def test_words_at_regular_steps_are_sound(step):
    """Steps of other sizes along the position, also those that the generator's own constants suggest."""
    assert_sound(words_along(reward_word, 5, 1 << 18, step=step), looks=4)


def assert_unrelated(one, two):
    """Neither numbers at the same place or one apart correlate, nor bits, nor pairs of the top four bits."""
    a, b = one / 2.0**64 - 0.5, two / 2.0**64 - 0.5
    for x, y in ((a, b), (a[1:], b[:-1]), (a[:-1], b[1:])):
        assert abs(np.mean(x * y) * 12) * np.sqrt(x.size) < z_bound(3)
    bits = np.unpackbits((one ^ two).view(np.uint8)).reshape(-1, 64).sum(axis=0)
    assert_rates(bits, one.size, 0.5)
    top_one, top_two = ((words >> np.uint64(60)).astype(np.int64) for words in (one, two))
    assert_probabilities(np.bincount(16 * top_one + top_two, minlength=256), np.full(256, 1 / 256))


LAST = {reader: len(names) - 1 for reader, names in READERS.values()}
STREAMS = [case for case in COORDINATES if case.values[1] != LAST[case.values[0]]]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "place"), STREAMS)
def test_two_streams_do_not_move_together(reader, place):
    """Cross-correlation of two streams whose addresses differ by 1 in a coordinate, at the same positions and at
    positions one apart. False alarm 1e-6; sees a correlation of 0.011 and a bit equal in 50.6% of cases."""
    along = LAST[reader]
    other = START.copy()
    other[place] += np.uint64(1)
    count = 1 << 18

    one, two = (words_along(reader, along, count, start) for start in (START, other))

    assert_unrelated(one, two)


@numba.njit(nogil=True)
def count_flips(read, addresses, place, bits, flips):
    for row in range(addresses.shape[0]):
        address = addresses[row]
        before = read(address)
        for bit in range(bits):
            address[place] ^= np.uint64(1) << np.uint64(bit)
            changed = before ^ read(address)
            address[place] ^= np.uint64(1) << np.uint64(bit)
            for out in range(64):
                flips[bit, out] += (changed >> np.uint64(out)) & np.uint64(1)


def random_addresses(names, count):
    random = np.random.default_rng(SEED)
    columns = [
        random.integers(0, 1 << WIDTH.get(name, 64), count, np.uint64, endpoint=False)
        if name in WIDTH
        else random.integers(0, ALL, count, np.uint64, endpoint=True)
        for name in names
    ]
    return np.column_stack(columns)


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_one_flipped_bit_of_an_address_flips_every_bit_with_chance_one_half(kind):
    """Avalanche: each used bit of each coordinate against each bit of the word. False alarm 1e-6 a coordinate; sees
    a chance of 0.48 or 0.52."""
    reader, names = READERS[kind]
    trials = 30_000
    addresses = random_addresses(names, trials)

    for place, name in nonempty(enumerate(names)):
        flips = np.zeros((WIDTH.get(name, 64), 64), np.int64)
        count_flips(reader, addresses, place, flips.shape[0], flips)
        assert_rates(flips, trials, 0.5)


def repeated(words):
    """How many words are not the first of their value; much quicker than `np.unique`."""
    ordered = np.sort(words)
    return np.count_nonzero(ordered[1:] == ordered[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "place"), COORDINATES)
def test_collisions_are_as_rare_as_birthdays(reader, place):
    """Of 2^18 words none are equal; among their upper (lower) 32 bits about 8 pairs are, as by chance.

    False alarm 2e-6: the number of equal pairs is Poisson.
    """
    words = words_along(reader, place, 1 << 18)

    assert repeated(words) == 0
    expected = words.size * (words.size - 1) / 2 / 2**32
    for half in (words >> np.uint64(32), words & np.uint64(2**32 - 1)):
        equal = repeated(half)
        assert stats.poisson.cdf(equal, expected) > 5e-7
        assert stats.poisson.sf(equal - 1, expected) > 5e-7


@numba.njit(nogil=True)
def fill_keys(seeds, owners, replications, arms, keys):
    row = 0
    for seed in seeds:
        for purpose in range(1, 4):
            for replication in range(replications):
                for owner in owners:
                    key = streams.stream(seed, purpose, replication, owner)
                    for arm in range(arms):
                        stack = streams.subkey(key, arm)
                        keys[row, 0], keys[row, 1] = stack.first, stack.second
                        row += 1


@pytest.mark.slow
def test_no_two_addresses_share_a_key():
    """A grid of a million streams with small, neighbouring coordinates: no two keys are equal.

    Not even their second halves are; by chance two would be with probability 3e-8. (First halves are equal where seed
    and purpose change places: see the next test.)
    """
    seeds = np.array([0, 1, 2, 2**63, ALL], np.uint64)
    owners = np.array([0, 1, 2, 3, *(streams.owner_of(name) for name in "abc"), ALL], np.uint64)
    keys = np.empty((5 * 3 * 1_000 * 8 * 8, 2), np.uint64)

    fill_keys(seeds, owners, 1_000, 8, keys)

    assert np.unique(keys[:, 1]).size == len(keys)


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [((1, 2), (2, 1)), ((1, 1), (2, 2)), ((3, 1), (1, 3))])
def test_streams_that_share_half_a_key_do_not_move_together(swapped):
    """(seed 1, purpose 2) and (seed 2, purpose 1) have the same first half of the key, as have (1, 1) and (2, 2):
    the second half alone must keep them apart. False alarm 1e-6 per check; sees a correlation of 0.011."""
    one, two = (
        words_along(reward_word, 5, 1 << 18, np.array([*start, 0, 0, 0, 0], np.uint64))
        for start in swapped
    )

    assert_unrelated(one, two)


def test_the_largest_number_of_arms_has_a_slot_each():
    """The last slot of a period is not the first of the next one."""
    noise = streams.stream(1, 2, 3, 4)

    last = streams.at(noise, 5, streams.SLOTS - 1)

    assert last != streams.at(noise, 6, 0)
    assert streams.at(noise, 5, streams.SLOTS) == streams.at(noise, 6, 0)


@pytest.mark.slow
def test_ones_are_as_many_as_zeros():
    """4 million words of one stream: every bit is set half of the time. Sees a rate of 50.15%; false alarm 2e-6."""
    words = words_along(reward_word, 5, 1 << 22)

    ones = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]

    assert_rates(ones, words.size, 0.5)
    assert_count(sum(ones), 64 * words.size, 0.5)
