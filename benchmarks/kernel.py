"""FairKernelPCA: its speed, and whether it helps against Gaussian-kernel classifiers.

    python benchmarks/kernel.py speed
    python benchmarks/kernel.py question [--splits 1] [names ...]

The question needs the data sets of the paper (FAIRPCA_DATA) and some minutes a split on one core;
data sets that are not named keep the rows that an earlier run left.
"""

import argparse
import os
import resource
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread on both sides of every comparison
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import results
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from fairpca import FairKernelPCA, FairPCA
from fairpca.estimators._fair_kernel_pca import cluster_centres
from fairpca.kernels import all_rows, few_rows
from fairpca.kernels._anchors import row_batches
from fairpca.metrics import delta_fairness
from fairpca.rows import Rows
from reproduction.datasets import load_dataset

NAMES = [
    "adult",
    "biodeg",
    "ecoli",
    "energy",
    "german_credit",
    "image_segmentation",
    "letter_recognition",
    "magic",
    "pima_diabetes",
    "recidivism",
    "skillcraft",
    "statlog_landsat",
    "steel_plates",
    "taiwanese_credit",
    "wine_quality",
]

TRAIN_ROWS, TEST_ROWS = 4000, 400
EXACT_ROWS, LANDMARKS, RANK = 1000, 300, 150
NOTHING = {"mean_tol": None, "cov_weight": 0.0}
MEANS = {"mean_tol": 0.0, "cov_weight": 0.0}
BOTH = {"mean_tol": 0.0, "cov_weight": 1.0}
FAIR = ("FairPCA", "FairKernelPCA")


def two_groups(n_rows, n_features=10, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n_rows)
    return rng.normal(size=(n_rows, n_features)) * (1 + 0.5 * z[:, None]) + 0.5 * z[:, None], z


def timed(function, repeats):
    """CPU seconds, best of some: one thread, so a busy machine does not count."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return best, result


ROWS = []


def exact_speed(repeats=3):
    print("n = 2000, RBF, rank 200, d = 2, CPU seconds of one thread, best of", repeats)
    print(f"{'data':<20}{'KernelPCA(2)':>14}{'KernelPCA(200)':>16}{'FairKernelPCA':>15}"
          f"{'ratios':>14}{'gap %':>8}")  # fmt: skip
    sources = {"two groups": two_groups(2000)}
    for name in ("wine_quality", "letter_recognition", "skillcraft", "steel_plates"):
        try:
            sources[name] = subsample(*standardised(name), 2000)
        except FileNotFoundError:
            print(f"{name}: not here")
    for name, (X, z) in sources.items():
        few, _ = timed(lambda X=X: KernelPCA(2, kernel="rbf", eigen_solver="dense").fit(X), repeats)
        many, _ = timed(
            lambda X=X: KernelPCA(200, kernel="rbf", eigen_solver="dense").fit(X), repeats
        )
        ours, fair = timed(
            lambda X=X, z=z: FairKernelPCA(2, rank=200).fit(X, sensitive_features=z), repeats
        )
        ROWS.append(
            {
                "what": name,
                "fair_kernel_pca": ours,
                "kernel_pca_2": few,
                "kernel_pca_200": many,
                "gap": fair.certificate_.gap,
            }
        )
        print(
            f"{name:<20}{few:>12.2f} s{many:>14.2f} s{ours:>13.2f} s"
            f"{ours / few:>7.2f}{ours / many:>7.2f}{100 * fair.certificate_.gap:>8.2f}"
        )


def landmark_speed(n_rows=200_000, n_landmarks=300):
    X, z = two_groups(n_rows)
    rows, anchors = all_rows(rbf_kernel, Rows(X))
    few, K = few_rows(anchors, rows, n_landmarks, np.random.RandomState(0), cluster_centres)
    values, vectors = np.linalg.eigh(K)
    projection = vectors / np.sqrt(np.maximum(values, 1e-12))

    def features():
        for batch in row_batches(n_rows, n_landmarks):
            few.values(X[batch]) @ projection

    alone, _ = timed(features, 2)
    for rank in (None, 100):
        ours, fair = timed(
            lambda rank=rank: FairKernelPCA(2, n_landmarks=n_landmarks, rank=rank).fit(
                X, sensitive_features=z
            ),
            2,
        )
        ROWS.append(
            {
                "what": f"{n_rows:,} rows, {n_landmarks} landmarks, rank {rank}",
                "fair_kernel_pca": ours,
                "features_alone": alone,
                "gap": fair.certificate_.gap,
            }
        )
        print(
            f"n = {n_rows}, {n_landmarks} landmarks, rank {rank}: features alone {alone:.2f} s, "
            f"fit {ours:.2f} s, ratio {ours / alone:.2f}, gap {100 * fair.certificate_.gap:.2f} %"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process, everything above included: {peak:.0f} MiB")


def standardised(name):
    data = load_dataset(name)
    X, z = data.data.to_numpy(float), data.sensitive_features.to_numpy()[:, 0]
    return StandardScaler().fit_transform(X), z


def subsample(X, z, n_rows, seed=0):
    if len(X) <= n_rows:
        return X, z
    chosen = np.random.default_rng(seed).choice(len(X), n_rows, replace=False)
    return X[chosen], z[chosen]


def split(name, seed=0):
    data = load_dataset(name)
    X, z = data.data.to_numpy(float), data.sensitive_features.to_numpy()[:, 0]
    train, test, z_train, z_test = train_test_split(
        X, z, test_size=0.3, stratify=z, random_state=seed
    )
    scaler = StandardScaler().fit(train)
    train, z_train = subsample(scaler.transform(train), z_train, TRAIN_ROWS)
    test, z_test = subsample(scaler.transform(test), z_test, TEST_ROWS, seed=1)
    return train, z_train, test, z_test


def estimators(d, n_train):
    kernel = {"rank": min(RANK, n_train - 1)}
    if n_train > EXACT_ROWS:
        kernel["n_landmarks"] = LANDMARKS
    models = {
        "PCA": FairPCA(d, **NOTHING),
        "FairPCA": FairPCA(d, **BOTH),
        "KernelPCA": FairKernelPCA(d, **kernel, **NOTHING),
        "FairKernelPCA": FairKernelPCA(d, **kernel, **BOTH),
    }
    if d == 2:
        models["FairPCA, means"] = FairPCA(d, **MEANS)
        models["FairKernelPCA, means"] = FairKernelPCA(d, **kernel, **MEANS)
    return models


def measure(model, train, z_train, test, z_test):
    model.fit(train, sensitive_features=z_train)
    U, V = model.transform(train), model.transform(test)
    scale = np.where(U.std(axis=0) > 1e-12, U.std(axis=0), 1.0)
    row = {"variance": float(model.explained_variance_ratio_.sum()), "gap": model.certificate_.gap}
    for family in ("linear", "rbf"):
        # "search" looks beyond the means, which a linear SVM cannot where they coincide.
        method = "search" if family == "linear" else "svm"
        result = delta_fairness(
            V / scale, z_test, family=family, method=method, cross_fit=True, random_state=0
        )
        row |= {family: result.value, f"{family}_cross": result.pairs[0].held_out.estimate}
    chosen = np.random.default_rng(0).permutation(len(U))[:1000]
    ridge = KernelRidge(kernel="rbf", alpha=0.1, gamma=0.5).fit(U[chosen] / scale, train[chosen])
    row["recovered"] = r2_score(test, ridge.predict(V / scale), multioutput="variance_weighted")
    return row


def question(names, splits):
    """All methods, the two fair ones at two penalties."""
    rows = [row for row in results.load("kernel_question") if row["data"] not in names]
    for seed in range(splits):
        for name in names:
            start, sides = time.perf_counter(), split(name, seed)
            for d in (2, 5):
                for method, model in estimators(d, len(sides[0])).items():
                    for penalty in (1.0, 10.0) if method in FAIR else (None,):
                        if penalty:
                            model.set_params(cov_weight=penalty)
                        place = {"data": name, "d": d, "method": method, "penalty": penalty}
                        rows.append(place | {"split": seed} | measure(model, *sides))
            print(f"{name}, split {seed}: {time.perf_counter() - start:.0f} s", flush=True)
            results.save("kernel_question", rows, command="kernel.py question")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["speed", "question"])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--splits", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.part == "question":
        question(arguments.names, arguments.splits)
        return
    exact_speed()
    landmark_speed()
    results.save("kernel_speed", ROWS, command="kernel.py speed")


if __name__ == "__main__":
    main()
