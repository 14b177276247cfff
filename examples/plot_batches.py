"""
A batch, a site, a source
=========================

The group may be a nuisance: the laboratory that measured a sample, the hospital that a patient was
in, the source that a text came from. Plain components and clusters show it first. Components with
equal means of the batches show what the samples are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from fairpca import FairPCA


def samples(balanced, seed=4):
    """Draw 900 samples of three types from three batches, each with a shift of its own."""
    rng = np.random.default_rng(seed)
    types = rng.integers(0, 3, 900)
    stays = rng.random(900) < (0.0 if balanced else 0.7)
    batch = np.where(stays, types, rng.integers(0, 3, 900))
    profile = 1.2 * rng.normal(size=(3, 40)) * (rng.random(40) < 0.4)
    shift = 1.5 * rng.normal(size=(3, 40)) * (rng.random(40) < 0.6)
    return profile[types] + shift[batch] + rng.normal(size=(900, 40)), batch, types


def draw(axes, title, U, batch, types):
    """Colour the same scores by batch and by type; say what three clusters agree with."""
    clusters = KMeans(3, n_init=10, random_state=0).fit_predict(U)
    for ax, name, labels in zip(axes, ("batch", "type"), (batch, types), strict=True):
        for level, (colour, marker) in enumerate(
            (("#0072b2", "o"), ("#d55e00", "^"), ("#009e73", "s"))
        ):
            mine = U[labels == level]
            ax.plot(*mine.T[:2], marker, color=colour, ms=3, alpha=0.5, label=f"{name} {level + 1}")
        found = adjusted_rand_score(labels, clusters)
        ax.set_title(f"{title}, by {name}: clusters {max(found, 0):.2f}", loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.legend(frameon=False, markerscale=2, handletextpad=0, loc="upper right")


# %%
# Every type in every batch
# -------------------------
# Above the plain components, below those with equal means of the batches. The figure in a title is
# the adjusted Rand index of three clusters of the scores: 1 if they are the batches (left) or the
# types (right), 0 if they have nothing to do with them.
X, batch, types = samples(balanced=True)
fair = FairPCA(2, cov_weight=0).fit(X, sensitive_features=batch)
figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
draw(axes[0], "PCA", PCA(2).fit_transform(X), batch, types)
draw(axes[1], "FairPCA", fair.transform(X), batch, types)

# %%
# A type that is mostly in one batch
# ----------------------------------
# Now four of five samples of a type come from one batch, so that the means of the batches differ
# because the types do. Equal means of the batches then remove the types. ``control_features``
# compares the batches inside each type, and removes only what the batches do to samples of the
# same type. It needs the types of the fitted rows (not of new ones), or a guess of them.
X, batch, types = samples(balanced=False)
overall = FairPCA(2, cov_weight=0).fit(X, sensitive_features=batch)
within = FairPCA(2, cov_weight=0, min_group_size=2)  # cells of thirty rows count, too
within.fit(X, sensitive_features=batch, control_features=types)
figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
draw(axes[0], "Batches overall", overall.transform(X), batch, types)
draw(axes[1], "Within types", within.transform(X), batch, types)
plt.show()
