"""Problems and slow reference solutions shared by the tests."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import sklearn

from fairpca._files import checksum
from fairpca.solvers import FairProblem

NEEDS_SKLEARN_1_9 = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="scikit-learn before 1.9 has no callbacks, and other last digits of the diabetes data",
)


def examples(quick):
    """Numbers of examples for Hypothesis: a few, or three times as many new ones on demand."""
    return 3 * quick if os.environ.get("FAIRPCA_RANDOM") else quick


def run_command(*arguments, **options):
    """Run the command line in this process, as `click.testing.CliRunner.invoke` does.

    Held-out figures take a dozen more fits: tests that look at them ask for --folds 5.
    """
    from click.testing import CliRunner

    from fairpca.cli._app import app

    options.setdefault("default_map", {"fit": {"folds": "0"}, "report": {"folds": "0"}})
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def data_folder():
    """The folder with the paper's data, or skip the test."""
    folder = os.environ.get("FAIRPCA_DATA")
    if not folder:
        pytest.skip("FAIRPCA_DATA is not set: the data sets of the paper are not here")
    return Path(folder)


def standardized_uci(name):
    """Standardised features and protected label of one of the paper's data sets."""
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(data_folder() / "uci" / f"{name}.csv.gz").to_numpy(dtype=float)
    X, z = table[:, :-2], table[:, -1].astype(int)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1.0), z


def problem_from_moments(moments, d, **options):
    """Problem of groups against the rest."""
    covariance, contrasts = moments.pooled().covariance, moments.contrasts()
    return FairProblem.from_contrasts(covariance, contrasts, d, **options)


def problem_from_rows(X, z, n_components, **options):
    """The problem of one binary attribute, straight from the definition."""
    ones, zeros = X[z == 1], X[z == 0]
    mean_gap = ones.mean(axis=0) - zeros.mean(axis=0)
    cov_gap = np.cov(ones.T, bias=True) - np.cov(zeros.T, bias=True)
    return FairProblem(
        np.cov(X.T, bias=True), mean_gap[None], cov_gap[None], n_components, **options
    )


def random_problem(seed, size, n_contrasts, n_components, **options):
    """A random problem whose groups differ in mean and covariance."""
    rng = np.random.default_rng(seed)
    rows = 60 * size
    factors = rng.normal(size=(size, 4)) * np.linspace(1.5, 0.5, 4)
    X = rng.normal(size=(rows, 4)) @ factors.T + rng.normal(size=(rows, size))
    groups = [rng.random(rows) < rng.uniform(0.25, 0.75) for _ in range(n_contrasts)]
    for group in groups:
        X[group] = X[group] * (1.0 + 0.4 * rng.random(size)) + 0.3 * rng.normal(size=size)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    mean_gaps = np.array([X[g].mean(0) - X[~g].mean(0) for g in groups])
    cov_gaps = np.array([np.cov(X[g].T, bias=True) - np.cov(X[~g].T, bias=True) for g in groups])
    return FairProblem(
        np.cov(X.T, bias=True),
        mean_gaps.reshape(-1, size),
        cov_gaps.reshape(-1, size, size),
        n_components,
        **options,
    )


def random_bases(seed, size, n_components, count):
    """Orthonormal bases drawn uniformly."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield np.linalg.qr(rng.normal(size=(size, n_components)))[0]


def sampled_product(rows, columns, every=3):
    """All pairs as parameters, of which one in `every` of each row and each column is quick."""
    return [
        pytest.param(
            row, column, id=f"{name}-{other}", marks=[pytest.mark.slow] if (i + j) % every else []
        )
        for i, (name, row) in enumerate(rows.items())
        for j, (other, column) in enumerate(columns.items())
    ]


def projector(basis):
    """What does not depend on signs or on the order of the components."""
    return basis @ basis.T


def split_rows(X):
    """Two groups read off each row by itself; None where X is no matrix of numbers."""
    try:
        values = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        values = values.astype(float) if values.dtype.kind in "fiuO" else None
    except (TypeError, ValueError):
        values = None
    if values is None or values.ndim != 2 or not np.isfinite(values).all():
        return None  # invalid X: leave it to the estimator to say so
    return np.sin(1e3 * values.sum(axis=1)) > 0.0


def rewrite_npz(path, change):
    """Write a file of ours again after `change(header, arrays)`, with a checksum that fits."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header")))
    del header["checksum"]
    change(header, arrays)
    sealed = {**header, "checksum": checksum(header, arrays)}
    np.savez(path, header=np.array(json.dumps(sealed)), **arrays)


def cell_arrays(cell):
    """Moments of a cell by name."""
    return {name: value for name, value in vars(cell).items() if isinstance(value, np.ndarray)}


class GroupsFromRowsMixin:
    """An estimator on the fair path without being handed groups.

    scikit-learn's checks call fit(X, y). The two groups are read off each row by itself, so that
    removing, repeating or reordering rows does not change them.
    """

    def fit(self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None):
        if sensitive_features is None:
            sensitive_features = split_rows(X)
        return super().fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
        )
