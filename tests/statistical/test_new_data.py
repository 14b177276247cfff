"""Statistics of figures about new data: coverage of the bound, errors of held-out gaps."""

import numpy as np
import pytest

from fairpca import FairPCA
from fairpca.estimators._comparison import measure_held_out
from fairpca.moments import FoldedMoments

pytestmark = pytest.mark.slow

WIDE = np.diag(np.r_[6.0, 3.0, np.ones(6)])
TURN = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
OTHER = TURN @ np.diag(np.linspace(0.3, 4.0, 8)) @ TURN.T
FIRST = np.eye(8)[0]
SETTINGS = {
    "equal covariances": (WIDE, WIDE, 0.5 * FIRST, None),
    "gap along the strongest direction": (WIDE, WIDE, 1.5 * FIRST, None),
    "gap far smaller than the strongest direction": (np.diag(np.r_[25.0, np.ones(7)]),) * 2
    + (0.3 * FIRST, None),
    "unequal covariances": (WIDE, OTHER, 0.5 * FIRST, None),
    "no difference": (WIDE, WIDE, 0.0 * FIRST, None),
    "heavy tails": (WIDE, WIDE, 0.5 * FIRST, 5),
}


def sample(setting, n, random):
    """Rows of two groups, three and seven tenths of them."""
    first, second, gap, tails = setting
    z = np.arange(n) % 10 < 3
    X = random.normal(size=(n, len(gap)))
    if tails:
        X *= np.sqrt((tails - 2) / random.chisquare(tails, (n, 1)))
    roots = np.linalg.cholesky(first), np.linalg.cholesky(second)
    return np.where(z[:, None], X @ roots[1].T + gap, X @ roots[0].T), z


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.ExtremeRowsWarning")  # of heavy tails
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("n", [100, 1000])
def test_the_bound_holds_in_95_of_100_samples(name, n):
    random, gap, held = np.random.default_rng(0), SETTINGS[name][2], 0
    for _ in range(1000):
        X, z = sample(SETTINGS[name], n, random)
        fair = FairPCA(2, cov_weight=0.0, certify=False).fit(X, sensitive_features=z)
        true = np.linalg.norm(fair.components_ @ gap)
        held += true <= fair.expected_gaps(refits=0).features.mean_bound
    assert held >= 950


@pytest.mark.parametrize("n", [300, 1000])
def test_noise_taken_off_makes_held_out_gaps_more_exact(n):
    errors = []
    for name in ("equal covariances", "unequal covariances", "gap along the strongest direction"):
        setting = SETTINGS[name]
        whole = [setting[2], setting[1] - setting[0]]
        random = np.random.default_rng(1)
        for d in (2, 5):
            for _ in range(20):
                folded = FoldedMoments.from_arrays(*sample(setting, n, random))
                model = FairPCA(d, certify=False)
                measured = measure_held_out(model, folded)
                V = model.fit_moments(folded.total).components_
                truth = np.linalg.norm(V @ whole[0]), np.linalg.norm(V @ whole[1] @ V.T, ord=2)
                figures = measured.figures()
                for place, name in enumerate(("mean_gap", "cov_gap")):
                    raw = np.mean([getattr(one, name) for one in measured.statistics])
                    errors.append((place, raw - truth[place], figures[name].value - truth[place]))
    table = np.array(errors)
    for place in (0, 1):
        raw, corrected = np.sqrt(np.mean(table[table[:, 0] == place, 1:] ** 2, axis=0))
        assert corrected < (0.7, 0.6)[place] * raw
