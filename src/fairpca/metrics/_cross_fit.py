"""Cross-fitting: classifiers are trained on some rows and measured on others.

The one engine behind `delta_fairness`, `audit` and `DeltaFairPCA`, and the one registry of
classifiers. The caller says which rows train and which are held out, and what represents them:
the same rows may be represented in several ways, or by a basis fitted to the training rows alone.
What is measured of the held-out rows is a function of their scores: flags at the trained threshold
(`cross_fit_flags`), or the largest difference of rates over all thresholds (`cross_fit_delta`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, rankdata
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches
from threadpoolctl import ThreadpoolController

from fairpca.linalg import Array
from fairpca.metrics._orthants import OrthantStatistic
from fairpca.metrics._plane import LineStatistic, PlaneStatistic
from fairpca.metrics._rules import Signs, Statistic, best_cut, masses
from fairpca.metrics._search import SearchStatistic, SVMStatistic
from fairpca.metrics._svm import KernelStatistic
from fairpca.metrics.bounds import Share
from fairpca.rows import Rows
from fairpca.rows._sampling import Seed, draw, halves

MIN_ROWS = 4  # of each label, for two halves
_TIMES_SMALLER = 5  # rows that train a classifier, as a multiple of those of the rarer label
SEARCH_ROWS = 2000  # rows on which a search is repeated: 200 times take half a minute
_ALPHA = 0.05  # of a level of chance
_SMIRNOV_DEVIATION = 0.328  # of √(mn/(m+n)) times the largest one-sided difference of alike groups
_EPOCHS = 30
_BINS = 255  # of a feature, for boosted trees
# Kernel SVMs of several widths: gamma of the widest, divided by the number of components, and how
# many there are. Each kernel is the fourth power of the one before, so that one is computed.
_GAMMA, _WIDTHS = 0.5, 3
_KERNEL_ROWS = 5000  # that train them at most: their kernel takes 200 MB
_BATCH_ROWS = 4096  # rows whose kernels are held at a time


class Labelled(NamedTuple):
    """A representation of rows, with labels of one target: +1, −1, or 0 for rows left out."""

    rows: Rows
    signs: Signs

    def take(self, index: NDArray[np.intp]) -> Labelled:
        """Return some of the rows."""
        return Labelled(self.rows.take(index), self.signs[index])

    def split(self, seed: Seed) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the labelled rows at random, each label by itself and units as wholes."""
        used = np.flatnonzero(self.signs)
        units = None if self.rows.units is None else self.rows.units[used]
        first, second = halves(self.signs[used], seed, units)
        return used[first], used[second]

    def drawn(self, size: int, seed: Seed) -> Labelled:
        """Draw labelled rows, both labels alike; a rare label needs few of the other."""
        used = np.flatnonzero(self.signs)
        size = min(size, _TIMES_SMALLER * self.smallest)
        labels = (self.signs[used] > 0).astype(np.intp)
        return self.take(used[draw(labels, size, seed, balanced=True)])

    @property
    def smallest(self) -> int:
        """Rows of the rarer label."""
        return int(min(np.count_nonzero(self.signs > 0), np.count_nonzero(self.signs < 0)))

    def balanced_weights(self) -> Array:
        """Return weights whose sum is the same for both labels, one on average."""
        n = len(self.signs)
        weights = np.ones(n) if self.rows.weights is None else self.rows.weights.copy()
        for sign in (-1, 1):
            weights[self.signs == sign] *= 0.5 * n / weights[self.signs == sign].sum()
        return weights


class Trained(NamedTuple):
    """A trained classifier: decisions on rows, and scores (several where it is a set of them)."""

    predict: Callable[[Array], NDArray[np.bool_]]
    scores: Callable[[Array], Sequence[Array]]
    searched: bool = False  # whether a search took the place of a linear SVM without a direction


class HeldOutDelta(NamedTuple):
    """Largest difference of rates over thresholds, its error, and what chance exceeds in 5 %."""

    value: float
    error: float
    chance: float


def largest_delta(scores: Sequence[Array], test: Labelled) -> HeldOutDelta:
    """Return the largest difference of rates over all thresholds of all scores.

    One-sided: a classifier knows which group has the higher scores. On rows that were fitted to
    have equal means, scores of classifiers trained on the other half come out reversed, and their
    differences would count as found.
    """
    weights, signs, units = test.rows.weights, test.signs, test.rows.units
    mass = masses(signs[None], weights).values[0]
    cuts = [best_cut(some, mass, one_sided=True) for some in scores]
    some, cut = max(zip(scores, cuts, strict=True), key=lambda pair: pair[1].value)
    flagged = some > cut.threshold
    plus, minus = (
        Share.of(
            flagged[signs == s],
            None if weights is None else weights[signs == s],
            None if units is None else units[signs == s],
        )
        for s in (1, -1)
    )
    variance = sum(share.value * (1.0 - share.value) / share.size for share in (plus, minus))
    unit = float(np.sqrt(1.0 / plus.size + 1.0 / minus.size))
    # Smirnov's limit, exp(−2x²) for one score, and Bonferroni's for several. Rates near 0 or 1 have
    # a small binomial error, but the largest of many thresholds never has less than Smirnov's.
    chance = unit * float(np.sqrt(0.5 * np.log(len(scores) / _ALPHA)))
    error = max(float(np.sqrt(max(variance, 0.0))), _SMIRNOV_DEVIATION * unit)
    return HeldOutDelta(max(plus.value - minus.value, 0.0), error, chance)


Train = Callable[[Labelled], Trained]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def cross_fit(
    splits: Iterable[tuple[Labelled, Labelled]], train: Train
) -> list[tuple[Sequence[Array], Labelled]]:
    """Train on the first part of every split; return scores of the second, which is held out."""
    return [(train(fitted).scores(test.rows.X), test) for fitted, test in splits]


def cross_fit_flags(part: Labelled, splits: Sequence[Split], train: Train) -> Array | None:
    """Flag every row by classifiers trained on the other half, averaged over splits.

    None where a half has too few rows of a label. A split is two arrays of positions.
    """
    flags = np.zeros(len(part.signs))
    for split in splits:
        first, second = (half[part.signs[half] != 0] for half in split)
        for fitted, held_out in ((first, second), (second, first)):
            training = part.take(fitted)
            if training.smallest < MIN_ROWS // 2:
                return None
            flags[held_out] += train(training).predict(part.rows.X[held_out])
    return flags / len(splits)


def cross_fit_delta(
    part: Labelled, folds: Sequence[NDArray[np.intp]], train: Train
) -> HeldOutDelta | None:
    """Δ of classifiers trained on all folds but one; scores of folds are pooled by average rank.

    None where a fold has too few rows of a label. A fold is an array of positions.
    """
    inside = [fold[part.signs[fold] != 0] for fold in folds]
    tests = [part.take(fold) for fold in inside]
    if min(test.smallest for test in tests) < MIN_ROWS // 2:
        return None
    rest = [np.concatenate([*inside[:k], *inside[k + 1 :]]) for k in range(len(inside))]
    ranks = []
    for scores, _ in cross_fit(zip(map(part.take, rest), tests, strict=True), train):
        ranks.append([rankdata(some) / len(some) for some in scores])
    pooled = [np.concatenate(of_folds) for of_folds in zip(*ranks, strict=True)]
    return largest_delta(pooled, part.take(np.concatenate(inside)))


# -- families of classifiers, whose statistic on the training rows is a value of its own -----------


@dataclass(frozen=True)
class Settings:
    """How Δ of a family is computed; the rows come apart."""

    family: str
    method: str
    orthants: str = "one"
    C: float | None = None
    gamma: float | None = None
    max_samples: int = 2000
    seed: int = 0
    min_group: int = 0  # pairs of smaller groups never are the largest value

    def rows_to_permute(self) -> int:
        """Return how many rows a null may take; fewer where a permutation repeats a costly fit."""
        if self.family == "rbf":
            return self.max_samples
        is_search = (self.family, self.method) == ("linear", "search")
        return SEARCH_ROWS if is_search else sys.maxsize

    def statistic(self, rows: Rows) -> Statistic:
        """Prepare what rows alone decide."""
        U, weight = rows.X, rows.weights
        if self.family == "cdf":
            return OrthantStatistic(U, weight, self.method, self.orthants)
        if self.family == "rbf":
            trained = rows.draw(self.max_samples, self.seed)
            return KernelStatistic(U, weight, self.C, self.gamma, trained, self.seed)
        if U.shape[1] == 1:
            return LineStatistic(U, weight)
        statistics: dict[str, Callable[[Array, Array | None], Statistic]] = {
            "svm": SVMStatistic,
            "search": SearchStatistic,
            "exact": PlaneStatistic,
        }
        return statistics[self.method](U, weight)

    def train(self, part: Labelled) -> Trained:
        """Train the classifier of the family; a search where the SVM's direction is noise."""
        statistic = self.statistic(part.rows)
        searched = isinstance(statistic, SVMStatistic) and is_noise(statistic, part.signs)
        if searched:
            part = part.take(part.rows.draw(SEARCH_ROWS, self.seed))
            statistic = SearchStatistic(part.rows.X, part.rows.weights)
        classifier = statistic.fit(part.signs).classifier
        if classifier is None:
            return Trained(_never, lambda U: [np.zeros(len(U))], searched)
        return Trained(classifier.predict, lambda U: [classifier.score(U)], searched)


def _never(U: Array) -> NDArray[np.bool_]:
    return np.zeros(len(U), dtype=bool)


def is_noise(statistic: SVMStatistic, signs: Signs) -> bool:
    """Whether group means differ no more than those of groups drawn at random would."""
    rank = statistic.rank
    return rank > 0 and bool(statistic.mean_shift(signs) <= chi2.ppf(0.95, rank))


# -- the registry ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Classifier:
    """An entry of the registry: how it is trained, and what it costs."""

    train: Callable[[Labelled, int], Trained]
    seconds: tuple[float, float, float] = (0.1, 5e-5, 0.0)  # once, per row, per squared row
    max_rows: int = sys.maxsize  # that train it

    def trainer(self, seed: int, max_rows: int = sys.maxsize) -> Train:
        """Return the training with its seed, on at most so many rows."""
        size = min(max_rows, self.max_rows)
        return lambda part: self.train(
            part if size == sys.maxsize else part.drawn(size, seed), seed
        )

    def cost(self, n_rows: int, n_components: int) -> float:
        """Return the seconds that training on rows takes, about."""
        once, by_row, by_square = self.seconds
        return (once + by_row * n_rows + by_square * n_rows**2) * (1.0 + n_components / 20.0)


def _train_linear(part: Labelled, seed: int) -> Trained:
    method = "svm" if part.rows.X.shape[1] > 1 else "exact"
    return Settings("linear", method, seed=seed).train(part)


def _train_gaussian(part: Labelled, seed: int) -> Trained:
    """One of three widths; it and the threshold are the best on halves of the training rows."""
    scale = part.rows.X.std(axis=0)
    scale[scale == 0.0] = 1.0
    part = Labelled(part.rows.with_features(part.rows.X / scale), part.signs)
    first, second = map(part.take, part.split(seed))
    if min(first.smallest, second.smallest) < MIN_ROWS:
        trained = _train_widths(part, seed)
        return Trained(lambda U: trained.predict(U / scale), lambda U: trained.scores(U / scale))
    parts = cross_fit([(first, second), (second, first)], partial(_train_widths, seed=seed))
    scores = [some for some, _ in parts]
    signs = np.concatenate([test.signs for _, test in parts])
    weights = np.concatenate([test.balanced_weights() for _, test in parts])
    mass = masses(signs[None], weights).values[0]
    cuts = [
        best_cut(np.concatenate(width), mass, one_sided=True) for width in zip(*scores, strict=True)
    ]
    best = max(range(len(cuts)), key=lambda k: cuts[k].value)
    machine = _train_widths(part, seed, (best,))
    return Trained(
        lambda U: machine.scores(U / scale)[0] > cuts[best].threshold,
        lambda U: machine.scores(U / scale),
    )


def _of_model(model: Any, part: Labelled, **fit: Any) -> Trained:
    """Fit a scikit-learn classifier; with balanced labels its best threshold is zero."""
    model.fit(part.rows.X, part.signs, **fit)
    return Trained(
        lambda U: np.asarray(model.predict(U) > 0), lambda U: [model.decision_function(U)]
    )


def _train_logistic(part: Labelled, seed: int) -> Trained:
    from sklearn.linear_model import LogisticRegression

    return _of_model(LogisticRegression(), part, sample_weight=part.balanced_weights())


def _train_trees(part: Labelled, seed: int, *, max_iter: int, max_leaf_nodes: int) -> Trained:
    from sklearn.ensemble import HistGradientBoostingClassifier

    size = {"max_iter": max_iter, "max_leaf_nodes": max_leaf_nodes}
    trees = HistGradientBoostingClassifier(**size, early_stopping=False, random_state=seed)
    binned = _binning(part.rows.X)
    coded = Labelled(part.rows.with_features(binned(part.rows.X)), part.signs)
    alone = _openmp().wrap(limits=1)
    trained = alone(_of_model)(trees, coded, sample_weight=part.balanced_weights())
    return Trained(
        alone(lambda U: trained.predict(binned(U))), alone(lambda U: trained.scores(binned(U)))
    )


@cache
def _openmp() -> ThreadpoolController:
    # Of trees on a thousand rows: where other cores are busy, threads wait ten times as long.
    return ThreadpoolController().select(user_api="openmp")


def _binning(X: Array) -> Callable[[Array], Array]:
    """Return what replaces features by their bins: trees ask for weighted quantiles one by one."""
    edges = []
    for values in map(np.unique, X.T):
        few = len(values) <= _BINS
        edges.append(values if few else np.quantile(values, np.arange(1, _BINS) / _BINS))
    return lambda U: np.column_stack(
        [np.searchsorted(some, column) for some, column in zip(edges, U.T, strict=True)]
    ).astype(float)


def _train_network(part: Labelled, seed: int) -> Trained:
    from sklearn.neural_network import MLPClassifier

    U, signs = part.rows.X, part.signs
    mean, scale = U.mean(axis=0), U.std(axis=0)
    scale[scale == 0] = 1.0
    # It takes no weights in older versions: rows are drawn by weight instead, both groups alike.
    share, rng = part.balanced_weights(), np.random.default_rng(seed)
    drawn = rng.choice(len(signs), len(signs), p=share / share.sum())
    network = MLPClassifier((32,), learning_rate_init=0.01, random_state=seed)
    scaled = (U[drawn] - mean) / scale
    for _ in range(_EPOCHS):  # a fit would warn that it has not converged
        network.partial_fit(scaled, signs[drawn], classes=[-1, 1])
    return Trained(
        lambda new: np.asarray(network.predict((new - mean) / scale) > 0),
        lambda new: [network.predict_proba((new - mean) / scale)[:, 1]],
    )


def _train_widths(part: Labelled, seed: int, widths: Sequence[int] = range(_WIDTHS)) -> Trained:
    """Gaussian-kernel SVMs of some widths, without tuning."""
    from sklearn.svm import SVC

    U, weights = part.rows.X, part.balanced_weights()
    gammas = [_GAMMA * 4.0**k / U.shape[1] for k in widths]
    coefficients, intercepts = np.zeros((len(gammas), len(U))), []
    for coefficient, kernel in zip(coefficients, _kernels(U, U, gammas), strict=True):
        machine = SVC(kernel="precomputed").fit(kernel, part.signs, sample_weight=weights)
        coefficient[machine.support_] = machine.dual_coef_[0]
        intercepts.append(machine.intercept_[0])

    def scores(new: Array) -> list[Array]:
        # A product with the coefficients: SVC's own loop over a kernel takes twenty times as long.
        by_batch = [
            [k @ c for k, c in zip(_kernels(new[b], U, gammas), coefficients, strict=True)]
            for b in gen_batches(len(new), _BATCH_ROWS)
        ]
        values = (np.concatenate(width) for width in zip(*by_batch, strict=True))
        return [value + b for value, b in zip(values, intercepts, strict=True)]

    return Trained(lambda new: scores(new)[0] > 0, scores)


def _train_panel(part: Labelled, seed: int) -> Trained:
    """Several classifiers, each with scores of its own; the first decides."""
    panel = [
        CLASSIFIERS[key].trainer(seed)(part) for key in ("gaussian-widths", "large-trees", "mlp")
    ]
    return Trained(panel[0].predict, lambda U: [s for one in panel for s in one.scores(U)])


def _kernels(left: Array, right: Array, gammas: Sequence[float]) -> Iterator[Array]:
    """Yield a kernel for each gamma; each gamma is four times the one before."""
    kernel = rbf_kernel(left, right, gamma=gammas[0])
    yield kernel
    for _ in gammas[1:]:
        np.square(kernel, out=kernel)
        yield np.square(kernel, out=kernel)


CLASSIFIERS: Mapping[str, Classifier] = {
    "linear": Classifier(_train_linear, (6e-3, 6e-6, 0.0)),
    "gaussian": Classifier(_train_gaussian, (0.01, 2e-5, 3e-8)),
    "trees": Classifier(partial(_train_trees, max_iter=60, max_leaf_nodes=15), (0.04, 1e-5, 0.0)),
    "mlp": Classifier(_train_network, (0.08, 4e-5, 0.0)),
    "logistic": Classifier(_train_logistic),
    "gaussian-widths": Classifier(_train_widths, max_rows=_KERNEL_ROWS),
    "large-trees": Classifier(partial(_train_trees, max_iter=100, max_leaf_nodes=31)),
    "panel": Classifier(_train_panel),
}
"""By name; the panel of audits are the first four."""
