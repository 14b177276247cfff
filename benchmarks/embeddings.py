"""An attribute removed from embeddings: time, memory and what is left, next to LEACE.

    python benchmarks/embeddings.py      benchmarks/results/embeddings.json; five minutes

Made embeddings in single precision: 20,000 fitted rows of 768 columns and 5,000 held-out ones,
with a spectrum that falls like a power, twenty topics, and an attribute that moves means, changes
spreads and goes along with some topics. Every method runs in a process of its own with one thread.
Time: processor time of the fit, those of scikit-learn's PCA(32) in the same process being 1.
Memory: the largest size of the process during the fit beyond its size before it, in sizes of the
fitted rows. Change: mean squared distance of erased rows from the rows, as a share of their
variance. All other figures are of held-out rows in 32 columns (of erased rows: their plain
components). The row of concept-erasure needs `pip install concept-erasure`.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

N, NEW, P, D, TOPICS = 20_000, 5_000, 768, 32, 20


def draw(rng):
    """Rows in single precision, attribute and topic."""
    topic = rng.integers(0, TOPICS, N + NEW)
    z = (rng.random(N + NEW) < rng.uniform(0.2, 0.8, TOPICS)[topic]).astype(int)
    spread = np.arange(1, P + 1) ** -0.5
    centres = 0.5 * spread * rng.normal(size=(TOPICS, P))
    shift, wider = 0.3 * spread * rng.normal(size=P), np.exp(0.15 * rng.normal(size=P))
    X = rng.normal(size=(N + NEW, P)) * spread
    X[z == 1] = X[z == 1] * wider + shift
    turn = np.linalg.qr(rng.normal(size=(P, P)))[0]
    return ((X + centres[topic]) @ turn).astype(np.float32), z, topic


def fair(**options):
    """Fit FairPCA; return what makes 32 columns of rows."""
    from fairpca import FairPCA

    return lambda X, z: FairPCA(**options).fit(X, sensitive_features=z)


def leace(X, z):
    """Fit LEACE as its authors publish it."""
    import torch
    from concept_erasure import LeaceEraser

    torch.set_num_threads(1)
    return LeaceEraser.fit(torch.from_numpy(X), torch.from_numpy(z))


def plain(X, z):
    """Fit scikit-learn's PCA."""
    from sklearn.decomposition import PCA

    return PCA(D).fit(X)


METHODS = {
    "PCA": plain,
    "FairPCA(32, cov_weight=0)": fair(n_components=D, cov_weight=0),
    "FairPCA(32)": fair(n_components=D),
    "FairPCA(32, certify=False)": fair(n_components=D, certify=False),
    "FairPCA(32, cov_weight=10)": fair(n_components=D, cov_weight=10),
    "FairPCA(32, cov_weight=10, certify=False)": fair(n_components=D, cov_weight=10, certify=False),
    "FairPCA(None, cov_weight=0), and back": fair(n_components=None, cov_weight=0),
    "LEACE (concept-erasure)": leace,
}


def erased(model, X):
    """Rows of as many columns as before, or None if the model makes components."""
    if hasattr(model, "components_"):
        wide = len(model.components_) > D
        return model.inverse_transform(model.transform(X)) if wide else None
    import torch

    return model(torch.from_numpy(X)).numpy()


def memory(field):
    """Bytes of this process: VmRSS now, VmHWM the most since the start or the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def measure(name, folder):
    """One row of the table, in a process of its own."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    warnings.simplefilter("ignore")
    X, z, topic = (np.load(Path(folder, f"{part}.npy")) for part in ("X", "z", "topic"))
    rows, groups, fit = X[:N], z[:N], METHODS[name]
    fit(rows[:500, :40].copy(), groups[:500])  # the first call of anything is slow
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
    before, start = memory("VmRSS"), time.process_time()
    model = fit(rows, groups)
    seconds = time.process_time() - start
    peak = memory("VmHWM")
    start = time.process_time()
    pca = PCA(D).fit(rows)
    unit = time.process_time() - start
    back = erased(model, X)
    U = model.transform(X) if back is None else PCA(D).fit(back[:N]).transform(back)
    total = float(((rows - pca.mean_) ** 2).sum(axis=1).mean())
    line = {"method": name, "time": seconds / unit, "memory": (peak - before) / rows.nbytes}
    if back is not None:
        line["change"] = float(((back[:N] - rows) ** 2).sum(axis=1).mean()) / total
    U = U / U[:N].std()
    coefficients = np.linalg.lstsq(U[:N] - U[:N].mean(axis=0), rows - pca.mean_, rcond=None)[0]
    rest = X[N:] - pca.mean_ - (U[N:] - U[:N].mean(axis=0)) @ coefficients
    line["variance"] = 1 - float((rest**2).sum()) / float(((X[N:] - pca.mean_) ** 2).sum())
    classifiers = {
        "linear": LogisticRegression(max_iter=300),
        "quadratic": QuadraticDiscriminantAnalysis(),
    }
    for kind, classifier in classifiers.items():
        line[kind] = classifier.fit(U[:N], groups).score(U[N:], z[N:])
    line["topic"] = RidgeClassifier().fit(U[:N], topic[:N]).score(U[N:], topic[N:])
    print(json.dumps(line))


def main():
    if len(sys.argv) > 1:
        measure(*sys.argv[1:])
        return
    import results

    table = []
    with tempfile.TemporaryDirectory() as folder:
        parts = dict(zip(("X", "z", "topic"), draw(np.random.default_rng(0)), strict=True))
        for part, values in parts.items():
            np.save(Path(folder, f"{part}.npy"), values)
        for name in METHODS:
            command = [sys.executable, __file__, name, folder]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: {done.stderr.splitlines()[-1]}")
                continue
            table.append(json.loads(done.stdout.splitlines()[-1]))
            print(
                {k: round(v, 3) if k != "method" else v for k, v in table[-1].items()}, flush=True
            )
    chance = float(np.mean(parts["z"][N:] == 0))
    results.save("embeddings", table, majority=max(chance, 1 - chance))


if __name__ == "__main__":
    main()
