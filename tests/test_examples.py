"""The examples that need no server; `live/test_examples.py` runs the others."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Could not find the number of physical cores")
def test_bandits_from_real_data(capsys):
    """Classifiers on digits and bottles of wine: the arms have the data's means, and policies differ in them.

    Without /sys, as in some containers, scikit-learn cannot count the physical cores, and warns.
    """
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("real_data", EXAMPLES / "real_data.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    digits, wines = example.main()
    images, wine = digits.runs.environment, wines.runs.environment
    frame = example.load_wine(as_frame=True).frame

    assert capsys.readouterr().out.count("mean of each arm:") == 2
    assert images.binary
    assert digits.runs.experiment.arm_names[images.best_arm] == "neighbours"
    assert [len(arm) for arm in images.samples] == [1_797] * 4
    np.testing.assert_allclose(wine.means, frame.groupby("target").alcohol.mean())
    ceiling = max(images.means) * 2_000
    assert all(0.8 * ceiling < one.reward < ceiling for one in digits.policies)
