"""A fair fit and a plain one of the same table, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairpca import FairPCA, GroupMoments
from fairpca.cli._columns import Columns
from fairpca.cli._messages import collected_notes
from fairpca.moments import Standardization


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `fairpca fit` reports.

    Parameters
    ----------
    fair, plain : FairPCA
        The fit asked for, and principal components without any constraint.
    scaling : Standardization
        What the features are centred and divided by before the projection.
    n_rows : int
        Rows with a positive weight.
    notes : list of str
        What the library warned of.
    """

    fair: Any
    plain: Any
    scaling: Standardization
    n_rows: int
    notes: list[str]

    def reduce(self, features: Any) -> Any:
        """Project rows on the fair components.

        Parameters
        ----------
        features : pandas.DataFrame
            Features in their own units.

        Returns
        -------
        pandas.DataFrame
            One column for each component.
        """
        rows = (features - self.scaling.mean) / self.scaling.scale
        return pd.DataFrame(
            self.fair.transform(rows),
            columns=self.fair.get_feature_names_out(),
            index=features.index,
        )


def compare(columns: Columns, settings: dict[str, Any], *, standardize: bool) -> Comparison:
    """Fit fair and plain components from the same moments.

    Parameters
    ----------
    columns : Columns
        The table.
    settings : dict
        Parameters of `FairPCA`.
    standardize : bool
        Whether the features get unit variance first.

    Returns
    -------
    Comparison
        Both fits.
    """
    with collected_notes() as notes:
        moments = GroupMoments.from_arrays(
            columns.features,
            columns.sensitive,
            columns.control,
            columns.weight,
            numeric=settings["numeric"] or (),
        )
    return compare_moments(moments, settings, standardize=standardize, notes=notes)


def compare_moments(
    moments: GroupMoments, settings: dict[str, Any], *, standardize: bool, notes: list[str]
) -> Comparison:
    """Fit fair and plain components from moments, wherever the rows are.

    Parameters
    ----------
    moments : GroupMoments
        Of the features in their own units.
    settings : dict
        Parameters of `FairPCA`.
    standardize : bool
        Whether the features get unit variance first.
    notes : list of str
        What the library has warned of so far.

    Returns
    -------
    Comparison
        Both fits.
    """
    with collected_notes() as more:
        scaling = moments.standardization()
        if standardize:
            moments = moments.standardized()
        else:  # FairPCA centres by itself
            p = moments.n_features
            scaling = Standardization(np.zeros(p), np.ones(p))
        fair = FairPCA(**settings).fit_moments(moments)
        # Without constraints the exact solution is plain PCA, with the gaps of the same contrasts.
        free = {**settings, "mean_tol": None, "cov_weight": 0.0, "cov_tol": None}
        plain = FairPCA(**free).fit_moments(moments)
    return Comparison(fair, plain, scaling, moments.n_samples, list(dict.fromkeys(notes + more)))
