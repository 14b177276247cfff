"""
Reading a certificate
=====================

Fair PCA is not a convex problem, and a solver may end in a basis that is not the best. The
certificate says how much better any other basis could be at most: it holds whatever the solver did.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.datasets import load_diabetes_sex
from fairpca.report import CertificateDisplay

diabetes = load_diabetes_sex()
X = StandardScaler().fit_transform(diabetes.data)
fair = FairPCA(2).fit(X, sensitive_features=diabetes.sensitive_features)
fair.certificate_

# %%
# Two things are worked on: a basis, whose objective rises, and a bound that falls. What is left
# between them is what nobody knows.
CertificateDisplay.from_estimator(FairPCA(2), X, sensitive_features=diabetes.sensitive_features)

# %%
# No basis with equal means lies above the bound: here are 20,000 of them, drawn at random in the
# space where the means agree, and the best of 200 local searches from random starts.
contrast = fair.moments_.contrasts()[0]
S, Q, f = fair.moments_.pooled().covariance, contrast.cov_gap, contrast.mean_gap
space = np.linalg.qr(np.column_stack([f, np.eye(len(f))]))[0][:, 1:]
S, Q = space.T @ S @ space, space.T @ Q @ space


def value(V):
    return np.trace(V.T @ S @ V) - np.linalg.norm(V.T @ Q @ V, 2)


rng = np.random.default_rng(0)
draws = [np.linalg.qr(rng.normal(size=(len(S), 2)))[0] for _ in range(20_000)]
values = np.array([value(V) for V in draws])
climbed = []
for V in draws[:200]:
    best = value(V)
    for step in np.geomspace(0.5, 0.01, 60):
        W = np.linalg.qr(V + step * rng.normal(size=V.shape))[0]
        if value(W) > best:
            V, best = W, value(W)
    climbed.append(best)

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.hist(values, bins=60, color="0.8", density=True, label="20,000 random bases")
ax.hist(climbed, bins=30, color="#56b4e9", density=True, label="200 local searches", alpha=0.8)
ax.axvline(fair.certificate_.objective, color="#0072b2", linewidth=2, label="FairPCA")
ax.axvline(fair.certificate_.bound, color="black", linestyle="--", label="proven bound")
ax.set(xlabel="variance less penalty of the covariance gap", yticks=[])
ax.spines[["top", "right", "left"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# ``proven``, ``basis_settled`` and ``bound_solved`` are three things. In the first fit basis and
# bound meet. In the second both are solved, and they do not: the best relaxed value lies above
# every basis, and more iterations change nothing. In the third the relaxation was cut short, and
# more iterations lower the bound.
fits = {
    "cov_tol=0.3": FairPCA(2, cov_tol=0.3),
    "cov_weight=3": FairPCA(4, cov_weight=3),
    "solver='tight', max_iter=4": FairPCA(4, cov_weight=3, solver="tight", max_iter=4),
}
figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
for place, (name, estimator) in enumerate(fits.items()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        c = estimator.fit(X, sensitive_features=diabetes.sensitive_features).certificate_
    lowest, relaxed = 100 * c.objective / c.bound, 100 * c.relaxed_objective / c.bound
    ax.plot([lowest, 100], [place, place], color="0.8", linewidth=8, solid_capstyle="butt")
    ax.plot(lowest, place, "o", color="#0072b2", label="basis" if not place else None)
    ax.plot(relaxed, place, "d", color="#d55e00", label="relaxed value" if not place else None)
    ax.plot(100, place, "|", color="black", markersize=16, label="bound" if not place else None)
    names = ("proven", "basis_settled", "bound_solved")
    words = ", ".join(f"{word}={getattr(c, word)}" for word in names)
    ax.text(0.02, place - 0.25, f"{name}: {words}", transform=ax.get_yaxis_transform(), fontsize=9)
ax.set(xlabel="percent of the bound", yticks=[], ylim=(2.9, -0.5))
ax.spines[["top", "right", "left"]].set_visible(False)
ax.legend(frameon=False, loc="lower left", ncols=3)
plt.show()
