"""Figures of the reproduction, drawn from its numbers; the same numbers give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

from fairpca._choices import FIGURES, TABLES
from fairpca.experiments import figure2, table2
from fairpca.experiments._experiment import read_csv, write_atomically
from fairpca.experiments._methods import METHODS
from fairpca.experiments.figure1 import PANELS, planes
from fairpca.report._verdicts import KINDS, Verdict, texts

Row = dict[str, str]
COLORS = {"agrees": "tab:green", "known": "tab:orange", "unknown": "tab:red"}


def draw_figures(out: Path) -> list[Path]:
    """Draw the figures of the paper whose numbers are in a folder.

    Parameters
    ----------
    out : pathlib.Path
        Folder of a run; the pictures go there too.

    Returns
    -------
    list of pathlib.Path
        The files written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.experiments import Options, run
    >>> from fairpca.report import draw_figures
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = run(["figure1"], Options(quick=True), folder)
    ...     [path.name for path in draw_figures(Path(folder))]
    ['figure1.png', 'figure1.svg']
    """
    files = []
    for name, draw in zip(FIGURES, (_figure1, _figure2, _figure3), strict=True):
        if (out / f"{name}.csv").is_file():
            files += _save(draw(read_csv(out / f"{name}.csv")), out, name)
    return files


def draw_agreement(verdicts: Sequence[Verdict], out: Path) -> list[Path]:
    """Draw every printed cell against ours, coloured by verdict."""
    tables = [name for name in TABLES if any(verdict.table == name for verdict in verdicts)]
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
            points = ([v.printed for v in chosen], [v.found.mean for v in chosen])
            axis.scatter(*points, s=9, alpha=0.8, color=COLORS[kind], linewidths=0)
        top = 1.05 * max(max(v.printed, v.found.mean) for v in mine)
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
    percent = lambda v: v.table == "table2" or v.measure in ("variance", "std")  # noqa: E731
    return [v for v in verdicts if v.table == table and percent(v) == share]


def _legend(axes: Any, used: int, figure: Any, verdicts: Sequence[Verdict]) -> None:
    from matplotlib.lines import Line2D

    counts = {kind: sum(verdict.kind == kind for verdict in verdicts) for kind in KINDS}
    handles = [
        Line2D([], [], linestyle="", marker="o", color=COLORS[kind], markersize=5,
               label=f"{counts[kind]} {texts()['kinds'][kind]}")
        for kind in KINDS
    ]  # fmt: skip
    if used < len(axes):
        axes[used].legend(handles=handles, loc="center", fontsize=8, frameon=False)
    else:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)


def _new_figure(columns: int, rows: int = 1, size: tuple[float, float] = (3.4, 3.2)) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")


def _save(figure: Any, folder: Path, name: str) -> list[Path]:
    from matplotlib import rc_context

    paths = []
    for kind in ("png", "svg"):
        buffer = io.BytesIO()
        # Without a date and with fixed identifiers the same data give the same file.
        with rc_context({"svg.hashsalt": "fairpca"}):
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        paths.append(folder / f"{name}.{kind}")
        write_atomically(paths[-1], buffer.getvalue())
    return paths


def _figure1(rows: Sequence[Row]) -> Any:
    """Draw the cloud, and the three planes with linear (solid) and Gaussian (dotted) boundaries."""
    X, z, found = planes()
    figure = _new_figure(4)
    axis = figure.add_subplot(1, 4, 1, projection="3d")
    for group, color in ((0, "tab:blue"), (1, "tab:orange")):
        axis.scatter(*X[z == group].T, s=1, color=color)
    axis.set_title("original data", fontsize=9)
    for place, method in enumerate(PANELS, start=2):
        axis = figure.add_subplot(1, 4, place)
        values = {r["measure"]: float(r["value"]) for r in rows if r["method"] == method}
        _boundaries(axis, X @ found[method], z)
        name = "both constraints" if method == "both" else texts()["methods"][method]
        text = f"Δ {values['linear']:.2f} / {values['gaussian']:.2f}"
        axis.set_title(f"{name}\n{text}", fontsize=9)
    return figure


def _boundaries(axis: Any, U: Any, z: Any) -> None:
    for group, color in ((0, "tab:blue"), (1, "tab:orange")):
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


def _figure2(rows: Sequence[Row]) -> Any:
    """Draw variance and Δ against δ, averaged over the splits."""
    figure = _new_figure(2, 2)
    axes = figure.subplots(2, 2, sharex=True)
    panels = (("both", texts()["methods"]["both"]), ("refined", "refined, same price"))
    for column, (method, title) in enumerate(panels):
        for line, (measure, text) in enumerate(
            (("variance", "variance, %"), ("linear", "Δ, linear"))
        ):
            axis = axes[line][column]
            _curve(axis, rows, ("mean", 0.0, measure), "red", "-", "mean constraint")
            for i, mu in enumerate(figure2.MUS):
                shade = (0.0, 0.0, 1.0, 0.35 + 0.65 * i / (len(figure2.MUS) - 1))
                _curve(axis, rows, (method, mu, measure), shade, ":", f"μ = {mu:g}")
            axis.set_ylabel(text, fontsize=8)
            axis.tick_params(labelsize=7)
        axes[0][column].set_title(title, fontsize=9)
        axes[1][column].set_xlabel("δ", fontsize=8)
    axes[0][0].legend(fontsize=6)
    return figure


def _curve(axis: Any, rows: Sequence[Row], which: Any, color: Any, style: str, label: str) -> None:
    mine = [r for r in rows if (r["method"], float(r["mu"]), r["measure"]) == which]
    means = [
        np.mean([float(r["value"]) for r in mine if float(r["delta"]) == delta])
        for delta in figure2.DELTAS
    ]
    look = {"color": color, "linestyle": style, "marker": "o", "markersize": 2}
    axis.plot(figure2.DELTAS, means, label=label, **look)


def _figure3(rows: Sequence[Row]) -> Any:
    """Draw one panel for each description and method."""
    names = [name for name in table2.DESCRIPTIONS if any(r["description"] == name for r in rows)]
    figure = _new_figure(len(METHODS), max(len(names), 1), (3.1, 2.6))
    axes = figure.subplots(max(len(names), 1), len(METHODS), squeeze=False, sharey=True)
    for line, name in zip(axes, names, strict=False):
        for axis, method in zip(line, METHODS, strict=True):
            mine = [r for r in rows if (r["description"], r["method"]) == (name, method)]
            _profiles(axis, mine)
            title = f"{texts()['methods'][method]}\n{texts()['descriptions'][name]['short']}"
            axis.set_title(title, fontsize=8)
        line[0].set_ylabel("counts per minute", fontsize=8)
    return figure


def _profiles(axis: Any, rows: Sequence[Row]) -> None:
    for cluster in sorted({row["cluster"] for row in rows}):
        mine = sorted((int(r["bucket"]), r) for r in rows if r["cluster"] == cluster)
        hours = np.array([bucket for bucket, _ in mine]) / 3.0
        label = f"{float(mine[0][1]['share']):.1f} % over 40"
        axis.plot(hours, [float(row["activity"]) for _, row in mine], label=label)
    axis.set_xlabel("hour", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.legend(fontsize=6)
