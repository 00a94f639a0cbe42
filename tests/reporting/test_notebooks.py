"""Results in a Jupyter notebook that is executed here: tables and figures without any magic command."""

import base64
import os

import pytest

CELLS = [
    """
import sameluck as sl
policies = {"ucb": sl.UCB1(), "greedy": sl.EpsilonGreedy()}
experiment = sl.Experiment(policies=policies, horizon=200, replications=20)
result = sl.compare(sl.simulate(experiment, sl.Bernoulli([0.7, 0.3]), checkpoints=[50, 100, 200]))
result
""",
    "result.plot()",
    "%matplotlib inline\nresult.plot()",
    "_ = result.plot()",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell, in a process of its own."""
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    folder = str(tmp_path_factory.mktemp("notebook"))
    environment = {**os.environ, "IPYTHONDIR": folder, "MPLCONFIGDIR": folder}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(cwd=folder, env=environment)
    return [
        [output.data for output in cell.outputs if output.output_type != "stream"]
        for cell in notebook.cells
    ]


@pytest.mark.slow
def test_a_result_is_a_table(outputs):
    assert "<table>" in outputs[0][0]["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize("cell", [1, 2], ids=["plain", "inline"])
def test_a_figure_is_shown_once(outputs, cell, tmp_path):
    """Also before pyplot was imported and without %matplotlib, when Jupyter showed its repr only."""
    (data,) = outputs[cell]
    image = base64.b64decode(data["image/png"])
    assert image.startswith(b"\x89PNG")
    assert colours(image) > 5


@pytest.mark.slow
def test_a_figure_that_is_assigned_is_not_shown(outputs):
    assert outputs[3] == []


def colours(image):
    import io

    import matplotlib.image

    pixels = matplotlib.image.imread(io.BytesIO(image))
    return len({tuple(row) for row in pixels.reshape(-1, pixels.shape[-1])[::7].tolist()})
