"""A target in the objective: what it brings for predicting y, what it costs, and other ways.

    python benchmarks/target.py measure    benchmarks/results/target.json and .csv; 20 minutes
    python benchmarks/target.py compare    benchmarks/results/target_compare.json; 20 minutes
    python benchmarks/target.py time       benchmarks/results/target_time.json; 1 minute

FAIRPCA_DATA names the folder with the data. The sets are those of the paper that have a label of
their own, some by the definition that fits what the paper prints. Of each at most 3,000 rows are
drawn; two thirds are fitted, the others measured. `compare` needs fairlearn; LEACE is its closed
form (Belrose et al., 2023), so that PyTorch is not needed.
"""

import sys
import time
import warnings

import numpy as np
import results
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fairpca import FairPCA
from reproduction.datasets import load_dataset

SETS = {
    **dict.fromkeys(("adult", "german_credit", "pima_diabetes", "recidivism"), "released"),
    **dict.fromkeys(("taiwanese_credit", "wine_quality"), "released"),
    **dict.fromkeys(("biodeg", "letter_recognition", "magic", "skillcraft"), "printed"),
    **dict.fromkeys(("statlog_landsat", "steel_plates"), "printed"),
}
FORMS = {"means": {"cov_weight": 0.0}, "covariances": {"cov_weight": 10.0}}
WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
MOST_ROWS, SVM_ROWS = 3000, 1000
SPLITS = 5


def load(name, split):
    """Standardised rows, y and group, for fitting and for measuring."""
    data = load_dataset(name, SETS[name])
    X, y = data.data.to_numpy(float), data.target.to_numpy()
    z = data.sensitive_features.to_numpy()[:, 0]
    y, z = (y == np.unique(y)[-1]).astype(int), (z == np.unique(z)[-1]).astype(int)
    cell = 2 * y + z
    if len(X) > MOST_ROWS:
        kept = train_test_split(
            np.arange(len(X)), train_size=MOST_ROWS, stratify=cell, random_state=split
        )[0]
        X, y, z, cell = X[kept], y[kept], z[kept], cell[kept]
    rows = np.arange(len(X))
    train, test = train_test_split(rows, test_size=1 / 3, stratify=cell, random_state=split)
    scaler = StandardScaler().fit(X[train])
    return tuple((scaler.transform(X[part]), y[part], z[part]) for part in (train, test))


def separation(score, z):
    """Largest difference in selection rates over all thresholds (Kolmogorov-Smirnov)."""
    low, high, _ = roc_curve(z, score)
    return float(np.abs(high - low).max())


def differences(decision, y, z):
    """Demographic parity and equalised odds differences of decisions."""
    rates = [decision[z == group].mean() for group in (0, 1)]
    odds = [
        abs(decision[(z == 0) & (y == label)].mean() - decision[(z == 1) & (y == label)].mean())
        for label in (0, 1)
    ]
    return {"parity": abs(rates[1] - rates[0]), "odds": max(odds)}


def measure_scores(U, train, V, test):
    """Figures of components U of the fitted rows and V of the others."""
    (_, y, z), (_, y_test, z_test) = train, test
    scale = U.std(axis=0)
    scale[scale == 0] = 1.0
    U, V = U / scale, V / scale
    logistic = LogisticRegression(max_iter=1000).fit(U, y)
    trees = {"max_iter": 30, "max_leaf_nodes": 15, "random_state": 0}
    probability = logistic.predict_proba(V)[:, 1]
    svm = SVC(gamma="scale", class_weight="balanced").fit(U[:SVM_ROWS], z[:SVM_ROWS])
    of_y = HistGradientBoostingClassifier(**trees).fit(U, y).predict_proba(V)[:, 1]
    of_z = HistGradientBoostingClassifier(**trees).fit(U, z).predict_proba(V)[:, 1]
    return {
        "auc": roc_auc_score(y_test, probability),
        "auc_trees": roc_auc_score(y_test, of_y),
        "accuracy": float(((probability > 0.5) == y_test).mean()),
        **differences(probability > 0.5, y_test, z_test),
        "leakage_svm": separation(svm.decision_function(V), z_test),
        "leakage_trees": separation(of_z, z_test),
    }


def share(V, X):
    """Share of the variance of rows that an orthonormal basis keeps."""
    return float(np.var(X @ V, axis=0).sum() / np.var(X, axis=0).sum())


def fit(train, d, weight, *, certify=False, **form):
    X, y, z = train
    model = FairPCA(d, target_weight=weight, certify=certify, **form)
    return model.fit(X, y, sensitive_features=z)


def measure():
    rows, falls = [], 0
    for name in SETS:
        for split in range(SPLITS):
            train, test = load(name, split)
            for form, options in FORMS.items():
                for d in (2, 3, 5):
                    if d >= train[0].shape[1]:
                        continue
                    for weight in (0.0, 1.0):
                        fair = fit(train, d, weight, **options)
                        figures = measure_scores(
                            fair.transform(train[0]), train, fair.transform(test[0]), test
                        )
                        about = {"set": name, "split": split, "form": form, "d": d}
                        kept = share(fair.components_.T, test[0])
                        rows.append({**about, "weight": weight, "variance": kept, **figures})
                    if split == 0 and d == 3:
                        kept = [fit(train, d, w, **options).target_kept_ for w in WEIGHTS]
                        fall = float(-np.minimum(np.diff(kept), 0.0).min())
                        falls = max(falls, fall)
        print(name, flush=True)
        facts = {"largest_fall_of_kept": falls, "weights": WEIGHTS, "command": "target.py measure"}
        results.save("target", rows, as_csv=True, **facts)
    summarise(rows)


def summarise(rows):
    """Mean changes over sets, and how many sets rise or fall by two standard errors."""
    table = []
    for form in FORMS:
        for d in (2, 3, 5):
            line = {"form": form, "d": d}
            for figure in ("auc", "auc_trees", "variance", "parity", "leakage_svm",
                           "leakage_trees"):  # fmt: skip
                changes, up, down = [], 0, 0
                for name in SETS:
                    some = [r for r in rows if (r["set"], r["form"], r["d"]) == (name, form, d)]
                    if not some:
                        continue
                    values = {r["split"]: 0.0 for r in some}
                    for r in some:
                        values[r["split"]] += r[figure] * (1 if r["weight"] else -1)
                    change = np.array(list(values.values()))
                    error = change.std(ddof=1) / np.sqrt(len(change))
                    changes.append(change.mean())
                    up += bool(change.mean() > 2 * error)
                    down += bool(change.mean() < -2 * error)
                line |= {figure: float(np.mean(changes)), f"{figure}_up": up,
                         f"{figure}_down": down}  # fmt: skip
            table.append(line)
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()})
    results.save("target_changes", table, command="target.py measure")


def equal_means(train):
    """Basis of the directions in which the groups have equal means."""
    X, _, z = train
    gap = X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0)
    return np.linalg.svd(gap[None])[2][1:].T


def leace(train):
    """Map that leaves no linear predictor of z, closest to the rows: x − W⁺PW(x − μ)."""
    X, _, z = train
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    kept = values > 1e-10 * values[-1]
    root = np.sqrt(values[kept])
    W, back = (vectors[:, kept] / root).T, vectors[:, kept] * root
    u = W @ ((X - X.mean(axis=0)).T @ (z - z.mean())) / len(X)
    u /= np.linalg.norm(u)
    mean = X.mean(axis=0)
    return lambda rows: rows - np.outer((rows - mean) @ W.T @ u, back @ u)


def representations(train, d):
    """What each method makes of rows and groups."""
    X, y, z = train
    N, erase = equal_means(train), leace(train)
    fits = {
        "PCA": PCA(d).fit(X).transform,
        "PLS": PLSRegression(d).fit(X, y).transform,
        "mean projection + PLS": _after(lambda rows: rows @ N, PLSRegression(d), X, y),
        "LEACE + PCA": _after(erase, PCA(d), X, y),
        "FairPCA, means": fit(train, d, 0.0, cov_weight=0.0).transform,
        "FairPCA, means, target": fit(train, d, 1.0, cov_weight=0.0).transform,
        "FairPCA, cov_weight 10": fit(train, d, 0.0, cov_weight=10.0).transform,
        "FairPCA, cov_weight 10, target": fit(train, d, 1.0, cov_weight=10.0).transform,
    }
    made = {name: (lambda rows, z, f=f: f(rows)) for name, f in fits.items()}
    from fairlearn.preprocessing import CorrelationRemover

    remover = CorrelationRemover(sensitive_feature_ids=[X.shape[1]]).fit(np.column_stack([X, z]))
    pls = PLSRegression(d).fit(remover.transform(np.column_stack([X, z])), y)
    made["CorrelationRemover + PLS (uses z)"] = lambda rows, z: pls.transform(
        remover.transform(np.column_stack([rows, z]))
    )
    return made


def _after(first, second, X, y):
    second.fit(first(X), y)
    return lambda rows: second.transform(first(rows))


def reduced(U, train, V, test):
    """Accuracy and differences of ExponentiatedGradient with a logistic model."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    model = ExponentiatedGradient(
        LogisticRegression(max_iter=300), DemographicParity(difference_bound=0.01), max_iter=20
    )
    model.fit(U, train[1], sensitive_features=train[2])
    decision = model.predict(V, random_state=0)
    accuracy = float((decision == test[1]).mean())
    return {"accuracy": accuracy, **differences(decision == 1, test[1], test[2])}


def compare(d=3, splits=SPLITS):
    rows = []
    for name in SETS:
        for split in range(splits):
            train, test = load(name, split)
            about = {"set": name, "split": split}
            for method, transform in representations(train, d).items():
                U, V = transform(train[0], train[2]), transform(test[0], test[2])
                figures = measure_scores(U, train, V, test)
                rows.append({**about, "method": method, **figures})
                if method == "FairPCA, means, target":
                    figures = reduced(U, train, V, test)
                    rows.append({**about, "method": "ExponentiatedGradient on these", **figures})
            figures = reduced(train[0], train, test[0], test)
            rows.append({**about, "method": "ExponentiatedGradient on all", **figures})
        print(name, flush=True)
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        some = [row for row in rows if row["method"] == method]
        figures = {k: float(np.mean([r[k] for r in some])) for k in list(some[0])[3:]}
        table.append({"method": method, **figures})
        print(method, {k: round(v, 3) for k, v in figures.items()})
    results.save("target_compare_sets", rows, as_csv=True, command="target.py compare")
    results.save("target_compare", table, command="target.py compare")


def made(n, p=20):
    """Rows of two groups with a label: many of them, so that the pass over rows is the fit."""
    random = np.random.default_rng(0)
    z = random.integers(0, 2, n)
    X = random.normal(size=(n, p)) + np.outer(z, random.normal(size=p))
    return X, (X[:, -1] + random.normal(size=n) > 0).astype(int), z


def measure_time():
    """Processor time of fits with certificate, with and without target, side by side."""
    tables = {name: load(name, 0)[0] for name in SETS}
    tables |= {f"made, {n:,} rows": made(n) for n in (100_000, 1_000_000)}
    forms = {"default": {}, "means": FORMS["means"]}
    rows = []
    for name, train in tables.items():
        for form, options in forms.items():
            times = {0.0: [], 1.0: []}
            repeats = 3 if name not in SETS else 5 if form == "default" else 50  # of 3 milliseconds
            for _ in range(repeats):
                for weight, taken in times.items():
                    start = time.process_time()
                    fit(train, 3, weight, certify=True, **options)
                    taken.append(time.process_time() - start)
            without, with_target = (float(np.median(taken)) for taken in times.values())
            ratio = with_target / without
            rows.append({"set": name, "form": form, "without": without, "with": with_target,
                         "ratio": ratio})  # fmt: skip
            print(rows[-1], flush=True)
    medians = {
        form: float(np.median([row["ratio"] for row in rows if row["form"] == form]))
        for form in forms
    }
    print(medians)
    results.save("target_time", rows, median_ratio=medians, command="target.py time")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        {"measure": measure, "compare": compare, "time": measure_time}[sys.argv[1]]()
