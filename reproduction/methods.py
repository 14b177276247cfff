"""The paper's protocol, the methods compared, and the measures of the authors' released program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from fairpca.exceptions import InfeasibleError
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, Solution, solve
from reproduction.calmon import CalmonPreprocessor
from reproduction.datasets import load_dataset

FIRST_FIFTH = ("adult", "letter_recognition", "magic", "taiwanese_credit")
"""Sets of which the original script uses the first 20 % of the rows."""

RANDOM_FIFTH = (("statlog_landsat", "printed"),)
"""The file is sorted by its class, so its first fifth cannot be what was used; see `search`."""

ROWS = ("all rows", "first fifth", "random fifth")

TRAIN_SHARE = 0.7
PAPER_MU = 0.01
SEED = 2019


@dataclass(frozen=True)
class Effort:
    """How much is computed; `QUICK` takes less of everything."""

    quick: bool = False
    permutations: int = 99  # behind each null of a linear SVM or a distribution function
    kernel_rows: int = 2000  # that a Gaussian SVM is trained on at most
    adversary_rows: int = 20000  # that the adversary of DeltaFairPCA sees at most
    folds: int = 5  # by which the linear SVMs choose their penalty


FULL, QUICK = Effort(), Effort(True, 19, 400, 1000, 2)


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, standardised with the training rows; groups z and labels y."""

    train: NDArray[np.float64]
    test: NDArray[np.float64]
    z_train: NDArray[np.intp]
    z_test: NDArray[np.intp]
    y_train: Any
    y_test: Any


def cov_weight_from_paper(mu: float, n_rows: int, n_features: int) -> float:
    """Convert the paper's μ into `cov_weight`, a penalty in covariance units.

    The authors' program divides XᵀX by n‖X‖_F but not the covariance gap, and ‖X‖_F = √(np) on
    standardised data. So their μ is a penalty of μ√(np) in covariance units.
    """
    return mu * float(np.sqrt(n_rows * n_features))


def choose_rows(n_rows: int, rows: str) -> NDArray[np.intp]:
    """Return the numbers of the rows that are used: one of `ROWS`."""
    if rows == "random fifth":
        return np.random.default_rng(SEED).permutation(n_rows)[: n_rows // 5]
    return np.arange(n_rows // 5 if rows == "first fifth" else n_rows)


@lru_cache(maxsize=4)
def rows_of(name: str, definition: str = "released") -> tuple[Any, Any, Any]:
    """Features, protected label and main label of the rows that the protocol uses."""
    data = load_dataset(name, definition)
    rows = "random fifth" if (name, definition) in RANDOM_FIFTH else "all rows"
    used = choose_rows(len(data.data), "first fifth" if name in FIRST_FIFTH else rows)
    z = data.sensitive_features.iloc[:, 0].to_numpy()[used].astype(np.intp)
    return data.data.to_numpy(np.float64)[used], z, data.target.to_numpy()[used]


def standardise(train: Any, *others: Any) -> tuple[NDArray[np.float64], ...]:
    """Scale rows with the mean and deviation of the first argument; constant columns become 0."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    varies = deviation > 1e-12 * np.maximum(np.abs(mean), 1.0)
    scale = np.where(varies, deviation, np.inf)
    return tuple((rows - mean) / scale for rows in (train, *others))


def cut(n_rows: int, split: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Shuffle and cut 70/30, the same for all definitions and methods."""
    order = np.random.default_rng((SEED, split)).permutation(n_rows)
    place = round(TRAIN_SHARE * n_rows)
    return order[:place], order[place:]


def make_split(name: str, split: int, definition: str = "released") -> Split:
    """Cut the rows of a set 70/30 and standardise them with the training rows."""
    X, z, y = rows_of(name, definition)
    first, second = cut(len(X), split)
    train, test = standardise(X[first], X[second])
    return Split(train, test, z[first], z[second], y[first], y[second])


PAPER_METHODS = ("pca", "mean", "both")
METHODS = (*PAPER_METHODS, "refined_gap", "refined_zero")
"""In this order: the gap of "both" is what "refined_gap" is held to."""


def fit_bases(
    X: NDArray[np.float64],
    z: NDArray[np.intp],
    n_components: int,
    *,
    mu: float,
    methods: Sequence[str] = METHODS,
) -> dict[str, dict[str, Any]]:
    """Fit methods on standardised rows at the paper's μ: basis, variance and gaps of each."""
    moments = GroupMoments.from_arrays(X, z)
    problem = FairProblem.from_contrasts(
        moments.pooled().covariance, moments.contrasts(min_group_size=2), 1
    )
    used = int(np.sum(np.diag(problem.covariance) > 0.5))
    problem = replace(problem, cov_weight=cov_weight_from_paper(mu, len(X), used))
    fits: dict[str, dict[str, Any]] = {}
    for method in methods:
        # No more components than the features can give once the means are equal.
        size = min(n_components, X.shape[1] - (method != "pca"))
        solution, tolerance = _fit(method, replace(problem, n_components=size), fits)
        fits[method] = _describe(solution, problem, tolerance)
    return fits


def _fit(
    method: str, problem: FairProblem, fits: Mapping[str, Mapping[str, Any]]
) -> tuple[Solution, float | None]:
    if method == "pca":
        return solve(replace(problem, mean_tol=None, cov_weight=0.0)), None
    if method == "mean":
        return solve(replace(problem, cov_weight=0.0)), None
    if method == "both":
        return solve_as_the_authors(problem), None
    # The SDP's own basis meets its gap up to rounding; so much slack keeps it feasible.
    tolerance = 0.0 if method == "refined_zero" else fits["both"]["cov_gap"] * (1.0 + 1e-6)
    try:
        return solve(replace(problem, cov_tol=tolerance), certify=False), tolerance
    except InfeasibleError as error:
        if error.minimum is None:
            raise
        tolerance = error.minimum * (1.0 + 1e-6) + 1e-9
        return solve(replace(problem, cov_tol=tolerance), certify=False), tolerance


def solve_as_the_authors(problem: FairProblem) -> Solution:
    """Solve the paper's SDP with the choices of its released program: tr P = d, φ = ‖Q‖ + 0.5."""
    shift = max(float(np.linalg.norm(gap, 2)) for gap in problem.cov_gaps) + 0.5
    return solve(problem, "paper", cov_shift=shift, trace="equal", max_iter=20000)


def variance_share(basis: Any, covariance: Any) -> float:
    """Share of the variance that a basis keeps, in percent."""
    return 100.0 * float(np.sum(basis * (covariance @ basis)) / np.trace(covariance))


def _describe(solution: Solution, problem: FairProblem, tolerance: float | None) -> dict[str, Any]:
    certificate = solution.certificate
    return {
        "basis": np.ascontiguousarray(solution.basis),
        "variance": variance_share(solution.basis, problem.covariance),
        "cov_gap": certificate.cov_gap,
        "mean_gap": certificate.mean_gap,
        "cov_tol": tolerance,
    }


def fit_split(dataset: str, definition: str, split: int, d: int) -> dict[str, dict[str, Any]]:
    """Fit all methods with d components to the training rows of a split."""
    rows = make_split(dataset, split, definition)
    return fit_bases(rows.train, rows.z_train, d, mu=PAPER_MU)


def representation(rows: Any, basis: Any, *, scale_by: Any = None) -> NDArray[np.float64]:
    """Project rows and scale to unit variance: their own, as the authors do, or that of others."""
    U = rows @ basis
    deviation = (U if scale_by is None else scale_by @ basis).std(axis=0)
    return U / np.where(deviation > 1e-12, deviation, 1.0)


@dataclass(frozen=True, eq=False)
class CalmonRows:
    """Mapped training rows with their mapped labels, mapped test rows, and the bound used."""

    train: NDArray[np.float64]
    labels: NDArray[Any]
    test: NDArray[np.float64]
    distortion_bound: float


def run_calmon(split: Split, seed: int) -> CalmonRows:
    """Optimised preprocessing with c = 0.1, or the smallest feasible c."""
    model = CalmonPreprocessor(seed=seed).fit(split.train, split.y_train, split.z_train)
    train, labels = model.transform_pairs(split.train, split.y_train, split.z_train)
    # Without their labels, which are not known when a classifier is used.
    test = model.transform(split.test, split.z_test)
    return CalmonRows(train, labels, test, model.distortion_bound_)


PENALTIES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
_MAX_ITER = 200_000  # libsvm may take minutes at the largest penalty on noise


def gaussian_released(U: Any, z: Any, seed: int) -> float:
    """In-sample Δ of the Gaussian SVM: exp(−‖u − v‖²/2), C by the Δ of one held-out fifth."""
    # The program means five folds, but its dual form changes the penalty in the first one only.
    order = np.random.default_rng(seed).permutation(len(U))
    outside, inside = order[: len(U) // 5], order[len(U) // 5 :]
    deltas = [_delta(_svm(U[inside], z[inside], C), U[outside], z[outside]) for C in PENALTIES]
    return _delta(_svm(U, z, PENALTIES[int(np.argmax(deltas))]), U, z)


def _svm(U: Any, z: Any, penalty: float) -> SVC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(C=penalty, gamma=0.5, cache_size=500, max_iter=_MAX_ITER).fit(U, z)


def _delta(svm: SVC, U: Any, z: Any) -> float:
    return score_delta(svm.decision_function(U), z)


def score_delta(score: Any, z: Any) -> float:
    """Largest difference of the groups' rates over all thresholds; 0 where there is one group."""
    if not np.ptp(z):
        return 0.0
    order = np.argsort(score, kind="stable")
    steps = np.where(z[order] == 1, 1.0 / np.sum(z == 1), -1.0 / np.sum(z != 1))
    last_of_tie = np.append(np.diff(score[order]) > 0.0, True)
    return float(np.abs(np.cumsum(steps)[last_of_tie]).max())


def ks_released(U: Any, z: Any) -> tuple[float, float]:
    """Distance of table 3 as the program scans it, for both orders of two components."""
    # The program goes through the rows by the first component but, of the rows left, through the
    # second one by its argsort where it means ranks. So it sees one component, and which one is
    # first is not determined where the solution is a projector.
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


def measures(values: Mapping[str, Any], **where: Any) -> list[dict[str, Any]]:
    """Turn named values into rows of a table; what is None is left out."""
    return [
        {**where, "measure": name, "value": float(value)}
        for name, value in values.items()
        if value is not None
    ]
