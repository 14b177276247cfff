"""What classifiers find out, beside what chance alone would give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairpca._look import ACCENT, FAIR, draw_on, look
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import AuditReport, DeltaResult
from fairpca.report.displays._base import Display


@dataclass(frozen=True)
class DeltaBar:
    """One line of a `DeltaDisplay`.

    Parameters
    ----------
    label : str
        Who tries to tell the groups apart.
    value : float or None
        Δ on the rows that the classifier was fitted to.
    null : tuple of two float, or None
        Mean and 95 % quantile of that value when nothing leaks.
    held_out : tuple of three float, or None
        Δ on rows that the classifier has not seen, with the ends of its interval.

    Examples
    --------
    >>> from fairpca.report import DeltaBar
    >>> DeltaBar("half-spaces", 0.4).held_out is None
    True
    """

    label: str
    value: float | None = None
    null: tuple[float, float] | None = None
    held_out: tuple[float, float, float] | None = None


class DeltaDisplay(Display):
    """Δ by family and adversary, beside its null and its interval.

    A value on rows that a classifier was fitted to has to be compared with its null, the grey bar:
    inside it, nothing was found. A value on unseen rows has an interval, to be compared with zero.

    Parameters
    ----------
    bars : sequence of DeltaBar
        What to draw, from top to bottom.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import delta_fairness
    >>> from fairpca.report import DeltaDisplay
    >>> U, z = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    >>> result = delta_fairness(U, z, n_permutations=19, random_state=0)
    >>> [bar.label for bar in DeltaDisplay.from_results([result]).bars]
    ['linear, svm']
    """

    def __init__(self, bars: Sequence[DeltaBar]) -> None:
        self.bars = tuple(bars)

    @classmethod
    def from_results(
        cls, results: Iterable[DeltaResult] | DeltaResult, *, ax: Any = None
    ) -> DeltaDisplay:
        """Draw results of `delta_fairness`.

        Parameters
        ----------
        results : DeltaResult or iterable of DeltaResult
            What was measured.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        DeltaDisplay
            The display, drawn.
        """
        found = (results,) if isinstance(results, DeltaResult) else tuple(results)
        return cls([_bar_of(result) for result in found]).plot(ax)

    @classmethod
    def from_audit(cls, report: AuditReport, *, ax: Any = None) -> DeltaDisplay:
        """Draw an audit: its families, and each adversary for the pair where it attains most.

        Parameters
        ----------
        report : AuditReport
            What `audit` returned.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        DeltaDisplay
            The display, drawn.
        """
        bars = [_bar_of(result) for result in report.results]
        best: dict[str, Any] = {}
        for attack in sorted(report.adversaries, key=lambda attack: attack.held_out.low):
            best[attack.adversary] = attack.held_out
        bars += [
            DeltaBar(f"adversary: {name}", held_out=(new.value, new.low, new.high))
            for name, new in best.items()
        ]
        return cls(bars).plot(ax)

    def plot(self, ax: Any = None) -> DeltaDisplay:
        """Draw one line for each classifier.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        DeltaDisplay
            The display.
        """
        if not self.bars:
            raise InvalidInputError("there is nothing to draw: no result was given.")
        with look():
            ax = draw_on(ax, (7.8, 1.5 + 0.42 * len(self.bars)))
            for place, bar in enumerate(self.bars):
                _draw_bar(ax, bar, -place)
            ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
            ax.set_yticks([-place for place in range(len(self.bars))], [b.label for b in self.bars])
            ax.set_ylim(-len(self.bars) + 0.4, 0.6)
            low = min([0.0, *(b.held_out[1] for b in self.bars if b.held_out is not None)])
            ax.set_xlim(min(low - 0.03, -0.03), 1.03)
            ax.tick_params(axis="y", length=0)
            ax.set_xlabel("Δ: 0 the groups look alike, 1 they are told apart without error")
            ax.set_title("What classifiers find out about the group")
            _legend(ax, self.bars)
        return self._drawn(ax)


def _bar_of(result: DeltaResult) -> DeltaBar:
    null = None if result.null is None else (result.null.mean, result.null.quantile)
    new = result.worst.held_out
    held_out = None if new is None else (new.value, new.low, new.high)
    return DeltaBar(f"{result.family}, {result.method}", result.value, null, held_out)


def _draw_bar(ax: Any, bar: DeltaBar, place: float) -> None:
    if bar.null is not None:
        ax.barh(place, bar.null[1], 0.62, color="0.87", zorder=1)
        ax.plot([bar.null[0]] * 2, [place - 0.31, place + 0.31], color="0.55", linewidth=1.2)
    shift = 0.14 if bar.value is not None and bar.held_out is not None else 0.0
    if bar.value is not None:
        ax.plot(bar.value, place + shift, "o", color=FAIR, markersize=7, zorder=3)
    if bar.held_out is not None:
        value, low, high = bar.held_out
        ax.plot([low, high], [place - shift] * 2, color=ACCENT, linewidth=2, zorder=2)
        ax.plot(
            value, place - shift, "D", color="white", markeredgecolor=ACCENT, markeredgewidth=1.6,
            markersize=6, zorder=3,
        )  # fmt: skip


def _legend(ax: Any, bars: Sequence[DeltaBar]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if any(bar.value is not None for bar in bars):
        handles.append(Line2D([], [], marker="o", linestyle="", color=FAIR, label="fitted rows"))
    if any(bar.null is not None for bar in bars):
        handles.append(Patch(color="0.87", label="chance on fitted rows (mean, 95 %)"))
    if any(bar.held_out is not None for bar in bars):
        label = "unseen rows, with interval"
        diamond: Any = {"marker": "D", "markerfacecolor": "white", "color": ACCENT, "linewidth": 2}
        handles.append(Line2D([], [], label=label, **diamond))
    below = -0.72 / (1.5 + 0.42 * len(bars))  # under the name of the axis, whatever the height
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, below), ncols=3)
