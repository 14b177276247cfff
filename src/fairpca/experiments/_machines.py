"""The measures of the authors' released program, where it differs from the text of the paper."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

PENALTIES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
_MAX_ITER = 200_000  # libsvm may take minutes at the largest penalty on noise


def gaussian_released(U: Any, z: Any, seed: int) -> float:
    """In-sample Δ of the Gaussian machine: exp(−‖u − v‖²/2), C by the Δ of one held-out fifth.

    The program means five folds, but its dual form changes the penalty in the first one only.
    """
    order = np.random.default_rng(seed).permutation(len(U))
    outside, inside = order[: len(U) // 5], order[len(U) // 5 :]
    gains = [_delta(_machine(U[inside], z[inside], C), U[outside], z[outside]) for C in PENALTIES]
    return _delta(_machine(U, z, PENALTIES[int(np.argmax(gains))]), U, z)


def _machine(U: Any, z: Any, penalty: float) -> SVC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(C=penalty, gamma=0.5, cache_size=500, max_iter=_MAX_ITER).fit(U, z)


def _delta(machine: SVC, U: Any, z: Any) -> float:
    return score_delta(machine.decision_function(U), z)


def score_delta(score: Any, z: Any) -> float:
    """Largest difference of the groups' rates over all thresholds; 0 where there is one group."""
    if not np.ptp(z):
        return 0.0
    order = np.argsort(score, kind="stable")
    steps = np.where(z[order] == 1, 1.0 / np.sum(z == 1), -1.0 / np.sum(z != 1))
    last_of_tie = np.append(np.diff(score[order]) > 0.0, True)
    return float(np.abs(np.cumsum(steps)[last_of_tie]).max())


def ks_released(U: Any, z: Any) -> tuple[float, float]:
    """Distance of table 3 as the program scans it, for both orders of two components.

    The program goes through the rows by the first component but, of the rows left, through the
    second one by its argsort where it means ranks. So it sees one component, and which one is
    first is not determined where the solution is a projector.
    """
    first = _scan(U[:, 0], np.argsort(U[:, 1], kind="stable"), z)
    return first, _scan(U[:, 1], np.argsort(U[:, 0], kind="stable"), z)


def _scan(x: Any, places: Any, z: Any) -> float:
    """Largest partial sum in the order `places`, over all sets of rows above a value of x."""
    row = np.empty(len(x))
    row[places] = np.where(z == 1, -1.0 / np.sum(z == 1), 1.0 / np.sum(z != 1))
    largest = 0.0
    for place in places[np.argsort(x, kind="stable")]:
        largest = max(largest, float(np.abs(np.cumsum(row)).max()))
        row[place] = 0.0
    return largest
