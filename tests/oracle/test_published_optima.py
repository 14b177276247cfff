"""Optima that Tantipongpipat et al. (2019) published for three groups of the credit data.

Their repository has them for every number of components, as found by a general semidefinite solver.
"""

import pandas as pd
import pytest
from support import data_folder

from fairpca import FairPCA, GroupMoments

COMPONENTS = (1, 2, 3, 5, 7, 10, 15, 20)
PUBLISHED = {
    "worst-loss": (
        *(-0.208150, -0.190860, -0.371188, -0.509394),
        *(-0.477941, -0.382185, -0.190053, -0.032904),
    ),
    "worst-variance": (
        *(5.200714, 9.044591, 10.572627, 13.065327),
        *(14.728309, 16.460707, 18.291059, 18.923477),
    ),
}


@pytest.fixture(scope="module")
def credit():
    """Moments of their columns: the six months of a quantity are divided by one number."""
    table = pd.read_csv(data_folder() / "raw" / "credit_card_clients.csv.gz")
    X = table.drop(columns=table.columns[-1]).astype(float)
    blocks = [[f"{name}_AMT{month}" for month in range(1, 7)] for name in ("BILL", "PAY")]
    blocks.append([f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)])
    blocks += [[name] for name in X if not any(name in block for block in blocks)]
    for block in blocks:
        X[block] /= X[block].to_numpy().std(ddof=1)
    school = table["EDUCATION"].map({0: "higher", 1: "higher", 2: "higher", 3: "high school"})
    return GroupMoments.from_arrays(X, school.fillna("others"))


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.GroupFeatureWarning")  # as published
@pytest.mark.parametrize("objective", PUBLISHED)
def test_optima_agree_to_six_digits(credit, objective):
    for d, published in zip(COMPONENTS, PUBLISHED[objective], strict=True):
        pure = {"mean_tol": None, "cov_weight": 0.0, "min_group_size": 2}
        fair = FairPCA(d, objective=objective, tol=1e-7, **pure).fit_moments(credit)
        name, sign = ("loss", -1) if objective == "worst-loss" else ("variance", 1)
        reached = min(sign * value for value in fair.group_variance_[name])
        assert reached == pytest.approx(published, abs=2e-6)
        assert fair.certificate_.bound == pytest.approx(published, abs=2e-6)
