"""Tables in which next to nothing varies, and tables in other units: the same answer, or a word."""

import warnings

import numpy as np
import pytest

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV, SparseFairPCA
from fairpca.exceptions import FairnessWarning, InvalidInputError

N = 40
Z = np.arange(N) % 2
ONE = np.random.default_rng(0).normal(size=(N, 1))
TABLES = {
    "constant": np.ones((N, 3)),
    "zero": np.zeros((N, 3)),
    "a line": ONE @ np.array([[1.0, 1.0, 1.0]]),
    "two points": np.outer(Z, [1.0, 2.0, 3.0]),
    "one column": np.column_stack([ONE, np.ones((N, 2))]),
    "a plane": np.column_stack([ONE, ONE**2, ONE + ONE**2]),
}
MODELS = {
    "fair": lambda: FairPCA(1),
    "limit": lambda: FairPCA(1, cov_tol=0.1),
    "bounded means": lambda: FairPCA(1, mean_tol=0.1, cov_weight=0.0),
    "tight": lambda: FairPCA(1, solver="tight"),
    "paper": lambda: FairPCA(1, solver="paper"),
    "worst variance": lambda: FairPCA(1, objective="worst-variance"),
    "worst loss": lambda: FairPCA(1, objective="worst-loss"),
    "target": lambda: FairPCA(1, target_weight=1.0),
    "scaled": lambda: FairPCA(1, standardize=True),
    "sparse": lambda: SparseFairPCA(1, n_nonzero=2),
    "sparse limit": lambda: SparseFairPCA(1, n_nonzero=2, cov_tol=0.5),
    "sparse means": lambda: SparseFairPCA(1, n_nonzero=2, mean_tol=0.5),
    "kernel": lambda: FairKernelPCA(1),
    "linear kernel": lambda: FairKernelPCA(1, kernel="linear"),
    "adversary": lambda: DeltaFairPCA(1, penalty=1.0, certify=False),
    "cross-validated": lambda: FairPCACV([1], cov_weights=(0.0, 1.0), folds=3),
}
NOTHING = dict.fromkeys(list(MODELS)[:9], 0.0)
REFUSED = dict.fromkeys(["sparse", "sparse limit", "linear kernel", "adversary"], "Infeasible")
EMPTY = NOTHING | REFUSED | {
    "sparse means": "Infeasible", "kernel": "InvalidInput", "linear kernel": "InvalidInput",
    "cross-validated": "InvalidInput",
}  # fmt: skip
# Share of the variance that is kept, in per cent, or the exception.
OUTCOMES = {
    "constant": EMPTY,
    "zero": EMPTY,
    "a line": NOTHING | REFUSED | {
        "bounded means": 1.89, "sparse means": 100.0, "kernel": 30.97, "cross-validated": 0.0,
    },
    "two points": NOTHING | REFUSED | {
        "bounded means": 0.07, "sparse means": "Infeasible", "kernel": "Infeasible",
        "cross-validated": "Groups",
    },
    "one column": NOTHING | REFUSED | {
        "bounded means": 5.66, "sparse means": 100.0, "kernel": 28.56, "cross-validated": 0.0,
    },
    "a plane": dict.fromkeys(MODELS, 66.89) | {
        "limit": 16.85, "bounded means": 67.67, "scaled": 58.12, "sparse": 67.29,
        "sparse limit": 67.29, "sparse means": 67.67, "kernel": 37.02,
    },
}  # fmt: skip


def outcome(table, model):
    """What is kept, or what is said; numbers that are no numbers are refused everywhere."""
    fitted, X = MODELS[model](), TABLES[table]
    given = {"y": ONE[:, 0] if model == "target" else None, "sensitive_features": Z}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        try:
            fitted.fit(X, **given)
        except InvalidInputError as error:
            return type(error).__name__.removesuffix("Error")
    found = fitted.certificate_
    figures = [found.objective, found.bound, found.gap, found.mean_gap, found.cov_gap]
    for values in (figures, fitted.transform(X), fitted.explained_variance_ratio_):
        assert np.isfinite(values).all()
    assert found.objective <= found.bound
    return pytest.approx(100.0 * float(fitted.explained_variance_ratio_.sum()), abs=0.02)


@pytest.mark.parametrize("table", TABLES)
def test_where_next_to_nothing_varies_there_is_a_number_or_a_word(table):
    assert {model: outcome(table, model) for model in MODELS} == OUTCOMES[table]


X = np.random.default_rng(1).normal(size=(N, 6)) @ np.diag([3.0, 2.0, 2.0, 1.0, 1.0, 0.5])
X[:, 0] += Z
OPTIONS = {
    "fair": lambda c: FairPCA(2),
    "limit": lambda c: FairPCA(2, cov_tol=0.5 * c**2),
    "bounded means": lambda c: FairPCA(2, mean_tol=0.1 * c, cov_weight=0.5),
    "deflation": lambda c: FairPCA(2, solver="deflation"),
    "paper": lambda c: FairPCA(2, solver="paper"),
    "loss": lambda c: FairPCA(2, objective="worst-loss", cov_weight=0.0),
    "target": lambda c: FairPCA(2, target_weight=1.0),
    "target and means": lambda c: FairPCA(2, target_weight=1.0, mean_tol=0.05 * c),
    "whitened": lambda c: FairPCA(2, whiten=True),
    "rotated": lambda c: FairPCA(3, rotation="varimax"),
    "sparse": lambda c: SparseFairPCA(2, n_nonzero=3),
    "sparse limit": lambda c: SparseFairPCA(1, n_nonzero=4, cov_tol=0.3),
    "sparse means": lambda c: SparseFairPCA(1, n_nonzero=3, mean_tol=0.2 * c),
    "kernel": lambda c: FairKernelPCA(2, gamma=0.1 / c**2),
    "linear kernel": lambda c: FairKernelPCA(2, kernel="linear"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_units_change_nothing_but_units(name):
    # Powers of two are exact: what changes is a limit that is not in units of the data.
    def figures(c):
        model = OPTIONS[name](c).fit(c * X, y=X[:, 1] + Z, sensitive_features=Z)
        found, unit = model.certificate_, 1.0 if name == "kernel" else c
        scores = model.transform(c * X) / (1.0 if name == "whitened" else unit)
        whitened_gap = isinstance(model, SparseFairPCA) and found.cov_gap
        gaps = np.array([found.objective, found.bound, found.cov_gap - whitened_gap]) / unit**2
        return scores, model.explained_variance_ratio_, gaps, found.mean_gap / unit

    for found, expected in zip(figures(2.0**-30), figures(2.0**25), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


if __name__ == "__main__":
    for table in TABLES:
        print(f'    "{table}": { ({model: outcome(table, model) for model in MODELS})!r},')
