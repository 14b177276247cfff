"""New data: errors of held-out gaps, coverage of the bound, and what small groups cost.

    python benchmarks/newdata.py held-out    benchmarks/results/newdata_held_out.json; 10 minutes
    python benchmarks/newdata.py coverage    benchmarks/results/newdata_coverage.json; 2 minutes
    python benchmarks/newdata.py small       benchmarks/results/newdata_small.json; 5 minutes
    python benchmarks/newdata.py small wine_quality adult    those sets only; the others stay

FAIRPCA_DATA names the folder with the data. Small parts of large tables are fitted, so that the
truth is known: the gaps of the components in the whole table. The rules were chosen on the sets
marked "choice", and are reported on the others.
"""

import sys
import warnings

import numpy as np
import results
from scipy.stats import f as f_distribution

from fairpca import FairPCA, GroupMoments
from fairpca.estimators._comparison import ROUNDS, plain_of
from fairpca.exceptions import FairnessWarning, InvalidInputError
from fairpca.moments import FoldedMoments, gap_statistics
from fairpca.moments._form_contrasts import mean_test
from fairpca.moments._held_out import align_components, measure_fold, summarise_cov, summarise_mean
from fairpca.moments.folds import sum_moments
from reproduction.datasets import UCI, load_dataset

LARGE = {
    "choice": ("letter_recognition", "magic", "wine_quality", "skillcraft"),
    "report": ("adult", "taiwanese_credit", "recidivism", "made"),
}
CHOSEN_ON = ("adult", "ecoli", "german_credit", "letter_recognition", "pima_diabetes")
CHOSEN_ON += ("skillcraft", "steel_plates", "wine_quality")
SHARES = (0.005, 0.02, 0.05)
OPTIONS = ("one-vs-rest", False, None)


def load(name):
    """Standardised rows and a binary group."""
    if name == "made":
        return made(100_000, np.random.default_rng(9))
    data = load_dataset(name)
    X, z = data.data.to_numpy(float), data.sensitive_features.to_numpy()[:, 0]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return X, (z == np.unique(z)[-1]).astype(int)


def made(n, random):
    """Normal rows of two groups that differ in means and covariances."""
    z = (random.random(n) < 0.35).astype(int)
    scale = np.linspace(2.0, 0.5, 10)
    X = random.normal(size=(n, 10)) * np.where(
        z[:, None], scale, scale[[1, 0, 3, 2, *range(4, 10)]]
    )
    return X + np.outer(z, [1.0, 0.0, 0.5, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0]), z


def scalings(components, covariance):
    """Components in the units of the features, and in component deviations."""
    values, vectors = np.linalg.eigh(components @ covariance @ components.T)
    root = (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))) @ vectors.T
    return {"features": components, "deviations": root @ components}


def held_out_errors(model, folded, whole):
    """Errors of the raw and the corrected figure, by unit."""
    everything = whole.pooled().covariance
    fitted = model.fit_moments(folded.total)
    truth = {
        unit: gap_statistics(whole, directions)
        for unit, directions in scalings(fitted.components_, everything).items()
    }
    [label] = whole.contrasts().labels
    raw, folds = {unit: [] for unit in truth}, {unit: [] for unit in truth}
    reference = None
    for split in folded.repeated_splits(ROUNDS):
        train, halves, again = split.train(), split.halves, split.round > 0
        components = fitted.fit_moments(train).components_
        reference = components if reference is None else reference
        aligned = align_components(components, reference)
        for unit, directions in scalings(aligned, train.pooled().covariance).items():
            if not again:  # five folds, as they are without a correction
                raw[unit].append(gap_statistics(sum_moments(halves), directions))
            how = {"again": again, "places": split.places}
            folds[unit].append(measure_fold(halves, directions, OPTIONS, {label}, **how))
    errors = {}
    for unit, true in truth.items():
        corrected = (summarise_mean(folds[unit]), summarise_cov(folds[unit], {label}))
        for name, new in zip(("mean_gap", "cov_gap"), corrected, strict=True):
            old = np.mean([getattr(one, name) for one in raw[unit]])
            value = getattr(true, name)
            errors[unit, name] = (old - value, new.value - value, value)
    return errors


def held_out(reps=10):
    """Table of root mean square errors, raw and corrected."""
    rows, kept = [], {}
    for part, names in LARGE.items():
        for name in names:
            X, z = load(name)
            whole, random = GroupMoments.from_arrays(X, z), np.random.default_rng(len(name))
            for d, n in ((2, 300), (2, 1000), (5, 300), (5, 1000)):
                measured = []
                while len(measured) < reps:
                    chosen = random.choice(len(X), n, replace=False)
                    folded = FoldedMoments.from_arrays(X[chosen], z[chosen])
                    try:
                        model = FairPCA(d, certify=False)
                        measured.append(held_out_errors(model, folded, whole))
                    except (InvalidInputError, KeyError, TypeError):
                        continue  # a fold of one group
                rows += [
                    _errors(measured, key, {"part": part, "set": name, "d": d, "n": n})
                    for key in measured[0]
                ]
                kept.setdefault((part, n), []).extend(measured)
            _print(rows[-16:])
    totals = [
        _errors(measured, key, {"part": part, "set": "all", "d": "2, 5", "n": n})
        for (part, n), measured in kept.items()
        for key in measured[0]
    ]
    _print(totals)
    results.save("newdata_held_out", totals, command="newdata.py held-out")


def _errors(measured, key, row):
    errors = np.array([one[key] for one in measured])
    raw, corrected = np.sqrt(np.mean(errors[:, :2] ** 2, axis=0))
    figures = {"truth": errors[:, 2].mean(), "raw": raw, "corrected": corrected}
    figures |= {"ratio": corrected / raw, "bias": errors[:, 1].mean()}
    return row | {"unit": key[0], "gap": key[1]} | {k: round(v, 4) for k, v in figures.items()}


def settings(random):
    """Populations for the bound: a covariance of each group, a mean gap, and tails."""
    p = 8
    wide = np.diag(np.r_[6.0, 3.0, np.ones(p - 2)])
    turned = np.linalg.qr(random.normal(size=(p, p)))[0]
    other = turned @ np.diag(np.linspace(0.3, 4.0, p)) @ turned.T
    gap = np.eye(p)[0]
    return {
        "equal covariances": (wide, wide, 0.5 * gap, None),
        "gap along the strongest direction": (wide * 1.0, wide, 1.5 * gap, None),
        "unequal covariances": (wide, other, 0.5 * gap, None),
        "no difference": (wide, wide, 0.0 * gap, None),
        "tails of t with 5 degrees": (wide, wide, 0.5 * gap, 5),
    }


def coverage_of(setting, n, reps, seed=0, d=2):
    """Share of samples in which the bound holds, the expected gap and the true one on average."""
    first, second, gap, tails = setting
    random, roots = np.random.default_rng(seed), [np.linalg.cholesky(s) for s in (first, second)]
    z = np.arange(n) % 10 < 3
    figures = []
    for _ in range(reps):
        X = random.normal(size=(n, len(gap)))
        if tails:
            X *= np.sqrt((tails - 2) / random.chisquare(tails, (n, 1)))
        X = np.where(z[:, None], X @ roots[1].T + gap, X @ roots[0].T)
        model = FairPCA(d, cov_weight=0.0, certify=False).fit(X, sensitive_features=z)
        forecast = model.expected_gaps(refits=0).features
        true = float(np.linalg.norm(model.components_ @ gap))
        figures.append((true <= forecast.mean_bound, forecast.mean_gap, true, forecast.mean_bound))
    return np.mean(figures, axis=0)


def coverage(reps=1000):
    """Table of the coverage of the bound."""
    rows = []
    for name, setting in settings(np.random.default_rng(0)).items():
        for n in (100, 1000):
            covered, expected, true, bound = coverage_of(setting, n, reps)
            row = {"setting": name, "n": n, "coverage": covered, "expected": round(expected, 4)}
            rows.append(row | {"true": round(true, 4), "bound": round(bound, 4)})
            _print(rows[-1:])
    results.save("newdata_coverage", rows, command="newdata.py coverage")


def small(*names, reps=2000):
    """Table of the variance that a group of random rows costs, and of real groups that are kept."""
    names = names or UCI
    rows = [row for row in results.load("newdata_small") if row["set"] not in names]
    for name in names:
        X, z = load(name)
        random = np.random.default_rng(len(name))
        part = "choice" if name in CHOSEN_ON else "report"
        row = {"part": part, "set": name, "n": len(X), "p": X.shape[1]}
        for share in SHARES:
            size = max(round(share * len(X)), 2)
            alone = random_costs(X, size, reps if size < 500 else reps // 4)
            old = cost(X, _random_group(len(X), size, random), 2)
            level = [added_level(X, z, size, random) for _ in range(2)]
            real = [_is_real(X, z, share, random) for _ in range(10)]
            figures = {"rows": size, "d2": alone[0], "d5": alone[1]}
            figures |= dict(zip(("level_d2", "level_d5"), np.mean(level, axis=0), strict=True))
            detected, controlled = np.mean(real, axis=0)
            figures |= {"d2_all": old[0], "d5_all": old[1]}
            figures |= {"real_detected": detected, "real_controlled": controlled}
            rows.append(
                row | {"share": share} | {k: round(float(v), 3) for k, v in figures.items()}
            )
            _print(rows[-1:])
    rows.sort(key=lambda row: (row["set"], row["share"]))
    results.save("newdata_small", rows, command="newdata.py small")


def random_costs(X, size, reps):
    """Average points that groups of random rows cost, next to all other rows.

    A group that a test at 6 % does not find is not compared and costs nothing; the others are
    fitted.
    """
    n, random = len(X), np.random.default_rng((len(X), size))
    centred = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / n)
    kept = values > 1e-9 * values[-1]
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    rank, total = int(kept.sum()), np.zeros(2)
    for _ in range(reps):
        rows = random.choice(n, size, replace=False, shuffle=False)
        between = size / (n - size) * np.sum((centred[rows].mean(axis=0) @ whitening) ** 2)
        ratio = between / max(1.0 - between, 1e-9) * (n - 1 - rank) / rank
        if f_distribution.sf(ratio, rank, n - 1 - rank) < 0.06:
            total += cost(X, np.isin(np.arange(n), rows).astype(int), None)
    return total / reps


def cost(X, group, min_group_size):
    """Points of variance that a group costs, with 2 and with 5 components."""
    moments = GroupMoments.from_arrays(X, group)
    if moments.contrasts(min_group_size=min_group_size)[0].mean_gap is None:
        return [0.0, 0.0]  # plain PCA
    costs = []
    for d in (2, 5):
        model = FairPCA(d, certify=False, min_group_size=min_group_size).fit_moments(moments)
        plain = plain_of(model).fit_moments(moments)
        costs.append(
            100 * (plain.explained_variance_ratio_ - model.explained_variance_ratio_).sum()
        )
    return costs


def added_level(X, z, size, random):
    """Points that random rows cost as one more level of a real attribute, for d = 2 and 5.

    Next to a fit without these rows: groups that are exactly alike are not, without some rows.
    """
    group = np.where(_random_group(len(X), size, random), 2, z)
    inside, costs = group < 2, []
    for d in (2, 5):
        model = FairPCA(d, certify=False)
        kept = [
            model.fit(X[rows], sensitive_features=group[rows]).explained_variance_ratio_.sum()
            for rows in (inside, slice(None))
        ]
        costs.append(100 * (kept[0] - kept[1]))
    return costs


def _random_group(n, size, random):
    group = np.zeros(n, dtype=int)
    group[random.choice(n, size, replace=False)] = 1
    return group


def _is_real(X, z, share, random):
    """Whether a test at 5 % finds a part of a real group, and whether its means are compared."""
    other = np.flatnonzero(z == 0)
    size = min(max(round(share * len(other)), 2), int(z.sum()))
    rows = np.r_[other, random.choice(np.flatnonzero(z == 1), size, replace=False)]
    [contrast] = GroupMoments.from_arrays(X[rows], z[rows]).contrasts()
    return mean_test(*contrast.sides)[0] < 0.05, contrast.mean_gap is not None


def _print(rows):
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", FairnessWarning)
    {"held-out": held_out, "coverage": coverage, "small": small}[sys.argv[1]](*sys.argv[2:])
