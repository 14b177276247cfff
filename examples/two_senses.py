"""Draw docs/img/two_senses.png: two senses of fairness on the same data, apart and together.

Run from the root of the repository: python examples/two_senses.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from fairpca import FairPCA, GroupMoments

OUT = Path(__file__).resolve().parents[1] / "docs" / "img" / "two_senses.png"
COLOURS = ("#0072b2", "#d55e00", "#009e73")
FITS = {
    "Plain PCA": {"mean_tol": None, "cov_weight": 0},
    "Equal means": {"cov_weight": 0},
    "Minimax loss": {"mean_tol": None, "cov_weight": 0, "objective": "worst-loss"},
    "Both": {"cov_weight": 0, "objective": "worst-loss"},
}


def draw_scores(ax, U, groups):
    for colour, marker, level in zip(COLOURS, "o^s", np.unique(groups), strict=True):
        mine = U[groups == level]
        ax.scatter(*mine.T, s=10, color=colour, marker=marker, alpha=0.5, linewidths=0)
        ax.plot(*mine.mean(axis=0), marker, color=colour, markersize=11, markeredgecolor="white")
    ax.set(xlim=(-5.5, 5.5), ylim=(-4.5, 4.5), aspect="equal", xticks=[], yticks=[])


def draw_losses(ax, names, losses, top):
    ax.bar(names, losses, color=COLOURS, width=0.7)
    ax.axhline(max(losses), color="0.3", linewidth=1, linestyle="--")
    ax.text(2.45, max(losses), f"{max(losses):.2f}", va="bottom", ha="right")
    ax.set_ylim(0, 1.15 * top)
    ax.spines[["top", "right"]].set_visible(False)


def main():
    data = load_wine()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    groups = np.array(["A", "B", "C"])[data.target]
    moments = GroupMoments.from_arrays(X, groups)
    covariances = moments.group_covariances()
    fitted = {name: FairPCA(2, **options).fit_moments(moments) for name, options in FITS.items()}
    losses = {
        name: covariances.as_table(model.components_.T)["loss"] for name, model in fitted.items()
    }
    top = max(map(max, losses.values()))
    figure, axes = plt.subplots(2, 4, figsize=(11.5, 5.6), height_ratios=(3, 2), sharey="row")
    for (name, model), column in zip(fitted.items(), axes.T, strict=True):
        draw_scores(column[0], model.transform(X), groups)
        kept = 100 * model.explained_variance_ratio_.sum()
        column[0].set_title(name, loc="left", fontweight="bold", fontsize=11, pad=20)
        text = f"variance {kept:.0f} %, mean gap {model.mean_gap_:.2f}"
        column[0].text(0, 1.03, text, transform=column[0].transAxes, fontsize=9)
        draw_losses(column[1], covariances.groups, losses[name], top)
        print(f"{name}: {text}, losses {np.round(losses[name], 2)}, {model.certificate_.gap:.1e}")
    axes[0, 0].set_ylabel("component scores")
    axes[1, 0].set_ylabel("loss against own best")
    figure.tight_layout()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT, dpi=110, metadata={"Software": None})
    print(f"{OUT.name}: {OUT.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
