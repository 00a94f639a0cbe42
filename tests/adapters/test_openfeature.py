"""The OpenFeature provider, called through the SDK."""

import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.track import TrackingEventDetails

import sameluck as sl
from sameluck.adapters.openfeature import OpenFeatureProvider


@pytest.fixture
def store():
    with sl.open("sqlite://", timeout=5.0) as store:
        yield store


@pytest.fixture
def flags(store):
    api.set_provider(OpenFeatureProvider(store))
    yield api.get_client()
    api.shutdown()
    api.clear_providers()


def start(store, name="socks", arms=("red", "green")):
    policies = {"ucb": "ucb1", "greedy": "epsilon_greedy"}
    experiment = sl.Experiment(policies=policies, arms=list(arms), horizon=4, replications=3)
    return store.start(name, experiment)


ANN = EvaluationContext("ann")


def test_the_variant_is_the_arm_and_track_reports_the_reward(store, flags):
    live = start(store)
    details = flags.get_string_details("socks", "none", ANN)
    assert (details.value, details.variant, details.reason) == ("red", "red", "SPLIT")
    id = details.flag_metadata["assignment_id"]
    assert live.describe(id).arm == "red"
    assert flags.get_string_value("socks", "none", ANN) == "red"
    flags.track("socks", ANN, TrackingEventDetails(1.0))
    assert live.describe(id).value == 1.0
    flags.track("socks", ANN, TrackingEventDetails(0.0))  # a conflict, which is logged
    assert live.describe(id).value == 1.0


def test_a_reward_is_tracked_by_its_assignment_in_another_process_too(store, flags):
    live = start(store)
    id = live.assign("bob").id
    flags.track("socks", None, TrackingEventDetails(1.0, {"assignment_id": id}))
    assert live.describe(id).value == 1.0
    flags.track("socks", ANN, TrackingEventDetails(1.0))  # nobody was assigned
    assert live.status().settled == 1


def test_a_unit_that_is_not_enrolled_gets_the_fallback_arm(store, flags):
    start(store).pause()
    details = flags.get_string_details("socks", "none", ANN)
    assert (details.value, details.reason) == ("red", "DEFAULT")
    assert details.flag_metadata == {
        "assignment_id": "",
        "enrolled": False,
        "reason": "NOT_RUNNING",
    }


def test_what_cannot_be_evaluated_has_the_default_value(store, flags):
    start(store)
    unknown = flags.get_string_details("shoes", "none", ANN)
    assert (unknown.value, unknown.error_code) == ("none", ErrorCode.FLAG_NOT_FOUND)
    nobody = flags.get_string_details("socks", "none", EvaluationContext())
    assert (nobody.value, nobody.error_code) == ("none", ErrorCode.TARGETING_KEY_MISSING)
    for details in (
        flags.get_boolean_details("socks", True, ANN),
        flags.get_float_details("socks", 0.5, ANN),
        flags.get_integer_details("socks", 5, ANN),
        flags.get_object_details("socks", {}, ANN),
    ):
        assert details.error_code == ErrorCode.TYPE_MISMATCH


def test_arms_may_be_truths_and_numbers(store, flags):
    start(store, "switch", ["off", "on"])
    start(store, "size", ["10", "20"])
    assert flags.get_boolean_value("switch", True, ANN) is False
    assert flags.get_integer_value("size", 0, ANN) == 10
    assert flags.get_float_value("size", 0.0, ANN) == 10.0
