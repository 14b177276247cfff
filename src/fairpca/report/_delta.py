"""How well classifiers predict the group, and what chance alone would give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairpca._present import shorten
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import AuditReport, DeltaResult
from fairpca.metrics._result import statistic_name
from fairpca.report._display import ACCENT, FAIR, PLAIN, Display


class Bar(NamedTuple):
    """One line of a `DeltaDisplay`; spans are Δ on held-out rows and its interval."""

    label: str  # the classifier
    value: float | None = None  # Δ on the rows that the classifier was fitted to
    null: tuple[float, float] | None = None  # mean and 95 % quantile of it under permuted groups
    held_out: tuple[float, float, float] | None = None
    plain: tuple[float, float, float] | None = None  # of what the representation is compared with


class DeltaDisplay(Display):
    """Δ by family and adversary, with its null and its interval.

    Δ is the difference in selection rates of two groups. On the rows that a classifier was fitted
    to it has to be compared with its null, the grey bar: inside it, it is no more than chance. On
    held-out rows it has an interval, to be compared with zero.

    Parameters
    ----------
    bars : sequence
        What to draw, from top to bottom; `from_audit` and `from_results` make them.
    names : tuple of two str, default ("audited", "plain PCA")
        What the bars are of, and what it is compared with.

    See Also
    --------
    fairpca.metrics.audit : What measures it.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import delta_fairness
    >>> from fairpca.report import DeltaDisplay
    >>> U, z = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    >>> result = delta_fairness(U, z, n_permutations=19, random_state=0)
    >>> [bar.label for bar in DeltaDisplay.from_results([result]).bars]
    ['half-space statistic, by SVM']
    """

    def __init__(
        self, bars: Sequence[Bar], names: tuple[str, str] = ("audited", "plain PCA")
    ) -> None:
        self.bars, self.names = tuple(bars), names

    @classmethod
    def from_results(
        cls, results: Iterable[DeltaResult] | DeltaResult, *, ax: Any = None
    ) -> DeltaDisplay:
        """Draw one or several results of `delta_fairness`."""
        several = (results,) if isinstance(results, DeltaResult) else tuple(results)
        return cls([_bar_of(result) for result in several]).plot(ax)

    @classmethod
    def from_audit(
        cls, report: AuditReport, *, name: str = "audited", ax: Any = None
    ) -> DeltaDisplay:
        """Draw each adversary of an `AuditReport` for its largest pair, next to plain PCA."""
        audited, *others = report.representations
        names = (name, shorten(others[0].name, 40) if others else "")
        compared = [row for other in others[:1] for row in other.held_out]
        bars = []
        for row in audited.by_adversary():
            same = [other.held_out for other in compared if other.comparison == row.comparison]
            bars.append(
                Bar(
                    row.comparison.adversary,
                    held_out=_span(row.held_out),
                    plain=_span(same[0]) if same else None,
                )
            )
        return cls(bars, names).plot(ax)

    def plot(self, ax: Any = None) -> DeltaDisplay:
        """Draw one line for each classifier, on `ax` or on a new figure."""
        if not self.bars:
            raise InvalidInputError("there is nothing to draw: there are no results.")
        height = 1.5 + 0.42 * len(self.bars)
        with self._canvas(ax, (7.8, height)) as ax:
            for place, bar in enumerate(self.bars):
                _draw_bar(ax, bar, -place)
            ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
            ax.set_yticks([-place for place in range(len(self.bars))], [b.label for b in self.bars])
            ax.set_ylim(-len(self.bars) + 0.4, 0.6)
            spans = [span for bar in self.bars for span in (bar.held_out, bar.plain) if span]
            low = min([0.0, *(span[1] for span in spans)])
            ax.set_xlim(min(low - 0.03, -0.03), 1.03)
            ax.tick_params(axis="y", length=0)
            ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
            ax.set_xlabel("Δ: difference in selection rates, in points (0: equal, 100: separated)")
            ax.set_title("How well classifiers predict the group")
            # Under the name of the axis, whatever the height.
            below = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.72 / height), "ncols": 3}
            ax.legend(handles=_handles(self.bars, *self.names), **below)
        return self


def _bar_of(result: DeltaResult) -> Bar:
    null = None if result.null is None else (result.null.mean, result.null.quantile)
    value = result.value if result.null is None else result.null.value
    name = statistic_name(result.family, result.method)
    return Bar(name, value, null, _span(result.worst.held_out))


def _span(held_out: Any) -> tuple[float, float, float] | None:
    return None if held_out is None else (held_out.estimate, held_out.low, held_out.high)


def _draw_bar(ax: Any, bar: Bar, place: float) -> None:
    if bar.null is not None:
        ax.barh(place, bar.null[1], 0.62, color="0.87", zorder=1)
        ax.plot([bar.null[0]] * 2, [place - 0.31, place + 0.31], color="0.55", linewidth=1.2)
    shift = 0.14 if bar.held_out is not None and (bar.value is not None or bar.plain) else 0.0
    if bar.value is not None:
        ax.plot(bar.value, place + shift, "o", color=ACCENT, markersize=7, zorder=3)
    for span, height, colour in (
        (bar.plain, place + shift, PLAIN), (bar.held_out, place - shift, FAIR)
    ):  # fmt: skip
        if span is not None:
            value, low, high = span
            ax.plot([low, high], [height] * 2, color=colour, linewidth=2, zorder=2)
            ax.plot(value, height, "D", color="white", markeredgecolor=colour, markeredgewidth=1.6,
                    markersize=6, zorder=3)  # fmt: skip


def _handles(bars: Sequence[Bar], audited: str, compared: str) -> list[Any]:
    """Entries of the legend for what is drawn."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if any(bar.value is not None for bar in bars):
        handles.append(Line2D([], [], marker="o", linestyle="", color=ACCENT, label="fitted rows"))
    if any(bar.null is not None for bar in bars):
        handles.append(Patch(color="0.87", label="chance on fitted rows (mean, 95 %)"))
    diamond: Any = {"marker": "D", "markerfacecolor": "white", "linewidth": 2}
    if any(bar.plain is not None for bar in bars):
        handles.append(Line2D([], [], label=f"{compared}, held-out rows", color=PLAIN, **diamond))
    if any(bar.held_out is not None for bar in bars):
        handles.append(Line2D([], [], label=f"{audited}, held-out rows", color=FAIR, **diamond))
    return handles
