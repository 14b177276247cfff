"""What DeltaFairPCA says of Δ against what classifiers reach on rows that nobody has seen."""

import warnings

import numpy as np
import pytest

from fairpca import DeltaFairPCA
from fairpca.exceptions import DeltaNotReachedWarning
from fairpca.metrics._cross_fit import CLASSIFIERS, Labelled, largest_delta
from fairpca.rows import Rows


def people(n, random):
    """One-hot columns whose frequencies differ between the groups, and numbers whose spreads do."""
    z, fixed, blocks = np.arange(n) % 2, np.random.default_rng(12), []
    for k in (3, 4, 5):
        shares = [fixed.dirichlet(np.full(k, 3.0)) for _ in range(2)]
        codes = np.where(z, *(random.choice(k, n, p=share) for share in shares))
        blocks.append(np.eye(k)[codes])
    numbers = random.normal(size=(n, 4)) * (1 + np.outer(z, [1.0, 0.6, 0.3, 0.0]))
    return np.hstack([*blocks, numbers]), z


def reached(fair, X, z, new, z_new):
    """Δ on new rows of the family, trained on the rows of the fit."""
    U, V = fair.transform(X), fair.transform(new)
    parts = [
        Labelled(Rows(scores / U.std(axis=0)), np.where(groups, 1, -1).astype(np.int8))
        for scores, groups in ((U, z), (V, z_new))
    ]
    trained = CLASSIFIERS["gaussian-widths"].trainer(0)(parts[0])
    return largest_delta(trained.scores(parts[1].rows.X), parts[1]).value


def promised(seed, n, d, delta):
    random = np.random.default_rng(seed)
    (X, z), (new, z_new) = people(n, random), people(4000, random)
    fair = DeltaFairPCA(d, delta=delta, certify=False, standardize=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaNotReachedWarning)
        fair.fit(X, sensitive_features=z)
    return fair, reached(fair, X, z, new, z_new)


def test_what_is_said_is_near_the_truth(short_path):
    fair, truth = promised(1, 400, 2, 0.3)
    assert fair.delta_verified_
    assert abs(fair.delta_ - truth) <= 2.0 * fair.delta_error_
    assert truth <= 0.33


@pytest.mark.slow
def test_promises_are_kept_on_many_tables():
    fits = [
        (delta, *promised(200 + seed, n, d, delta))
        for seed, (n, d, delta) in enumerate(
            (n, d, delta)
            for n in (500, 1000)
            for d in (2, 5)
            for delta in (0.1, 0.2, 0.3)
            for _ in range(4)
        )
    ]
    error = np.array([fair.delta_ - truth for _, fair, truth in fits])
    inside = [abs(fair.delta_ - truth) <= 2.0 * fair.delta_error_ for _, fair, truth in fits]
    claims = [(delta, truth) for delta, fair, truth in fits if fair.delta_verified_]
    assert error.mean() > -0.01  # not below the truth on average
    assert np.mean(inside) >= 0.85  # 90 % in the long run
    assert len(claims) >= 20
    assert np.mean([truth > delta + 0.03 for delta, truth in claims]) <= 0.1
    assert all(fair.delta >= fair.delta_chance_ for _, fair, _ in fits if fair.delta_verified_)
