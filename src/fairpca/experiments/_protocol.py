"""The protocol of the paper: which rows, which splits, which scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.datasets import dataset_info, load_dataset

DATASETS = (
    "adult",
    "biodeg",
    "ecoli",
    "energy",
    "german_credit",
    "image_segmentation",
    "letter_recognition",
    "magic",
    "pima_diabetes",
    "recidivism",
    "skillcraft",
    "statlog_landsat",
    "steel_plates",
    "taiwanese_credit",
    "wine_quality",
)

MATCHING = (
    "adult",
    "energy",
    "german_credit",
    "pima_diabetes",
    "recidivism",
    "skillcraft",
    "taiwanese_credit",
    "wine_quality",
)
"""Sets whose released files have the features and the protected label of the printed table."""

FIRST_FIFTH = ("adult", "letter_recognition", "magic", "taiwanese_credit")
"""Sets of which the original script uses the first 20 % of the rows."""

RANDOM_FIFTH = (("statlog_landsat", "printed"),)
"""The file is sorted by its class, so its first fifth cannot be what was used; see `search`."""

ROWS = ("all rows", "first fifth", "random fifth")

TRAIN_SHARE = 0.7
PAPER_MU = 0.01
SEED = 2019


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
    """Convert the paper's μ into `cov_weight`, on standardised training data.

    The authors' program divides XᵀX by n‖X‖_F but not the covariance gap, and ‖X‖_F = √(np) on
    standardised data. So their μ costs μ√(np) in covariance units.

    Parameters
    ----------
    mu : float
        The paper's μ.
    n_rows, n_features : int
        Training rows, and features that vary.

    Returns
    -------
    float
        The price in covariance units.

    Examples
    --------
    >>> from fairpca.experiments import cov_weight_from_paper
    >>> cov_weight_from_paper(0.01, 4900, 11)
    2.32...
    """
    return mu * float(np.sqrt(n_rows * n_features))


def definitions(name: str) -> tuple[str, ...]:
    """Name the readings of a file: as released, and as printed where there is such a one."""
    return ("released",) if dataset_info(name).printed is None else ("released", "printed")


def choose_rows(n_rows: int, rows: str) -> NDArray[np.intp]:
    """Return the numbers of the rows that are used: one of `ROWS`."""
    if rows == "random fifth":
        return np.random.default_rng(SEED).permutation(n_rows)[: n_rows // 5]
    return np.arange(n_rows // 5 if rows == "first fifth" else n_rows)


@lru_cache(maxsize=4)
def rows_of(name: str, definition: str = "released") -> tuple[Any, Any, Any]:
    """Features, protected label and main label of the rows that the protocol uses."""
    # The label of biodeg is a count; whether it is positive serves where a class is needed.
    target = "nX>0" if (name, definition) == ("biodeg", "released") else None
    data = load_dataset(name, target=target, definition=definition)
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
