"""
The largest loss of a group
===========================

Samadi et al. (2018) define fair PCA differently: groups may be easy to predict, but no group should
lose much more variance than it must. The components of the majority lose much of the variance of a
small group that varies in other directions. ``objective="worst-loss"`` minimises the largest loss.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairpca import FairPCA

rng = np.random.default_rng(0)
sizes, p = {"majority": 2000, "minority": 200}, 10
X, group = [], []
for name, size in sizes.items():
    scales = np.full(p, 0.5)
    scales[: 4 if name == "majority" else 2] = 1.5
    scales[6:9] = 2.5 if name == "minority" else 0.5
    X.append(rng.normal(size=(size, p)) * scales)
    group += [name] * size
X, group = np.vstack(X), np.array(group)

free = {"mean_tol": None, "cov_weight": 0.0}  # the largest loss alone, without equal means
models = {
    "plain PCA": FairPCA(3, **free),
    "worst-loss": FairPCA(3, objective="worst-loss", **free),
    "worst-loss and equal means": FairPCA(3, objective="worst-loss", cov_weight=0.0),
}


# %%
# Loss of each group against its own best three components, as a share of its variance.
def losses(model):
    shares = []
    for name in sizes:
        rows = X[group == name] - X[group == name].mean(axis=0)
        covariance = rows.T @ rows / len(rows)
        best = np.linalg.eigvalsh(covariance)[-3:].sum()
        kept = np.trace(model.components_ @ covariance @ model.components_.T)
        shares.append(100 * (best - kept) / np.trace(covariance))
    return shares


figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for index, (name, model) in enumerate(models.items()):
    model.fit(X, sensitive_features=group)
    print(name, model.certificate_)
    for place, (share, colour, hatch) in enumerate(
        zip(losses(model), ("#0072b2", "#d55e00"), ("", "//"), strict=True)
    ):
        label = list(sizes)[place] if index == 0 else None
        ax.bar(index + 0.36 * place - 0.18, share, 0.34, color=colour, hatch=hatch,
               edgecolor="white", label=label)  # fmt: skip
ax.set_xticks(range(len(models)), models)
ax.set_ylabel("loss, % of the group's variance")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
