"""One Hypothesis profile: no deadline (the first use of a loop compiles it), the same cases every time."""

import hypothesis
import pytest

from sameluck.policies import POLICIES

hypothesis.settings.register_profile(
    "sameluck", deadline=None, derandomize=True, database=None, max_examples=50
)
hypothesis.settings.load_profile("sameluck")


@pytest.fixture
def own_policies():
    """A test that registers policies of its own leaves the list of policies as it found it."""
    before = dict(POLICIES)
    yield
    POLICIES.clear()
    POLICIES.update(before)
