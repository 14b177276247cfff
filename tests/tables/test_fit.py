"""The fit without scikit-learn, which Spark ML uses, is that of FairPCA."""

import numpy as np
import pytest
from table_support import in_memory, people

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.tables._fit import check_settings, fit_state

CASES = (
    {},
    {"standardize": True, "whiten": True, "cov_weight": 0.0},
    {"standardize": "famd", "mean_tol": 0.1},
    {"cov_tol": 1.0, "compare": "pairs", "certify": False},
    {"objective": "worst-loss", "mean_tol": None, "cov_weight": 0.0},
    {"objective": "worst-variance", "mean_tol": None, "cov_weight": 0.0},
)


@pytest.mark.parametrize("options", CASES)
def test_the_same_model(options):
    moments = in_memory(people(600, mean=3.0), ["sex"], ["city"], "w")
    fair = FairPCA(2, **options).fit_moments(moments)
    found = fit_state(moments, fair.get_params())
    for name in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(found.state[name], getattr(fair, name), atol=1e-9)
    assert set(found.state) == {n for n in vars(fair) if n.endswith("_")} - {"group_variance_"}
    assert found.state["contrasts_"]["mean_gap"] == pytest.approx(fair.contrasts_["mean_gap"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "best"},
        {"objective": "all"},
        {"n_components": 0},
        {"cov_tol": 1.0, "cov_weight": 1.0},
        {"objective": "worst-loss", "solver": "tight"},
    ],
)
def test_settings_that_fair_pca_refuses(wrong):
    with pytest.raises(InvalidInputError):
        check_settings({**FairPCA().get_params(), **wrong})
