"""What every display shares, and the plain components that fair ones are shown beside."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from fairpca.estimators import FairKernelPCA, FairPCA
from fairpca.rows import encode_groups


class Display:
    """Data of a picture, drawn by `plot`."""

    ax_: Any
    figure_: Any

    def _drawn(self, ax: Any) -> Any:
        """Keep where the picture is, and return the display."""
        self.ax_, self.figure_ = ax, ax.figure
        return self


def plain_model(
    estimator: Any, X: Any = None, sensitive_features: Any = None, moments: Any = None
) -> Any:
    """Plain components beside fair ones: from moments, those kept or rows; None without."""
    d = len(estimator.components_)
    options = {"whiten": estimator.whiten, "missing_groups": "ignore", "certify": False}
    scaling = getattr(estimator, "standardize", False)
    plain: Any = FairPCA(d, mean_tol=None, cov_weight=0.0, standardize=scaling, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about groups; the fair fit has said it already
        moments = getattr(estimator, "moments_", None) if moments is None else moments
        if moments is not None:
            plain = plain.fit_moments(moments)
            if not hasattr(estimator, "feature_names_in_") and hasattr(plain, "feature_names_in_"):
                del plain.feature_names_in_
            return plain
        if X is None:
            return None
        if isinstance(estimator, FairKernelPCA):
            free = {"mean_tol": None, "cov_weight": 0.0, "cov_tol": None}
            plain = clone(estimator).set_params(**free, **options)
        return plain.fit(X, sensitive_features=sensitive_features)


def name_groups(sensitive_features: Any, n_rows: int) -> tuple[tuple[str, ...], Any]:
    """Names of the groups that occur, intersections of several columns, and a code for each row."""
    groups = encode_groups(sensitive_features, n_rows=n_rows)
    columns: list[tuple[list[str], Any]] = []
    for name in groups.names:
        for attribute in groups.categorical:
            if attribute.name == name:
                columns.append(([str(level) for level in attribute.levels], attribute.codes))
        for number in groups.numeric:
            if number.name == name:
                middle = float(np.median(number.values))
                halves = [f"{name} ≤ {middle:.4g}", f"{name} > {middle:.4g}"]
                columns.append((halves, (number.values > middle).astype(np.intp)))
    codes = np.zeros(n_rows, dtype=np.intp)
    names = [""]
    for levels, mine in columns:
        codes = codes * len(levels) + mine
        names = [f"{a} × {b}" if a else b for a in names for b in levels]
    found, codes = np.unique(codes, return_inverse=True)
    return tuple(names[code] for code in found), codes
