"""A panel of adversaries: each is trained on one half of the rows and measured on the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._present import label
from fairpca.linalg import Array, single_blas_thread
from fairpca.metrics._classifiers import Signs
from fairpca.metrics._intervals import HeldOut
from fairpca.metrics._measure import MIN_CROSS_FIT, Settings, halves_of, train
from fairpca.rows import Level, Rows, Stratum

_EPOCHS = 30

Predict = Callable[[Array], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class AdversaryResult:
    """What one adversary attains for one pair of groups.

    Parameters
    ----------
    adversary : str
        "linear" (half-spaces), "gaussian" (kernel SVM), "trees" (boosted trees) or "mlp" (a small
        neural network).
    attribute : str
        Name of the protected attribute.
    groups : tuple of two levels
        The two groups; "rest" is everybody else in the stratum.
    stratum : dict
        Control features and their values; empty without control features.
    held_out : HeldOut
        Difference of rates on rows that it was not trained on, with its interval.

    Examples
    --------
    >>> from fairpca.metrics import AdversaryResult, HeldOut
    >>> held_out = HeldOut(0.4, 0.2, 0.6, 0.95, 0.001, (50, 50))
    >>> AdversaryResult("trees", "sex", ("f", "m"), {}, held_out).held_out.low
    0.2
    """

    adversary: str
    attribute: str
    groups: tuple[Level, Level]
    stratum: dict[str, Level]
    held_out: HeldOut

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a table or for JSON."""
        return asdict(self)

    def label(self) -> str:
        """Return a short name of the pair."""
        return label(self.attribute, self.groups[1], self.groups[0], self.stratum)


def attack(
    strata: Sequence[Stratum], adversary: str, seed: int, confidence: float, max_samples: int
) -> list[AdversaryResult]:
    """Let one adversary try every pair that has enough rows for two halves."""
    found = []
    with single_blas_thread():
        for stratum in strata:
            for pair in stratum.pairs:
                signs = pair.signs
                if min((signs > 0).sum(), (signs < 0).sum()) < MIN_CROSS_FIT:
                    continue
                half = halves_of(signs, seed)
                known, new = (np.flatnonzero(half == part) for part in (1, 2))
                settings = Settings("rbf", "svm", max_samples=max_samples, seed=seed)
                predict = _TRAINERS[adversary](stratum.rows.take(known), signs[known], settings)
                rows = stratum.rows.take(new)
                held_out = HeldOut.of(predict(rows.X), signs[new], rows.weights, confidence)
                place = (pair.attribute, pair.groups, dict(stratum.name))
                found.append(AdversaryResult(adversary, *place, held_out))
    return found


def _train_gaussian(rows: Rows, signs: Signs, settings: Settings) -> Predict:
    return train(settings, rows, signs)[0]


def _train_linear(rows: Rows, signs: Signs, settings: Settings) -> Predict:
    method = "svm" if rows.X.shape[1] > 1 else "exact"
    return train(Settings("linear", method, seed=settings.seed), rows, signs)[0]


def _train_trees(rows: Rows, signs: Signs, settings: Settings) -> Predict:
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=settings.seed
    )
    # With groups of equal weight the best threshold for a difference of rates is one half.
    trees.fit(rows.X, signs, sample_weight=_balanced(rows, signs))
    return lambda U: np.asarray(trees.predict(U) > 0)


def _train_mlp(rows: Rows, signs: Signs, settings: Settings) -> Predict:
    from sklearn.neural_network import MLPClassifier

    mean, scale = rows.X.mean(axis=0), rows.X.std(axis=0)
    scale[scale == 0] = 1.0
    # It takes no weights in older versions: rows are drawn by weight instead, both groups alike.
    share, rng = _balanced(rows, signs), np.random.default_rng(settings.seed)
    drawn = rng.choice(len(signs), len(signs), p=share / share.sum())
    network = MLPClassifier((32,), learning_rate_init=0.01, random_state=settings.seed)
    scaled = (rows.X[drawn] - mean) / scale
    for _ in range(_EPOCHS):  # a fit would warn that it has not converged
        network.partial_fit(scaled, signs[drawn], classes=[-1, 1])
    return lambda U: np.asarray(network.predict((U - mean) / scale) > 0)


def _balanced(rows: Rows, signs: Signs) -> Array:
    """Return weights whose sum is the same in both groups, one on average."""
    weights = np.ones(len(signs)) if rows.weights is None else rows.weights.copy()
    for sign in (-1, 1):
        weights[signs == sign] *= 0.5 * len(signs) / weights[signs == sign].sum()
    return weights


_TRAINERS: dict[str, Callable[[Rows, Signs, Settings], Predict]] = {
    "linear": _train_linear,
    "gaussian": _train_gaussian,
    "trees": _train_trees,
    "mlp": _train_mlp,
}
