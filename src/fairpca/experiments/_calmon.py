"""Optimised preprocessing on a split, with the bound relaxed where it cannot be met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.baselines import CalmonPreprocessor
from fairpca.exceptions import InfeasibleError
from fairpca.experiments._protocol import Split


@dataclass(frozen=True, eq=False)
class CalmonRows:
    """Mapped training rows with their mapped labels, mapped test rows, and the bound used."""

    train: NDArray[np.float64]
    labels: NDArray[Any]
    test: NDArray[np.float64]
    distortion_bound: float


def run_calmon(split: Split, seed: int) -> CalmonRows:
    """Fit with c = 0.1, or the smallest feasible c, and map both parts.

    Training rows are mapped with their labels. Test rows are mapped by features and group, as a
    label is not known when a classifier is used.
    """
    model = CalmonPreprocessor(random_state=seed)
    try:
        model.fit(split.train, split.y_train, sensitive_features=split.z_train)
    except InfeasibleError as error:
        model.set_params(distortion_bound=error.minimum)
        model.fit(split.train, split.y_train, sensitive_features=split.z_train)
    train, labels = model.transform_pairs(
        split.train, split.y_train, sensitive_features=split.z_train
    )
    test = model.transform(split.test, sensitive_features=split.z_test)
    return CalmonRows(train, labels, test, float(model.distortion_bound))
