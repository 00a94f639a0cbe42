"""Bandits from the data sets in scikit-learn, without a network.

python real_data.py

Digits: the arms are four classifiers, and the reward is 1 if the classifier recognises an image it has not seen.
Wine: the arms are three cultivars, and the reward is the alcohol content of a bottle.
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
    """Return, for each classifier, which of 1,797 images it recognises, trained on the other folds."""
    images, digits = load_digits(return_X_y=True)
    predictions = [cross_val_predict(model, images, digits) for model in CLASSIFIERS.values()]
    return sl.Empirical([(predicted == digits).astype(float) for predicted in predictions])


def alcohol_by_cultivar() -> sl.Empirical:
    """Return the alcohol content of 178 bottles by cultivar; a DataFrame with a row per bottle is a log."""
    frame = load_wine(as_frame=True).frame
    return sl.Empirical.from_log(frame, arm="target", reward="alcohol")


def main() -> list[sl.Comparison]:
    """Compare policies on both bandits and print the results."""
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
    bandits = [(digits, recognised_digits()), (wines, alcohol_by_cultivar())]
    results = [
        sl.compare(sl.simulate(experiment, bandit), pairs="best") for experiment, bandit in bandits
    ]
    for (_, bandit), result in zip(bandits, results, strict=True):
        print("mean of each arm:", [round(mean, 3) for mean in bandit.means])  # noqa: T201
        print(result, end="\n\n")  # noqa: T201
    return results


if __name__ == "__main__":
    main()
