"""Figures of small made tables, as they were when they were last looked at: none changes unnoticed.

Oracles say what a figure must be; these say what all of them are, with the options that change
them, to six digits. Where a change is meant, ``python tests/oracle/test_values.py`` writes
`values.json` anew, and its diff shows what has changed.
"""

import json
import warnings
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV, GroupMoments, SparseFairPCA
from fairpca._choices import EFFORTS
from fairpca.estimators._comparison import held_out_summary
from fairpca.metrics import (
    audit,
    cluster_parity_std,
    cov_gap,
    decision_rates,
    delta_bound,
    delta_fairness,
    explained_variance,
    gaussian_bound,
    group_loss,
    mean_gap,
    mmd2,
)
from fairpca.metrics._inference import effort_of
from fairpca.moments import FoldedMoments, gap_statistics
from fairpca.rows import Rows
from fairpca.rows._sampling import draw, draw_units, fold_of, halves, hash_rows

FILE = Path(__file__).with_name("values.json")


def table(n=160, p=7, seed=0):
    """Features of different spreads, three groups, two sites, a number, weights and households."""
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, 3, n), rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + rng.normal(size=(n, p))
    X = X * (1.0 + 0.4 * np.outer(group == 1, np.linspace(1, 0, p))) + 0.5 * rng.normal(
        size=(3, p)
    ).take(group, axis=0)
    X = X.round(3)  # folds follow from the values of rows, to the last digit
    age = rng.normal(size=n) + 0.4 * X[:, 0]
    y = (X[:, 0] - X[:, 1] + rng.normal(size=n) > 0).astype(int)
    names = np.array(["a", "b", "c"])[group]
    units = rng.integers(0, n // 3, n)
    return X, names, site, age, rng.uniform(0.5, 2.0, n), units, y


X, GROUP, SITE, AGE, WEIGHT, UNIT, Y = table()
BOTH = np.column_stack([GROUP.astype(object), np.array(["u", "v"])[SITE]])
MISSING = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
ONE_HOT = np.column_stack([X[:, :3], np.eye(3)[np.digitize(X[:, 3], [-1.0, 0.5])]])
U = X[:, :2]


def numbers(value, depth=0):
    """All numbers of a result in a row; of many only three sums."""
    if value is None or isinstance(value, str | bytes) or callable(value) or depth > 6:
        return []
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part, depth + 1)]
    if is_dataclass(value):
        return numbers({f.name: getattr(value, f.name) for f in fields(value)}, depth)
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        return [number for part in value for number in numbers(part, depth + 1)]
    try:
        array = np.asarray(value, dtype=float).ravel()
    except (TypeError, ValueError):
        return numbers(vars(value), depth + 1) if hasattr(value, "__dict__") else []
    if array.size > 24:
        far = np.cos(np.arange(array.size))
        array = np.array([array.sum(), np.abs(array).sum(), array @ far])
    return array.tolist()


def fitted(model, rows=X, groups=GROUP, names=(), **options):
    """Fit a model: components, variances, gaps, certificate, scores, and further attributes."""
    model.fit(rows, sensitive_features=groups, **options)
    certificate = model.certificate_
    return [
        model.components_ if hasattr(model, "components_") else None,
        model.mean_ if hasattr(model, "mean_") else None,
        model.explained_variance_ratio_,
        model.mean_gap_,
        model.cov_gap_,
        certificate.objective,
        certificate.bound,
        model.transform(rows) if rows is not MISSING or model.missing == "mean" else None,
        *(getattr(model, name) for name in names),
    ]


def forecast(model, rows=X, groups=GROUP, options=(), **how):
    return model.fit(rows, sensitive_features=groups, **dict(options)).expected_gaps(**how)


def held_out(model, rows=X, groups=GROUP, folds=3, **options):
    folded = FoldedMoments.from_arrays(rows, groups, folds=folds, **options)
    return held_out_summary(model, folded)


def by_units(model):
    rows = Rows.read(X, GROUP, units=UNIT)
    return held_out_summary(model, FoldedMoments.from_rows(rows, 3))


def private():
    moments = GroupMoments.privatized(
        X, GROUP, groups=["a", "b", "c"], center=np.zeros(7), scale=np.full(7, 2.0),
        epsilon=2.0, random_state=0,
    )  # fmt: skip
    return moments.pooled(), moments.contrasts().mean_gaps


def sampled():
    rows = Rows.read(X, GROUP, units=UNIT)
    cells = rows.cells()
    return [
        draw(cells, 50, 1),
        draw(cells, 50, 1, balanced=True),
        draw_units(cells, UNIT, 50, 1),
        draw_units(cells, UNIT, 50, 1, balanced=True),
        halves(cells, 2),
        halves(cells, 2, UNIT),
        fold_of(Rows.read(X, GROUP), 5),
        fold_of(rows, 5),
        (hash_rows(X) % 1000).astype(float),
    ]


def decisions(**options):
    score = X[:, 0] - X[:, 2]
    report = decision_rates(
        (score > 0).astype(int), GROUP, label=Y, score=score, min_group=10, **options
    )
    return report.to_dict()


def audited(representation=U, groups=GROUP, **options):
    how = {"effort": "quick", "adversaries": ["linear"], "families": []} | options
    return audit(representation, groups, **how).to_dict()


def statistics(**options):
    moments = GroupMoments.from_arrays(X, BOTH, control_features=options.pop("control", None))
    components = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=GROUP).components_
    return gap_statistics(moments, components, **options)


CASES = {
    "fair": lambda: fitted(FairPCA(2)),
    "penalty": lambda: fitted(FairPCA(2, cov_weight=2.0)),
    "limit": lambda: fitted(FairPCA(2, cov_tol=1.0)),
    "means bounded": lambda: fitted(FairPCA(2, mean_tol=0.2, cov_weight=0.0)),
    "pairs": lambda: fitted(FairPCA(2, compare="pairs")),
    "reference": lambda: fitted(FairPCA(2, compare="reference", reference="b")),
    "joint": lambda: fitted(FairPCA(1, joint=True, cov_weight=0.5), groups=BOTH),
    "two attributes": lambda: fitted(FairPCA(2), groups=BOTH),
    "numeric": lambda: fitted(
        FairPCA(2, numeric=["sensitive_feature_1"]), groups=np.column_stack([BOTH[:, :1], AGE])
    ),
    "strata": lambda: fitted(FairPCA(2), control_features=SITE),
    "weights": lambda: fitted(FairPCA(2), sample_weight=WEIGHT),
    "standardized": lambda: fitted(FairPCA(2, standardize=True), names=["scale_"]),
    "famd": lambda: fitted(FairPCA(2, standardize="famd"), rows=ONE_HOT, names=["scale_"]),
    "imputed": lambda: fitted(FairPCA(2, missing="mean"), rows=MISSING),
    "imputed and scaled": lambda: fitted(
        FairPCA(2, missing="mean", standardize=True), rows=MISSING, names=["scale_"]
    ),
    "rows dropped": lambda: fitted(FairPCA(2, missing="drop-rows"), rows=MISSING),
    "whitened": lambda: fitted(FairPCA(2, whiten=True)),
    "rotated": lambda: fitted(FairPCA(3, rotation="varimax")),
    "wide": lambda: fitted(FairPCA(2), rows=np.column_stack([X[:6], X[6:12], X[12:18]]),
                           groups=[0, 1, 0, 1, 0, 1]),
    "share of variance": lambda: fitted(FairPCA(0.7), names=["n_components_"]),
    "worst variance": lambda: fitted(
        FairPCA(2, objective="worst-variance"), names=["group_variance_"]
    ),
    "worst loss": lambda: fitted(
        FairPCA(2, objective="worst-loss", cov_weight=0.2), names=["group_variance_"]
    ),
    "deflation": lambda: fitted(FairPCA(2, solver="deflation")),
    "target": lambda: fitted(
        FairPCA(2, target_weight=1.0), y=Y, names=["target_kept_", "target_information_"]
    ),
    "numeric target": lambda: fitted(
        FairPCA(2, target_weight=0.5, mean_tol=0.1), y=AGE,
        names=["target_kept_", "target_information_"],
    ),
    "sparse": lambda: fitted(SparseFairPCA(2, n_nonzero=4), names=["balance_", "correlation_"]),
    "sparse limit": lambda: fitted(SparseFairPCA(1, n_nonzero=4, cov_tol=0.2)),
    "sparse means": lambda: fitted(SparseFairPCA(1, n_nonzero=3, mean_tol=0.2)),
    "kernel": lambda: fitted(FairKernelPCA(2)),
    "polynomial kernel": lambda: fitted(FairKernelPCA(2, kernel="poly")),
    "adversary": lambda: fitted(
        DeltaFairPCA(2, penalty=2.0, certify=False), names=["leakage_", "path_"]
    ),
    "cross-validated": lambda: fitted(
        FairPCACV([1, 2], cov_weights=(0.0, 1.0), folds=3), names=["cv_results_", "best_index_"]
    ),
    "limits cross-validated": lambda: fitted(
        FairPCACV(2, cov_tols=(1.0, 3.0), mean_tols=(0.0,), folds=3), names=["cv_results_"]
    ),
    "forecast": lambda: forecast(FairPCA(2), refits=3),
    "forecast of a sample": lambda: forecast(FairPCA(2, cov_weight=2.0), refits=3, n_new=60),
    "forecast without means": lambda: forecast(
        FairPCA(2, mean_tol=None), refits=2, confidence=0.8
    ),
    "forecast of units": lambda: forecast(FairPCA(2), options={"units": UNIT}, refits=2),
    "forecast of strata": lambda: forecast(
        FairPCA(1), options={"control_features": SITE}, refits=2, n_new=100
    ),
    "forecast of wide rows": lambda: forecast(
        FairPCA(1), np.tile(X[:20], 5), GROUP[:20], refits=2
    ),
    "held out": lambda: held_out(FairPCA(2)),
    "held out, pairs": lambda: held_out(FairPCA(1, compare="pairs", cov_weight=1.0)),
    "held out, scaled": lambda: held_out(FairPCA(2, standardize=True), sample_weight=WEIGHT),
    "held out, strata": lambda: held_out(FairPCA(1), control_features=SITE),
    "held out, target": lambda: held_out(FairPCA(2, target_weight=1.0), y=Y),
    "held out, units": lambda: by_units(FairPCA(2)),
    "statistics": lambda: statistics(),
    "statistics of strata": lambda: statistics(control=SITE, joint=True, min_group_size=10),
    "group covariances": lambda: GroupMoments.from_arrays(X, BOTH).group_covariances(joint=True),
    "private": private,
    "sampled": sampled,
    "efforts": lambda: [effort_of(name) for name in EFFORTS],
    "mean gaps": lambda: [
        mean_gap(U, GROUP, compare=how, reference=to, sample_weight=WEIGHT)
        for how, to in (("one-vs-rest", None), ("pairs", None), ("reference", "c"))
    ],
    "covariance gaps": lambda: [
        cov_gap(U, BOTH, compare="pairs", joint=True),
        cov_gap(U, GROUP, control_features=SITE, sample_weight=WEIGHT),
    ],
    "mmd": lambda: [
        mmd2(U, GROUP, unbiased=unbiased, sample_weight=w)
        for unbiased in (True, False) for w in (None, WEIGHT)
    ],
    "bounds": lambda: [
        gaussian_bound(U, GROUP), gaussian_bound(U, GROUP, control_features=SITE),
        gaussian_bound(U, GROUP, sample_weight=WEIGHT, compare="pairs"),
        delta_bound(0.2, (60, 100), 2), delta_bound(0.2, (60, 100), 2, 0.8),
    ],
    "quality": lambda: [
        explained_variance(X, U=U), explained_variance(X, U=U, sample_weight=WEIGHT),
        group_loss(X, GROUP, U=U), group_loss(X, BOTH, U=U, joint=True, sample_weight=WEIGHT),
        cluster_parity_std(Y, GROUP), cluster_parity_std(Y, GROUP, sample_weight=WEIGHT),
    ],
    "half-spaces": lambda: delta_fairness(U, GROUP, n_permutations=8),
    "half-spaces by search": lambda: delta_fairness(
        X[:, :3], GROUP, method="search", compare="pairs", n_permutations=4
    ),
    "support vectors": lambda: delta_fairness(
        X[:, :3], GROUP, method="svm", sample_weight=WEIGHT, n_permutations=4
    ),
    "half-spaces of strata": lambda: delta_fairness(
        U, GROUP, control_features=SITE, n_permutations=4
    ),
    "half-spaces of units": lambda: delta_fairness(U, GROUP, units=UNIT, n_permutations=4),
    "orthants": lambda: delta_fairness(X[:, :3], GROUP, family="cdf", n_permutations=4),
    "Gaussian kernel": lambda: delta_fairness(U, GROUP == "a", family="rbf", n_permutations=2),
    "held-out half-spaces": lambda: delta_fairness(U, GROUP, cross_fit=True),
    "held-out pairs": lambda: delta_fairness(U, GROUP, cross_fit=True, compare="pairs"),
    "held-out units": lambda: delta_fairness(U, GROUP, cross_fit=True, units=UNIT),
    "audit": lambda: audited(families=["linear"]),
    "audit of two": lambda: audited(against=X[:, 2:4]),
    "audit of units and strata": lambda: audited(
        groups=GROUP == "a", units=UNIT, control_features=SITE
    ),
    "audit of weights": lambda: audited(U[:, :1], sample_weight=WEIGHT, compare="pairs"),
    "decisions": lambda: decisions(),
    "decisions of units": lambda: decisions(units=UNIT, sample_weight=WEIGHT, confidence=0.8),
    "decisions of strata": lambda: decisions(control_features=SITE),
}  # fmt: skip


def figures(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return numbers(CASES[name]())


@pytest.mark.parametrize("name", CASES)
def test_figures_are_what_they_were(name):
    values = figures(name)
    then = json.loads(FILE.read_text())[name]
    assert len(values) == len(then)
    np.testing.assert_allclose(values, then, rtol=2e-5, atol=2e-6)


if __name__ == "__main__":
    lines = [
        f"{json.dumps(name)}: {json.dumps([float(f'{v:.7g}') for v in figures(name)])}"
        for name in CASES
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
