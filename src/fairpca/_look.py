"""One look for every picture: told apart by colour-blind readers, and without any colour."""

from __future__ import annotations

from typing import Any, NamedTuple

from fairpca.exceptions import InvalidInputError

# Okabe and Ito's palette without its yellow, which vanishes on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

FAIR, PLAIN, BOUND = "#0072b2", "0.45", "#000000"
ACCENT = "#d55e00"
SHADES = "Blues"  # white is nothing, and darker is more in grey as well

_RC = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.edgecolor": "0.4",
    "axes.grid": False,
    "font.size": 9.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "xtick.color": "0.25",
    "ytick.color": "0.25",
}


class Style(NamedTuple):
    """Colour, marker and line of a group."""

    colour: str
    marker: str
    line: Any


def group_style(index: int) -> Style:
    """Return the style of the group at a position; its parts have coprime periods."""
    return Style(
        _COLOURS[index % len(_COLOURS)],
        _MARKERS[index % len(_MARKERS)],
        _LINES[index % len(_LINES)],
    )


def look() -> Any:
    """Return a context in which matplotlib draws in this look."""
    return _matplotlib().rc_context(_RC)


def draw_on(ax: Any, size: tuple[float, float] = (6.0, 4.0)) -> Any:
    """Return the axes given, or those of a new figure."""
    return _new_figure(size).subplots() if ax is None else ax


def split(ax: Any, size: tuple[float, float], n_rows: int, n_columns: int, **ratios: Any) -> Any:
    """Return a grid of places inside the axes given, which vanish, or on a new figure."""
    if ax is None:
        return _new_figure(size).add_gridspec(n_rows, n_columns, **ratios)
    place = ax.get_subplotspec()
    if place is None:
        raise InvalidInputError(
            "ax has no place in a grid to be divided: make it with matplotlib.pyplot.subplots.",
            parameter="ax",
        )
    ax.set_axis_off()
    return place.subgridspec(n_rows, n_columns, **ratios)


def _new_figure(size: tuple[float, float]) -> Any:
    _matplotlib()
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained")


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib: install it with pip install 'fairpca[plots]'."
        ) from error
    return matplotlib
