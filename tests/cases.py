"""Cases of the tests: every policy, environment and design, found by discovery, with sensible parameters."""

from hypothesis import strategies as st

import sameluck as sl
from sameluck import text_forms
from sameluck.design import DESIGNS
from sameluck.environments.base import ENVIRONMENTS
from sameluck.environments.registry import as_environment
from sameluck.policies.base import POLICIES
from sameluck.policies.registry import as_policy

# The first example of each is the one used where one is enough. A policy or environment that is not listed is tested
# with the example that its class gives.
POLICY_EXAMPLES = {
    sl.UCB1: [sl.UCB1(), sl.UCB1(alpha=0.0), sl.UCB1(alpha=2.5), sl.UCB1(alpha=30.0)],
    sl.UCBDelta: [
        sl.UCBDelta(),
        sl.UCBDelta(d=0.5),
        sl.UCBDelta(delta=0.1),
        sl.UCBDelta(delta=1.0),
    ],
    sl.ThompsonBernoulli: [
        sl.ThompsonBernoulli(),
        sl.ThompsonBernoulli(first_plays=1),
        sl.ThompsonBernoulli(a=0.5, b=0.25),
        sl.ThompsonBernoulli(a=2.0, b=7.5, first_plays=3),
    ],
    sl.ThompsonGaussian: [
        sl.ThompsonGaussian(),
        sl.ThompsonGaussian(first_plays=2),
        sl.ThompsonGaussian(prior_mean=-1.5, prior_sd=10.0, noise_sd=0.25),
    ],
    sl.EpsilonGreedy: [
        sl.EpsilonGreedy(),
        sl.EpsilonGreedy(epsilon=0.5, explore="others"),
        sl.EpsilonGreedy(epsilon=0.0),
        sl.EpsilonGreedy(epsilon=1.0),
    ],
    sl.Uniform: [sl.Uniform()],
    sl.Always: [sl.Always(1), sl.Always(0)],
    sl.Batched: [
        sl.Batched(sl.UCB1(alpha=0.5), 10),
        sl.Batched(sl.UCBDelta(), 2),
        sl.Batched(sl.ThompsonBernoulli(first_plays=1), 7),
        sl.Batched(sl.ThompsonBernoulli(a=0.5, b=0.25), 3),
        sl.Batched(sl.ThompsonGaussian(), 4),
        sl.Batched(sl.EpsilonGreedy(epsilon=0.5, explore="others"), 5),
        sl.Batched(sl.Uniform(), 1 << 40),
    ],
    sl.MOSS: [sl.MOSS(), sl.MOSS(alpha=4.0)],
    sl.KLUCB: [sl.KLUCB(), sl.KLUCB(c=3.0)],
    sl.KLUCBGaussian: [sl.KLUCBGaussian(), sl.KLUCBGaussian(sd=0.25, c=3.0)],
    sl.BayesUCB: [sl.BayesUCB(), sl.BayesUCB(a=0.5, b=2.5, c=5.0)],
    sl.UCBV: [sl.UCBV(), sl.UCBV(zeta=0.5, c=0.25, b=2.0)],
    sl.ExploreThenCommit: [sl.ExploreThenCommit(), sl.ExploreThenCommit(plays=1)],
    sl.SuccessiveElimination: [sl.SuccessiveElimination(), sl.SuccessiveElimination(delta=0.9)],
    sl.ThompsonNormalInverseGamma: [
        sl.ThompsonNormalInverseGamma(),
        sl.ThompsonNormalInverseGamma(-1.5, prior_weight=0.25, a=0.5, b=0.1, first_plays=2),
    ],
    sl.ThompsonPoisson: [sl.ThompsonPoisson(), sl.ThompsonPoisson(a=0.25, b=0.5, first_plays=2)],
    sl.DecreasingEpsilonGreedy: [
        sl.DecreasingEpsilonGreedy(c=0.5, d=0.5),
        sl.DecreasingEpsilonGreedy(),
    ],
    sl.Softmax: [sl.Softmax(temperature=2.0), sl.Softmax()],
    sl.GradientBandit: [sl.GradientBandit(), sl.GradientBandit(step=2.5, baseline=False)],
    sl.EXP3: [sl.EXP3(), sl.EXP3(gamma=1.0)],
    sl.EXP3IX: [sl.EXP3IX(), sl.EXP3IX(eta=0.5)],
    sl.SlidingWindowUCB: [sl.SlidingWindowUCB(), sl.SlidingWindowUCB(window=40, xi=1.0, b=0.5)],
    sl.DiscountedUCB: [sl.DiscountedUCB(), sl.DiscountedUCB(gamma=0.8, xi=0.1, b=0.5)],
    sl.DiscountedThompson: [sl.DiscountedThompson(), sl.DiscountedThompson(0.8, a=0.5, b=2.0)],
}

# What is run in every environment, under every design and in random comparisons: together these use all that a body
# may use. A policy does not know its environment, and each pair is compiled: every other policy is run in one.
EVERYWHERE = (
    sl.UCB1,
    sl.UCBDelta,
    sl.ThompsonBernoulli,
    sl.ThompsonGaussian,
    sl.EpsilonGreedy,
    sl.Uniform,
    sl.Always,
)
IN_BATCHES_EVERYWHERE = (sl.UCB1, sl.ThompsonBernoulli)

DESIGN_EXAMPLES = {
    sl.Naive: [sl.Naive()],
    sl.Replay: [sl.Replay(), sl.Replay(share_noise=True)],
    sl.TimeCoupled: [sl.TimeCoupled()],
}


def environment_examples(arms):
    """Some environments of each kind, for a number of arms."""
    spread = tuple((arm + 1) / (arms + 1) for arm in range(arms))
    return {
        sl.Bernoulli: [
            sl.Bernoulli(spread),
            sl.Bernoulli((0.5,) * arms),
            sl.Bernoulli((1.0,) * arms),
        ],
        sl.Gaussian: [
            sl.Gaussian(spread),
            sl.Gaussian(spread, sd=spread),
            sl.Gaussian(spread, sd=0.0),
        ],
        sl.Empirical: [
            sl.Empirical(tuple((0.0, 1.0) + (1.0,) * arm for arm in range(arms))),
            sl.Empirical(tuple((-2.5, 1e-3 * arm, 40.0) for arm in range(arms))),
        ],
        sl.BernoulliPrior: [sl.BernoulliPrior(), sl.BernoulliPrior(a=spread, b=0.5)],
        sl.GaussianPrior: [
            sl.GaussianPrior(),
            sl.GaussianPrior(mean=spread, sd=0.5, noise_sd=spread),
        ],
    }


def ours(kinds):
    """Return sameluck's own classes, without classes that other tests have registered."""
    return [kind for kind in kinds.values() if kind.__module__.startswith("sameluck.")]


def policy_examples(kind):
    """Some policies of a kind."""
    return POLICY_EXAMPLES.get(kind) or [as_policy(text_forms.example(kind), 2)]


def is_everywhere(policy):
    """Return whether a policy is run in every environment."""
    if isinstance(policy, sl.Batched):
        return isinstance(policy.policy, IN_BATCHES_EVERYWHERE)
    return isinstance(policy, EVERYWHERE)


def without_contexts(kinds):
    return [kind for kind in kinds if ".contextual." not in kind.__module__]


# Classes with contexts are tested in tests/contexts.
POLICY_CLASSES = [kind for kind in without_contexts(ours(POLICIES)) if kind is not sl.External]
ENVIRONMENT_CLASSES = without_contexts(ours(ENVIRONMENTS))
CONTEXTUAL_POLICY_CLASSES = [kind for kind in ours(POLICIES) if ".contextual." in kind.__module__]
CONTEXTUAL_ENVIRONMENT_CLASSES = [
    kind for kind in ours(ENVIRONMENTS) if ".contextual." in kind.__module__
]
DESIGN_CLASSES = ours(DESIGNS)
ALL_POLICIES = [policy for kind in POLICY_CLASSES for policy in policy_examples(kind)]
POLICIES_EVERYWHERE = [policy for policy in ALL_POLICIES if is_everywhere(policy)]
OTHER_POLICIES = [policy for policy in ALL_POLICIES if not is_everywhere(policy)]
FIRST_OF_OTHERS = [
    policy_examples(kind)[0]
    for kind in POLICY_CLASSES
    if not issubclass(kind, (*EVERYWHERE, sl.Batched))
]
ALL_DESIGNS = [design for kind in DESIGN_CLASSES for design in DESIGN_EXAMPLES.get(kind, [])]


def environment_example(kind):
    """One environment of a kind."""
    listed = environment_examples(3).get(kind)
    return listed[0] if listed else as_environment(text_forms.example(kind))


def representative_environments(arms):
    """Return the listed examples: a fixed bandit, values and a prior. Each pair with a policy is compiled."""
    return [one for many in environment_examples(arms).values() for one in many]


def all_environments(arms):
    """All examples of all kinds of environments, for a number of arms."""
    others = [kind for kind in ENVIRONMENT_CLASSES if kind not in environment_examples(arms)]
    return representative_environments(arms) + [
        one
        for one in map(as_environment, map(text_forms.example, others))
        if one.arms in (None, arms)
    ]


def fits(policy, environment):
    """Return whether the environment pays rewards that the policy accepts."""
    return environment.binary or not getattr(policy, "needs_binary", False)


def name(value):
    """A readable id for a parametrised test."""
    return text_forms.write(value) if hasattr(value, "_asdict") else str(value)


@st.composite
def comparisons(draw, designs=tuple(ALL_DESIGNS), horizon=60, replications=2):
    """A small experiment with an environment it fits: 2 to 6 arms, 1 to 4 policies, any design, any seed."""
    arms = draw(st.integers(2, 6), label="arms")
    environment = draw(st.sampled_from(representative_environments(arms)), label="environment")
    fitting = [policy for policy in POLICIES_EVERYWHERE if fits(policy, environment)]
    chosen = draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=4), label="policies")
    experiment = sl.Experiment(
        policies={f"{place}: {name(policy)}": policy for place, policy in enumerate(chosen)},
        arms=arms,
        horizon=draw(st.integers(1, horizon), label="horizon"),
        replications=replications,
        design=draw(st.sampled_from(designs), label="design"),
        seed=draw(st.integers(0, 2**64 - 1), label="seed"),
    )
    return experiment, environment
