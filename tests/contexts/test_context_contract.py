"""Contract of every policy that uses contexts, by discovery: text form, parameters, machine code, refusals."""

import pytest

import sameluck as sl
from cases import CONTEXTUAL_ENVIRONMENT_CLASSES, CONTEXTUAL_POLICY_CLASSES
from nonempty import nonempty
from sameluck import text_forms
from sameluck.environments.registry import as_environment
from sameluck.policies.base import POLICIES, needs_binary, usable_contexts
from sameluck.policies.registry import as_policy
from sameluck.runs import CONTEXTUAL

HORIZON = 40


DISCOVERED = [as_environment(text_forms.example(kind)) for kind in CONTEXTUAL_ENVIRONMENT_CLASSES]
PLAIN = as_environment("bernoulli(0.6, 0.5)")


def kind_of(environment):
    return "none" if environment.context is None else text_forms.name_of(type(environment.context))


def accepts(policy, environment):
    binary = environment.binary or not needs_binary(policy)
    return binary and kind_of(environment) in usable_contexts(policy)


def environment_for(policy):
    return next(environment for environment in DISCOVERED if accepts(policy, environment))


def experiment_of(policy, **changes):
    values = {"horizon": HORIZON, "replications": 5, "seed": 8, **changes}
    return sl.Experiment(policies={"it": policy}, **values)


@pytest.fixture(params=CONTEXTUAL_POLICY_CLASSES, ids=lambda kind: kind.__name__)
def policy(request):
    return as_policy(text_forms.example(request.param), 2)


def test_the_text_form_is_read_as_the_same_policy(policy):
    for brief in (False, True):
        text = text_forms.write(policy, brief=brief)
        assert (
            text_forms.normal_form(text_forms.parse(text, POLICIES, "policy"), POLICIES) == policy
        )
        assert as_policy(text, 2) == policy


def test_a_wrong_parameter_is_refused_by_its_name(policy):
    for name, value in nonempty(policy._asdict().items()):
        wrong = "nonsense" if isinstance(value, (str, tuple)) else float("nan")
        with pytest.raises(sl.Invalid, match=name):
            experiment_of(policy._replace(**{name: wrong}), arms=2)


def test_machine_code_is_plain_python(policy):
    """`guard` also raises if a policy reads a random number twice."""
    environment = environment_for(policy)

    trace = sl.trace(experiment_of(policy), environment, guard=True)

    assert len(trace["it"].arms) == HORIZON


def test_no_chunk_changes_a_bit(policy):
    environment, experiment = environment_for(policy), experiment_of(policy)
    options = {"checkpoints": [7, HORIZON]}
    whole = sl.simulate(experiment, environment, workers=1, **options)

    parts = [
        sl.simulate(experiment, environment, replications=part, workers=2, **options)
        for part in (range(1), range(1, 5))
    ]
    joined = sl.Runs.concat(parts)
    for name in ("rewards", "pulls", "interactions", *CONTEXTUAL):
        first, second = getattr(whole, name), getattr(joined, name)
        assert (first is None and second is None) or first.tobytes() == second.tobytes()


def test_a_user_without_the_context_is_refused_before_anything_runs(policy):
    others = [PLAIN, *DISCOVERED]
    refusing = [other for other in others if kind_of(other) not in usable_contexts(policy)]
    for environment in nonempty(refusing):
        context = environment.context
        value = "no context" if context is None else context.text
        with pytest.raises(sl.Invalid) as refusal:
            sl.simulate(experiment_of(policy).replace(arms=environment.arms or 2), environment)
        message = str(refusal.value)
        assert message.startswith(f"policy 'it': {type(policy).__name__} needs ")
        assert value in message
        assert "; simulate it in an environment with" in message


def test_a_policy_with_contexts_passes_the_check_of_policies():
    policy = sl.PerLevel(sl.UCB1())
    sl.check_policy(policy, arms=2, horizon=HORIZON, environment=environment_for(policy))


def test_policies_say_which_context_they_need(policy):
    assert usable_contexts(policy)
    assert not set(usable_contexts(policy)) - {"levels", "states", "features"}
    assert usable_contexts(sl.UCB1()) == ()
