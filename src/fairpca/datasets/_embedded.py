"""Real data that need no download: they come with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes


@dataclass(frozen=True, eq=False)
class EmbeddedData:
    """A small real data set with a protected attribute.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Features in their own units.
    feature_names : tuple of str
        Names of the columns of `X`.
    sensitive : ndarray of shape (n_rows,)
        The protected attribute.
    sensitive_name : str
        Its name.
    target : ndarray of shape (n_rows,)
        What one would predict.
    target_name : str
        Its name.
    description : str
        What the data are and where they come from, in one line.
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

    Returns
    -------
    EmbeddedData
        The data.

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
