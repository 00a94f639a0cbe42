"""False alarms and detection of the check of an environment's stated means, by distribution.

    python benchmarks/stated_means.py [--seeds 1000]

Prints for each distribution how many checks with other random numbers refuse its true mean, which should be none, and
the smallest error of the stated mean that is refused in all of 20 checks: above and below the true mean. Checks are
those of `simulate` (100,000 draws) and of `check_environment` (a million, for 20 seeds).
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.environments import stated_means
from sameluck.environments.base import prepared_parameters
from sameluck.randomness.samplers import uniform

DRAWS = 100_000


class Pareto(NamedTuple):
    """Pareto distribution with a mean, and no variance for shapes up to 2."""

    means: tuple[float, ...]
    shape: float


@sl.draws(Pareto)
def _(parameters, row, arm, bits):  # noqa: ARG001
    least = parameters.means[arm] * (parameters.shape - 1) / parameters.shape
    return least * (1 - uniform(bits)) ** (-1 / parameters.shape)


CASES = {
    "Bernoulli 0.5": sl.Bernoulli((0.5,)),
    "Bernoulli 0.03": sl.Bernoulli((0.03,)),
    "0 or 1, not declared, 0.03": sl.Categorical(((0.97, 0.03, 0.0),), values=(0, 1, 2)),
    "0 or 1, not declared, 0.00001": sl.Categorical(((0.99999, 0.00001, 0.0),), values=(0, 1, 2)),
    "Gaussian 1, sd 1": sl.Gaussian((1.0,)),
    "exponential, mean 1": sl.Exponential((1.0,)),
    "Student t, 2.1 degrees of freedom": sl.StudentT((1.0,), df=2.1),
    "revenue: 3% lognormal, sigma 1.5": sl.ZeroInflatedLognormal((0.03,), 60.0, 1.5),
    "lognormal, mean 1, sigma 2": sl.Lognormal((1.0,), 2.0),
    "lognormal, mean 1, sigma 4": sl.Lognormal((1.0,), 4.0),
    "lognormal, mean 1,000, sigma 5": sl.Lognormal((1_000.0,), 5.0),
    "Pareto, mean 10, shape 1.5": Pareto((10.0,), 1.5),
    "Pareto, mean 10, shape 1.1": Pareto((10.0,), 1.1),
}


def deviations(environment: sl.Environment, seed: int, draws: int) -> np.ndarray:
    parameters = prepared_parameters(environment, seed, range(1), 1)
    means = np.array([environment.means])
    return stated_means._drawn_deviations(parameters, means, seed, draws, 1e9)[0]


def refused(values: np.ndarray, environment: sl.Environment) -> bool:
    alarm = stated_means.FALSE_ALARM
    return stated_means._differs(values, alarm, binary=environment.binary)


def smallest_error(samples: list[np.ndarray], environment: sl.Environment, sign: int) -> str:
    """Return the smallest error of the stated mean that all checks refuse, in means; two digits."""
    scale = abs(environment.means[0])
    for error in np.geomspace(1e-4, 1e3, 141):
        if sign < 0 and environment.means[0] > 0 and error >= 1:
            break
        if all(refused(values - sign * error * scale, environment) for values in samples):
            return f"{error:.2g}"
    return "none"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1_000)
    options = parser.parse_args()
    print(f"$ python {' '.join(sys.argv)}\n")
    print(
        "| distribution | false alarms | smallest error above | below | false alarms, 10^6 draws |"
    )
    print("|---|---|---|---|---|")
    for name, environment in CASES.items():
        alarms, samples = 0, []
        for seed in range(options.seeds):
            values = deviations(environment, seed, DRAWS)
            alarms += refused(values, environment)
            samples += [values] if seed < 20 else []
        errors = [smallest_error(samples, environment, sign) for sign in (1, -1)]
        many = sum(
            refused(deviations(environment, seed, 10 * DRAWS), environment) for seed in range(20)
        )
        cells = [f"{alarms} of {options.seeds:,}", *errors, f"{many} of 20"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
