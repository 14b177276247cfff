"""Other tools and fairpca on the same rows: variance kept, leakage, time.

    python -m venv build/comparison
    build/comparison/bin/pip install . fairlearn 'aif360>=0.6' BlackBoxAuditing concept-erasure
    build/comparison/bin/python benchmarks/comparison.py [--without LFR] [names ...]

The other packages are needed here and nowhere else, so they get an environment of their own
(concept-erasure brings torch, some gigabytes). Tools that are not installed are left out, and said
so. The data set adult is looked for in FAIRPCA_DATA. What keeps all features is reduced by PCA
afterwards, to as many components as the others have. Data sets that are not named keep the rows
that an earlier run left. All figures are of held-out rows:
adversaries and the reconstruction are trained on the fitted ones.
"""

import argparse
import os
import time
import warnings
from importlib.metadata import PackageNotFoundError, version

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas
import results
from frontier import distance, gaussian, mmd_basis, rows_of, top
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fairpca import DeltaFairPCA, FairPCA
from fairpca.datasets import load_diabetes_sex
from fairpca.linalg import complement_basis
from fairpca.metrics import delta_fairness, group_loss

PURE = {"mean_tol": None, "cov_weight": 0.0}


def diabetes():
    diabetes = load_diabetes_sex()
    return halves(diabetes.data, (diabetes.sensitive_features == "sex 2").astype(int)), 2


def spreads(n=4000):
    """Groups that differ in the means of some features and in the spread of others."""
    rng = np.random.default_rng(0)
    z = (rng.random(n) < 0.4).astype(int)
    X = rng.normal(size=(n, 10)) @ (np.eye(10) + 0.3 * rng.normal(size=(10, 10)))
    X *= 1 + np.outer(z, [1.0, 0.6, 0.3, *[0.0] * 7])
    return halves(X + np.outer(z, [0.0, 0.5, 1.0, 0.5, *[0.0] * 6]), z), 3


def halves(X, z):
    train, new, z_train, z_new = train_test_split(X, z, test_size=0.4, stratify=z, random_state=0)
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), z_train, scaler.transform(new), z_new


def adult():
    return rows_of("adult", 0), 5


DATA = {"diabetes": diabetes, "spreads": spreads, "adult": adult}


# Every method takes fitted and held-out rows with their groups, and the number of components, and
# returns the representation of both. `z_new` is used by those that cannot do without.
def fitted(model):
    def run(X, z, new, z_new, d):
        model.set_params(n_components=d).fit(X, sensitive_features=z)
        return model.transform(X), model.transform(new)

    return run


def plain(X, z, new, z_new, d):
    model = PCA(d).fit(X)
    return model.transform(X), model.transform(new)


def paper(X, z, new, z_new, d):
    penalty = 0.01 * np.sqrt(X.size)  # the paper's μ in covariance units
    return fitted(FairPCA(solver="paper", cov_weight=penalty))(X, z, new, z_new, d)


def correlation_remover(X, z, new, z_new, d):
    from fairlearn.preprocessing import CorrelationRemover

    model = CorrelationRemover(sensitive_feature_ids=[0]).fit(np.column_stack([z, X]))
    sides = np.column_stack([z, X]), np.column_stack([z_new, new])
    return plain(model.transform(sides[0]), z, model.transform(sides[1]), z_new, d)


def as_dataset(X, z):
    """AIF360's own table; the label that it must have says which rows lie high in one feature."""
    from aif360.datasets import BinaryLabelDataset

    frame = pandas.DataFrame(X, columns=[f"x{index}" for index in range(X.shape[1])])
    frame = frame.assign(z=z, y=(X[:, 0] > np.median(X[:, 0])).astype(int))
    return BinaryLabelDataset(df=frame, label_names=["y"], protected_attribute_names=["z"])


def disparate_impact_remover(X, z, new, z_new, d):
    from aif360.algorithms.preprocessing import DisparateImpactRemover

    remover = DisparateImpactRemover(1.0, "z")
    train, later = (
        remover.fit_transform(as_dataset(rows, group)).features[:, :-1]
        for rows, group in ((X, z), (new, z_new))
    )
    return plain(train, z, later, z_new, d)


def learned_representation(X, z, new, z_new, d):
    from aif360.algorithms.preprocessing import LFR

    groups = [{"z": 0}], [{"z": 1}]
    model = LFR(*groups, k=5, Ax=0.01, Ay=1.0, Az=50.0, verbose=0, seed=0)
    model.fit(as_dataset(X, z))
    train, later = (
        model.transform(as_dataset(rows, group)).features[:, :-1]
        for rows, group in ((X, z), (new, z_new))
    )
    return plain(train, z, later, z_new, d)


def leace(X, z, new, z_new, d):
    import torch
    from concept_erasure import LeaceEraser

    eraser = LeaceEraser.fit(torch.from_numpy(X), torch.from_numpy(z))
    train, later = (eraser(torch.from_numpy(rows)).numpy() for rows in (X, new))
    return plain(train, z, later, z_new, d)


def mmd_penalty(X, z, new, z_new, d):
    N = complement_basis((X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0))[None], 1e-10)
    basis = top(N.T @ np.cov(X.T, bias=True) @ N, d)
    for penalty in (1.0, 10.0):
        basis = mmd_basis(X @ N, z, basis, penalty)
    return X @ N @ basis, new @ N @ basis


# Name, package (None: formulas written down here), whether transform needs the attribute, code.
METHODS = [
    ("PCA", "scikit-learn", False, plain),
    ("FairPCA, equal means only", "fairpca", False, fitted(FairPCA(cov_weight=0.0))),
    ("FairPCA", "fairpca", False, fitted(FairPCA())),
    ("DeltaFairPCA(delta=0.2)", "fairpca", False, fitted(DeltaFairPCA(delta=0.2))),
    ("paper's program", "fairpca", False, paper),
    ("worst-group fair PCA", "fairpca", False, fitted(FairPCA(objective="worst-loss", **PURE))),
    ("CorrelationRemover, then PCA", "fairlearn", True, correlation_remover),
    ("DisparateImpactRemover, then PCA", "aif360", True, disparate_impact_remover),
    ("LFR, then PCA", "aif360", True, learned_representation),
    ("LEACE, then PCA", "concept-erasure", False, leace),
    ("MMD penalty (as MbF-PCA)", None, False, mmd_penalty),
]


def timed(run, *arguments, repeats=2):
    """Processor seconds of fit and transform, the best of some: the first may import the tool."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        found = run(*arguments)
        best = min(best, time.process_time() - start)
        if best > 20:
            break
    return best, found


def figures(U, V, X, z, new, z_new):
    """Return variance kept, leakage and reconstruction error on held-out rows."""
    scale = np.where(U.std(axis=0) > 1e-9, U.std(axis=0), 1.0)
    U, V = U / scale, V / scale
    # The search looks beyond the means, which logistic regression cannot where they coincide.
    direction = delta_fairness(U, z, method="search").worst.classifier.direction
    again = LinearRegression().fit(U, X).predict(V)
    return {
        "variance": 1 - float(((new - again) ** 2).sum() / ((new - X.mean(axis=0)) ** 2).sum()),
        "linear": distance(V @ direction, z_new),
        "gaussian": gaussian(U, z, V, z_new),
        "loss": max(group_loss(new, z_new, U=V)["loss"]),
    }


def compare(data, without):
    """Measure every tool on one data set; times are those of PCA taken just before."""
    sides, d = DATA[data]()
    rows = []
    for name, package, needs, run in METHODS:
        row = {"data": data, "n": len(sides[0]), "p": sides[0].shape[1], "d": d, "method": name}
        row |= {"package": package and f"{package} {version_of(package)}", "attribute": needs}
        if not (package and version_of(package) is None) and name.split(",")[0] not in without:
            unit, _ = timed(plain, *sides, d, repeats=5)
            seconds, found = timed(run, *sides, d)
            row |= figures(*found, *sides) | {"seconds": seconds, "times": seconds / unit}
        rows.append(row)
        print(row, flush=True)
    return rows


def version_of(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main():
    warnings.filterwarnings("ignore")  # of the tools, about each other
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(DATA))
    parser.add_argument("--without", nargs="*", default=[])
    args = parser.parse_args()
    rows = [row for row in results.load("comparison") if row["data"] not in args.names]
    for name in args.names:
        try:
            rows += compare(name, args.without)
        except FileNotFoundError:
            print(f"{name}: not here")
        results.save("comparison", rows)


if __name__ == "__main__":
    main()
