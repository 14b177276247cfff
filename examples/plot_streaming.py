"""
Streaming
=========

Rows that arrive in batches need not be kept: the moments of the groups are all that a fit needs.
Components from any number of batches, in any order, are those of all rows at once.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairpca import FairPCA, GroupMoments
from fairpca.metrics import mean_gap

rng = np.random.default_rng(0)
mixing = rng.normal(size=(8, 8))


def batch(size=250):
    z = rng.integers(0, 2, size)
    X = rng.normal(size=(size, 8)) * np.linspace(2, 0.5, 8) + np.outer(z, np.linspace(0, 1, 8))
    return X @ mixing, z


# %%
# After every batch the components are those of the rows so far. How large is the gap of means on
# rows that come later? The median of eight streams, because each has its luck.
fresh, z_fresh = batch(20_000)
counts, gaps = 250 * np.arange(1, 13), []
for _ in range(8):
    fair, parts, found = FairPCA(2), [batch() for _ in counts], []
    for X, z in parts:
        fair.partial_fit(X, sensitive_features=z)
        found.append(mean_gap(fair.transform(fresh), z_fresh))
    gaps.append(found)

# %%
# The same without fitting in between: add up moments, in another order, and fit once.
total = sum(
    (GroupMoments.from_arrays(X, z) for X, z in parts[:0:-1]), GroupMoments.from_arrays(*parts[0])
)
once = FairPCA(2).fit_moments(total)
print(total)
print(
    "largest difference of the projectors:",
    np.abs(once.components_.T @ once.components_ - fair.components_.T @ fair.components_).max(),
)

plain = FairPCA(2, mean_tol=None, cov_weight=0).fit_moments(total)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(counts, np.median(gaps, axis=0), "o-", color="#0072b2", label="fair components")
level = mean_gap(plain.transform(fresh), z_fresh)
ax.axhline(level, color="0.45", linestyle="--", label="plain PCA of all rows")
ax.set(xlabel="rows seen so far", ylabel="mean gap on later rows", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
