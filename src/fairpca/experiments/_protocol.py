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

TRAIN_SHARE = 0.7
PAPER_MU = 0.01
SEED = 2019


@dataclass(frozen=True, eq=False)
class Split:
    """Standardised training and test rows with their groups and labels.

    Parameters
    ----------
    train, test : ndarray of shape (n, p)
        Features, standardised with the training rows; constant features are zero.
    z_train, z_test : ndarray of int
        Protected label.
    y_train, y_test : ndarray of int or None
        Main label.
    """

    train: NDArray[np.float64]
    test: NDArray[np.float64]
    z_train: NDArray[np.intp]
    z_test: NDArray[np.intp]
    y_train: NDArray[np.intp] | None
    y_test: NDArray[np.intp] | None


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


def alternative_label(name: str) -> str | None:
    """Return the real label documented for a set whose own label is a coin flip."""
    info = dataset_info(name)
    return info.targets[0].name if info.target == "DummyMain" else None


def binary_label(name: str) -> str | None:
    """Return the label of a set for classification: its own, or for biodeg the binarised one."""
    return "nX>0" if name == "biodeg" else dataset_info(name).target


@lru_cache(maxsize=4)
def rows_of(name: str, label: str | None = None) -> tuple[Any, Any, Any]:
    """Features, protected label and main label of the rows that the protocol uses."""
    data = load_dataset(name, target=label)
    n = len(data.data) // 5 if name in FIRST_FIFTH else len(data.data)
    y = None if data.target is None else data.target.to_numpy()[:n]
    z = data.sensitive_features.iloc[:, 0].to_numpy()[:n]
    return data.data.to_numpy(np.float64)[:n], z.astype(np.intp), y


def standardise(train: Any, *others: Any) -> tuple[NDArray[np.float64], ...]:
    """Scale rows with the mean and deviation of the first argument; constant columns become 0."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    varies = deviation > 1e-12 * np.maximum(np.abs(mean), 1.0)
    scale = np.where(varies, deviation, np.inf)
    return tuple((rows - mean) / scale for rows in (train, *others))


def make_split(name: str, split: int, label: str | None = None) -> Split:
    """Shuffle and cut 70/30, then standardise with the training rows.

    Parameters
    ----------
    name : str
        Data set.
    split : int
        Number of the split; splits are the same for all labels and methods.
    label : str or None
        Main label, where another than the file's own is wanted.

    Returns
    -------
    Split
        Training and test rows.
    """
    X, z, y = rows_of(name, label)
    order = np.random.default_rng((SEED, split)).permutation(len(X))
    cut = round(TRAIN_SHARE * len(X))
    first, second = order[:cut], order[cut:]
    train, test = standardise(X[first], X[second])
    labels = (None, None) if y is None else (y[first], y[second])
    return Split(train, test, z[first], z[second], *labels)
