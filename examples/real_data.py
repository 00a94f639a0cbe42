"""Bandits from data that scikit-learn brings with it, without a network.

python real_data.py

Digits: the arms are four classifiers, and the reward is 1 if an image that the classifier has not seen is recognised.
Wine: the arms are three cultivars, and the reward is the alcohol of a bottle.
"""

from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import sameluck as sl

CLASSIFIERS = {
    "binary bayes": BernoulliNB(binarize=8.0),
    "bayes": GaussianNB(),
    "tree": DecisionTreeClassifier(random_state=0),
    "neighbours": KNeighborsClassifier(),
}


def recognised_digits() -> sl.Empirical:
    """Which of 1,797 images each classifier recognises, trained on the other folds."""
    images, digits = load_digits(return_X_y=True)
    predictions = [cross_val_predict(one, images, digits) for one in CLASSIFIERS.values()]
    return sl.Empirical([(predicted == digits).astype(float) for predicted in predictions])


def alcohol_of_wines() -> sl.Empirical:
    """The alcohol of 178 bottles, by cultivar: a DataFrame with a row per bottle is a log."""
    frame = load_wine(as_frame=True).frame
    return sl.Empirical.from_log(frame, arm="target", reward="alcohol")


def main() -> list[sl.Comparison]:
    """Compare policies on both, and print what is found."""
    digits = sl.Experiment(
        policies={
            "ucb": sl.UCB1(),
            "thompson": sl.ThompsonBernoulli(),
            "greedy": sl.EpsilonGreedy(),
        },
        arms=list(CLASSIFIERS),
        horizon=2_000,
        replications=50,
    )
    wines = sl.Experiment(
        policies={"ucb": sl.UCB1(alpha=0.8), "greedy": sl.EpsilonGreedy(0.05)},
        arms=3,
        horizon=500,
        replications=50,
    )
    bandits = [(digits, recognised_digits()), (wines, alcohol_of_wines())]
    results = [
        sl.compare(sl.simulate(experiment, bandit), pairs="best") for experiment, bandit in bandits
    ]
    for (_, bandit), result in zip(bandits, results, strict=True):
        print("mean of each arm:", [round(mean, 3) for mean in bandit.means])  # noqa: T201
        print(result, end="\n\n")  # noqa: T201
    return results


if __name__ == "__main__":
    main()
