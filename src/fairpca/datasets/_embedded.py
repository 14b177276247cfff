"""Data that need no download: scikit-learn's diabetes data, and generated ones."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.utils import Bunch, check_random_state

from fairpca.exceptions import InvalidInputError

# A ball and a cigar that crosses it at an angle: they differ in position and in shape, and the
# difference in shape is visible in most planes in which the means are equal or nearly so.
_HALF_GAP = 1.0
_WIDTH, _LENGTH = 0.7, 2.0
_AXIS = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)


def load_diabetes_sex(*, as_frame: bool = False) -> Bunch:
    """Load scikit-learn's diabetes data with sex as the protected attribute.

    442 patients; age, body mass index, blood pressure and six blood values, in their own units;
    the target is the progression of the disease a year later. The source codes sex as 1 and 2
    and does not say which is which, so the groups are called "sex 1" and "sex 2".

    Parameters
    ----------
    as_frame : bool, default=False
        Whether `data`, `target` and `sensitive_features` are pandas objects.

    Returns
    -------
    sklearn.utils.Bunch
        data : ndarray or DataFrame of shape (442, 9)
            Features.
        target : ndarray or Series of shape (442,)
            Progression of the disease.
        sensitive_features : ndarray of shape (442,) or DataFrame of shape (442, 1)
            "sex 1" or "sex 2".
        feature_names, sensitive_names, target_name, DESCR
            Names of the columns, and a description.

    References
    ----------
    B. Efron, T. Hastie, I. Johnstone and R. Tibshirani (2004). Least angle regression.
    Annals of Statistics 32, 407-499.

    Examples
    --------
    >>> from fairpca.datasets import load_diabetes_sex
    >>> diabetes = load_diabetes_sex()
    >>> diabetes.data.shape, diabetes.feature_names[:3]
    ((442, 9), ['age', 'bmi', 'bp'])
    """
    source = load_diabetes(scaled=False, as_frame=as_frame)
    names = [name for name in source.feature_names if name != "sex"]
    if as_frame:
        data, codes = source.data[names], source.data["sex"]
        sensitive = codes.astype(int).map("sex {}".format).to_frame()
        source.target = source.target.rename("progression")
    else:
        place = source.feature_names.index("sex")
        data = np.delete(source.data, place, axis=1)
        sensitive = np.array([f"sex {int(code)}" for code in source.data[:, place]])
    return Bunch(
        data=data,
        target=source.target,
        sensitive_features=sensitive,
        feature_names=names,
        sensitive_names=["sex"],
        target_name="progression",
        DESCR="scikit-learn's diabetes data (Efron et al. 2004): 442 patients; age, body "
        "mass index, blood pressure and six blood values",
    )


def make_two_gaussians(
    n_samples: int = 1000, *, random_state: int | np.random.RandomState | None = 0
) -> Bunch:
    """Draw points from two different three-dimensional Gaussians.

    The setting of figure 1 of Olfat and Aswani (2019): 1000 points from each of two populations.
    The paper does not print its means and covariances; these are ours.

    Parameters
    ----------
    n_samples : int, default=1000
        Points in each population.
    random_state : int, RandomState or None, default=0
        Seed.

    Returns
    -------
    sklearn.utils.Bunch
        data : ndarray of shape (2 * n_samples, 3)
            Points.
        target : None
            There is nothing to predict.
        sensitive_features : ndarray of shape (2 * n_samples,)
            Population: 0 for the first half, 1 for the second.
        feature_names, sensitive_names, DESCR
            Names of the columns, and a description.

    Examples
    --------
    >>> from fairpca.datasets import make_two_gaussians
    >>> clouds = make_two_gaussians(500)
    >>> clouds.data.shape, int(clouds.sensitive_features.sum())
    ((1000, 3), 500)
    """
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise InvalidInputError(
            f"n_samples must be a whole number of at least 1: {n_samples!r}.",
            parameter="n_samples",
        )
    random = check_random_state(random_state)
    ball = _WIDTH * random.standard_normal((n_samples, 3))
    cigar = _WIDTH * random.standard_normal((n_samples, 3))
    cigar += _LENGTH * random.standard_normal((n_samples, 1)) * _AXIS
    ball[:, 0] += _HALF_GAP
    cigar[:, 0] -= _HALF_GAP
    return Bunch(
        data=np.vstack([ball, cigar]),
        target=None,
        sensitive_features=np.repeat([0, 1], n_samples),
        feature_names=["x", "y", "z"],
        sensitive_names=["population"],
        DESCR=f"two Gaussian clouds of {n_samples} points each, one round and one long",
    )
