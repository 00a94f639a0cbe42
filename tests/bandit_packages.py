"""Bandits of other packages, with the conventions of sameluck where those can be chosen."""

import contextlib
import io
import warnings

import numpy as np
import pytest
from scipy import special

ARMS = 3


def module(name):
    """A module of a package, imported without its warnings and messages; the test is skipped if it is missing."""
    if name.startswith("SMPyBandits") and not hasattr(special, "btdtri"):
        special.btdtri = special.betaincinv  # its former name, which SMPyBandits 0.9.7 imports
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


class LowestArm:
    """In the place of the generator with which river's policies choose among equal arms."""

    def choice(self, arms):
        return arms[0]


def river(kind, *, ties=None, **parameters):
    """A function that makes a policy of `river.bandit`."""

    def make(seed):
        policy = getattr(module("river.bandit"), kind)(seed=seed, **parameters)
        policy._rng = ties or policy._rng
        return policy

    return make


def river_thompson(seed):
    """Thompson sampling of river with a Beta(1, 1) prior."""
    return module("river.bandit").ThompsonSampling(module("river.proba").Beta(), seed=seed)


def mabwiser(kind, *arguments, arms=range(ARMS)):
    """A function that makes a bandit of MABWiser."""

    def make(seed):
        mab = module("mabwiser.mab")
        policy = getattr(mab.LearningPolicy, kind)(*arguments)
        return mab.MAB(list(arms), policy, seed=seed)

    return make


def smpybandits(kind, *arguments, arms=ARMS, **parameters):
    """A function that makes a policy of SMPyBandits."""
    return lambda _: getattr(module("SMPyBandits.Policies"), kind)(arms, *arguments, **parameters)


def bayesianbandits(learner, *arguments, tokens="xyz", reward=None, **parameters):
    """A function that makes an agent of bayesianbandits with Thompson sampling."""

    def make(seed):
        bandits = module("bayesianbandits")
        kind = getattr(bandits, learner)
        arms = [bandits.Arm(one, reward, kind(*arguments, **parameters)) for one in tokens]
        return bandits.Agent(arms, bandits.ThompsonSampling(), random_seed=seed)

    return make
