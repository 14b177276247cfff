"""Pictures, drawn from the numbers of a run; the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.svm import SVC

from reproduction.activity import DESCRIPTIONS
from reproduction.datasets import UCI
from reproduction.methods import METHODS, PAPER_METHODS
from reproduction.results import (
    KINDS,
    Results,
    Verdict,
    compared_definition,
    printed,
    texts,
)
from reproduction.tables import MUS, planes

COLORS = {"agrees": "tab:green", "known": "tab:orange", "unknown": "tab:red"}
GROUP_COLORS = ("tab:blue", "tab:orange")


def draw_figures(out: Path) -> list[Path]:
    """Draw the figures of the paper whose numbers are in a folder; return the files written."""
    files = []
    for name, draw in (("figure1", _figure1), ("figure2", _figure2), ("figure3", _figure3)):
        if (out / f"{name}.csv").is_file():
            files += _save(draw(pandas.read_csv(out / f"{name}.csv")), out, name)
    return files


OVERVIEW = (
    ("variance", "variance kept, %"),
    ("linear", "Δ, linear SVM"),
    ("gaussian_released", "Δ, Gaussian SVM"),
)
METHOD_COLORS = {"pca": "0.35", "mean": "tab:blue", "both": "tab:orange"}


def draw_overview(path: Path, out: Path) -> list[Path]:
    """Draw table 1: every set a line, filled marks ours, open marks printed."""
    results = Results(path)
    names = [name for name in UCI if (name, compared_definition(name)) in results.rows][::-1]
    figure = _new_figure(3, 1, (3.3, 1.2 + 0.27 * len(names)))
    axes = figure.subplots(1, 3, sharey=True)
    for axis, (measure, title) in zip(axes, OVERVIEW, strict=True):
        for method, color in METHOD_COLORS.items():
            wanted = measure.removesuffix("_released")
            for y, name in enumerate(names):
                ours = results.get(name, compared_definition(name), method, measure, 2)
                if ours is not None:
                    axis.plot(ours.mean, y, "o", color=color, markersize=6)
                value = printed("table1")[name, method, wanted]
                axis.plot(value, y, "o", color=color, markersize=9, fillstyle="none")
        axis.set_title(title, fontsize=9)
        axis.set_xlim(left=0.0)
        axis.grid(axis="y", color="0.9")
        axis.tick_params(labelsize=7)
    axes[0].set_yticks(range(len(names)), [name.replace("_", " ") for name in names], fontsize=8)
    figure.legend(handles=_overview_marks(), loc="outside lower center", ncols=5, fontsize=8)
    return _save(figure, out, "overview")


def _overview_marks() -> list[Line2D]:
    titles = {"pca": "PCA", "mean": "mean constraint", "both": "both constraints"}
    dot: dict[str, Any] = {"linestyle": "", "marker": "o"}
    marks = [Line2D([], [], **dot, color=METHOD_COLORS[m], label=t) for m, t in titles.items()]
    marks.append(Line2D([], [], **dot, color="k", markersize=6, label="measured here"))
    marks.append(Line2D([], [], **dot, color="k", markersize=9, fillstyle="none", label="printed"))
    return marks


def draw_agreement(verdicts: Sequence[Verdict], out: Path) -> list[Path]:
    """Draw every printed cell against ours, coloured by verdict."""
    tables = sorted({verdict.table for verdict in verdicts})
    panels = [(name, share) for name in tables for share in (True, False)]
    panels = [(name, share) for name, share in panels if _in_panel(verdicts, name, share)]
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure = _new_figure(columns, lines, (2.7, 2.8))
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, (name, share) in zip(axes, panels, strict=False):
        mine = _in_panel(verdicts, name, share)
        for kind in KINDS:
            chosen = [verdict for verdict in mine if verdict.kind == kind]
            points = ([v.printed for v in chosen], [v.ours.mean for v in chosen])
            axis.scatter(*points, s=9, alpha=0.8, color=COLORS[kind], linewidths=0)
        top = 1.05 * max(max(v.printed, v.ours.mean) for v in mine)
        axis.plot([0, top], [0, top], color="0.6", linewidth=0.7, zorder=0)
        axis.set_title(
            f"{name[:5]} {name[5:]}: {texts()['panels'][name][0 if share else 1]}", fontsize=8
        )
        axis.set_xlabel("printed", fontsize=7)
        axis.set_ylabel("ours", fontsize=7)
        axis.tick_params(labelsize=6)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    _legend(axes, len(panels), figure, verdicts)
    return _save(figure, out, "agreement")


def _in_panel(verdicts: Sequence[Verdict], table: str, share: bool) -> list[Verdict]:
    """Cells of a table in percent or points, or those between 0 and 1."""
    mine = [verdict for verdict in verdicts if verdict.table == table]
    return [v for v in mine if share == (table == "table2" or v.measure in ("variance", "std"))]


def _legend(axes: Any, used: int, figure: Any, verdicts: Sequence[Verdict]) -> None:
    counts = {kind: sum(verdict.kind == kind for verdict in verdicts) for kind in KINDS}
    labels = {kind: f"{counts[kind]} {texts()['kinds'][kind]}" for kind in KINDS}
    marker: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5}
    handles = [Line2D([], [], **marker, color=COLORS[k], label=labels[k]) for k in KINDS]
    if used < len(axes):
        axes[used].legend(handles=handles, loc="center", fontsize=8, frameon=False)
    else:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)


def _new_figure(columns: int, rows: int = 1, size: tuple[float, float] = (3.4, 3.2)) -> Any:
    return Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")


def _save(figure: Any, folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    # Without a date and with fixed identifiers the same data give the same file.
    with rc_context({"svg.hashsalt": "fairpca"}):
        figure.savefig(paths[0], dpi=150, metadata={"Software": None})
        figure.savefig(paths[1], dpi=150, metadata={"Date": None})
    return paths


def _figure1(frame: Any) -> Any:
    """Draw the cloud, and the three planes with linear (solid) and Gaussian (dotted) boundaries."""
    X, z, bases = planes()
    figure = _new_figure(4)
    axis = figure.add_subplot(1, 4, 1, projection="3d")
    for group, color in enumerate(GROUP_COLORS):
        axis.scatter(*X[z == group].T, s=1, color=color)
    axis.set_title("original data", fontsize=9)
    values = frame.set_index(["method", "measure"])["value"]
    for place, method in enumerate(PAPER_METHODS, start=2):
        axis = figure.add_subplot(1, 4, place)
        _boundaries(axis, X @ bases[method], z)
        name = "both constraints" if method == "both" else texts()["methods"][method]
        text = f"Δ {values[method, 'linear']:.2f} / {values[method, 'gaussian']:.2f}"
        axis.set_title(f"{name}\n{text}", fontsize=9)
    return figure


def _boundaries(axis: Any, U: Any, z: Any) -> None:
    for group, color in enumerate(GROUP_COLORS):
        axis.scatter(*U[z == group].T, s=1, color=color)
    low, high = U.min(axis=0), U.max(axis=0)
    grid = np.meshgrid(*(np.linspace(a, b, 80) for a, b in zip(low, high, strict=True)))
    points = np.column_stack([side.ravel() for side in grid])
    for kernel, style, width in (("linear", "-", 2.0), ("rbf", ":", 1.2)):
        svm = SVC(kernel=kernel, class_weight="balanced").fit(U, z)
        scores = svm.decision_function(points).reshape(grid[0].shape)
        if scores.min() < 0.0 < scores.max():
            axis.contour(
                *grid, scores, levels=[0.0], colors="red", linestyles=style, linewidths=width
            )
    axis.tick_params(labelsize=7)


def _figure2(frame: Any) -> Any:
    """Draw variance and Δ against δ, averaged over the splits."""
    means = frame.groupby(["method", "mu", "measure", "delta"])["value"].mean()
    figure = _new_figure(2, 2)
    axes = figure.subplots(2, 2, sharex=True)
    panels = (("both", texts()["methods"]["both"]), ("refined", "refined, same penalty"))
    for column, (method, title) in enumerate(panels):
        for line, (measure, text) in enumerate(
            (("variance", "variance, %"), ("linear", "Δ, linear"))
        ):
            axis = axes[line][column]
            marks = {"marker": "o", "markersize": 2}
            curve = means["mean", 0.0, measure]
            axis.plot(curve.index, curve, "-", color="red", label="mean constraint", **marks)
            for i, mu in enumerate(MUS):
                shade = (0.0, 0.0, 1.0, 0.35 + 0.65 * i / (len(MUS) - 1))
                curve = means[method, mu, measure]
                axis.plot(curve.index, curve, ":", color=shade, label=f"μ = {mu:g}", **marks)
            axis.set_ylabel(text, fontsize=8)
            axis.tick_params(labelsize=7)
        axes[0][column].set_title(title, fontsize=9)
        axes[1][column].set_xlabel("δ", fontsize=8)
    axes[0][0].legend(fontsize=6)
    return figure


def _figure3(frame: Any) -> Any:
    """Draw one panel for each description and method."""
    names = [name for name in DESCRIPTIONS if name in set(frame["description"])]
    figure = _new_figure(len(METHODS), len(names), (3.1, 2.6))
    axes = figure.subplots(len(names), len(METHODS), squeeze=False, sharey=True)
    for line, name in zip(axes, names, strict=True):
        for axis, method in zip(line, METHODS, strict=True):
            _profiles(axis, frame[(frame["description"] == name) & (frame["method"] == method)])
            title = f"{texts()['methods'][method]}\n{texts()['descriptions'][name]['short']}"
            axis.set_title(title, fontsize=8)
        line[0].set_ylabel("counts per minute", fontsize=8)
    return figure


def _profiles(axis: Any, frame: Any) -> None:
    for _, mine in frame.sort_values(["cluster", "bucket"]).groupby("cluster"):
        label = f"{mine['share'].iloc[0]:.1f} % over 40"
        axis.plot(mine["bucket"] / 3.0, mine["activity"], label=label)
    axis.set_xlabel("hour", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.legend(fontsize=6)
