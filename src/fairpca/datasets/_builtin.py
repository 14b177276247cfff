"""Data that need no file: scikit-learn's diabetes data, and synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.utils import check_random_state

from fairpca.exceptions import InvalidInputError

# A ball and a cigar that crosses it at an angle: they differ in position and in shape, and the
# difference in shape is visible in most planes in which the means are equal or nearly so.
_HALF_GAP = 1.0
_WIDTH, _LENGTH = 0.7, 2.0
_AXIS = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class EmbeddedData:
    """A small real data set: features in their own units, a protected attribute, and a target.

    Examples
    --------
    >>> from fairpca.datasets import load_diabetes_sex
    >>> data = load_diabetes_sex()
    >>> data.X.shape, data.sensitive_name
    ((442, 9), 'sex')
    """

    X: NDArray[np.float64]
    feature_names: tuple[str, ...]
    sensitive: NDArray[np.str_]
    sensitive_name: str
    target: NDArray[np.float64]
    target_name: str
    description: str


def load_diabetes_sex() -> EmbeddedData:
    """Load scikit-learn's diabetes data with sex as the protected attribute.

    442 patients; age, body mass index, blood pressure and six blood values, in their own units;
    the target is the progression of the disease a year later. The source codes sex as 1 and 2
    and does not say which is which, so the groups are called "sex 1" and "sex 2".

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone and R. Tibshirani (2004). Least angle regression.
    Annals of Statistics 32, 407-499.

    Examples
    --------
    >>> from fairpca.datasets import load_diabetes_sex
    >>> data = load_diabetes_sex()
    >>> data.X.shape, data.feature_names[:3]
    ((442, 9), ('age', 'bmi', 'bp'))
    """
    source = load_diabetes(scaled=False)
    position = source.feature_names.index("sex")
    labels = np.array([f"sex {int(code)}" for code in source.data[:, position]])
    return EmbeddedData(
        X=np.delete(source.data, position, axis=1),
        feature_names=tuple(name for name in source.feature_names if name != "sex"),
        sensitive=labels,
        sensitive_name="sex",
        target=source.target,
        target_name="progression",
        description="scikit-learn's diabetes data (Efron et al. 2004): 442 patients; age, body "
        "mass index, blood pressure and six blood values",
    )


def make_two_gaussians(
    n_samples: int = 1000, *, random_state: int | np.random.RandomState | None = 0
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Draw points from two different three-dimensional Gaussians.

    The setting of the paper's figure 1: 1000 points from each of two populations. The paper does
    not print its means and covariances; these are ours. Returns the points, shape
    (2 * n_samples, 3), and their population: 0 for the first half, 1 for the second.

    Parameters
    ----------
    n_samples : int, default=1000
        Points in each population.
    random_state : int, RandomState or None, default=0
        Seed.

    Examples
    --------
    >>> from fairpca.datasets import make_two_gaussians
    >>> X, z = make_two_gaussians(500)
    >>> X.shape, int(z.sum())
    ((1000, 3), 500)
    """
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise InvalidInputError(f"n_samples must be a whole number of at least 1: {n_samples!r}.")
    random = check_random_state(random_state)
    ball = _WIDTH * random.standard_normal((n_samples, 3))
    cigar = _WIDTH * random.standard_normal((n_samples, 3))
    cigar += _LENGTH * random.standard_normal((n_samples, 1)) * _AXIS
    ball[:, 0] += _HALF_GAP
    cigar[:, 0] -= _HALF_GAP
    return np.vstack([ball, cigar]), np.repeat([0, 1], n_samples)
