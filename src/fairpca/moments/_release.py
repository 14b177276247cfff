"""Moments that leave their holder: no cell that is nearly a person, noise, features of one order.

A cell of one row is that row. A column of zeros and ones with a single one among the rows of a cell
is as telling: its products with the other columns are that row too, and so are those of a column
that is missing once. Where rows have weights, a row that outweighs the others is nearly their sum:
a weight counts as many rows as the heaviest row fits into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from fairpca._choices import MIN_ROWS
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import symmetrize
from fairpca.moments._cells import Cell, FloatArray
from fairpca.moments._maps import MissingIndicators, embed
from fairpca.moments._table import CellTable, Key, relabel
from fairpca.rows import Level, Rows
from fairpca.rows.groups import sort_levels

if TYPE_CHECKING:
    from fairpca.moments.group_moments import GroupMoments

OTHER = "other"
"""Group to which small cells are added."""
_CLOSE = 1e-9  # relative, of the variance of zeros and ones
_WHOLE = 1e-6  # rounding of a number of rows
_SHOWN = 5
_FAR = 1e100  # deviations beyond which a square is no number; such rows are clipped anyhow


def release(moments: GroupMoments, min_rows: int, *, merge_small: bool = False) -> GroupMoments:
    """Return moments that may be written, or refuse cells with fewer than `min_rows` rows."""
    if isinstance(min_rows, bool) or not isinstance(min_rows, Integral) or min_rows < 1:
        raise InvalidInputError(
            f"min_rows={min_rows!r}: give a whole number of at least 1.", parameter="min_rows"
        )
    if merge_small:
        moments = _merge_small(moments, int(min_rows))
    table = moments.table
    small = [
        f"{table.name_key(key)} ({_size(cell, min_rows)})"
        for key, cell in table.cells.items()
        if _is_small(cell, cell.weight, min_rows)
    ]
    if small:
        way = "Make strata coarser, leave" if merge_small else "Leave"
        settings = [] if merge_small else [("merge_small", True)]
        raise InvalidInputError(
            f"{len(small)} of {len(table.cells)} cells have fewer than {min_rows} rows: "
            f"{_listed(small)}. Sums of so few rows are nearly the rows themselves. {way} those "
            "rows out, or write them with open eyes.",
            settings=[*settings, ("min_rows", 1)],
        )
    rare = list(_rare_values(moments, int(min_rows))) if min_rows > 1 else []
    if rare:
        raise InvalidInputError(
            f"columns tell fewer than {min_rows} rows of a cell from all others: {_listed(rare)}. "
            "Their products with other columns are nearly the rows themselves. Leave such columns "
            "out, put rare values into one class, or write them with open eyes.",
            settings=[("min_rows", 1)],
        )
    return moments


def _merge_small(moments: GroupMoments, min_rows: int) -> GroupMoments:
    """Add small cells to the cell "other" of their stratum."""
    table, width = moments.table, len(moments.table.categorical)

    def name(key: Key, cell: Cell) -> Key:
        return (OTHER,) * width + key[width:] if _is_small(cell, cell.weight, min_rows) else key

    keys = [key for key, cell in table.cells.items() if name(key, cell) != key]
    merged = sorted({*moments.merged, *map(table.name_key, keys)})
    return replace(moments, table=relabel(table, name), merged=tuple(merged))


def _rare_values(moments: GroupMoments, min_rows: int) -> Iterator[str]:
    """Name columns of zeros and ones, or of missing values, that mark a few rows of a cell."""
    span, table = moments.span, moments.table
    names = moments.feature_names or tuple(f"x{i}" for i in range(moments.n_features))
    missing = () if moments.indicators is None else moments.indicators.incomplete
    words = [*names, *(f"missing {name}" for name in missing), *table.numeric]
    for key, cell in table.cells.items():
        mean, variance = cell.mean, np.diag(cell.covariance)
        if span is not None:
            mean, variance = span.place(mean), span.spread(cell.covariance)
        mean = np.append(mean, cell.z_mean)
        variance = np.append(variance, cell.z_scatter / cell.weight)
        marked = np.minimum(mean, 1.0 - mean)
        few = _rows_of(cell, marked * cell.weight)
        binary = np.abs(variance - mean * (1.0 - mean)) <= _CLOSE * np.abs(mean)
        for place in np.flatnonzero(binary & (marked > _CLOSE) & (few < min_rows)):
            least = "at least " * (cell.weight != cell.heaviest * cell.n_rows)
            count = f"{least}{max(few[place], 1):.0f} of {cell.n_rows} rows"
            yield f"{words[place]!r} ({count} of {table.name_key(key)})"
        sizes: dict[Any, float] = {}
        if (part := cell.targets) is not None:
            sizes = {"known": part.weight, "missing": cell.weight - part.weight}
            shares = zip(table.targets, part.y_mean, strict=True)
            sizes |= {label: s * part.weight for (_, label), s in shares if label is not None}
        for label, weight in sizes.items():
            if weight > _CLOSE * cell.weight and _is_small(cell, weight, min_rows):
                count = max(_rows_of(cell, weight), 1)
                yield f"target {label} ({count:.0f} rows of {table.name_key(key)})"


def _rows_of(cell: Cell, weight: Any) -> Any:
    """Fewest rows of a cell that have a weight together: exact where all rows weigh the same."""
    return np.floor(weight / cell.heaviest + _WHOLE)


def _is_small(cell: Cell, weight: float, min_rows: int) -> bool:
    """Whether a part of a cell has few rows, or one that outweighs so many others."""
    return bool(_rows_of(cell, weight) < min_rows)


def _size(cell: Cell, min_rows: int) -> str:
    if cell.n_rows < min_rows:
        return f"{cell.n_rows} row{'s' * (cell.n_rows > 1)}"
    return f"{cell.n_rows} rows, one with {100 * cell.heaviest / cell.weight:.0f} % of the weight"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{'; '.join(names[:_SHOWN])}{more}"


def align_features(left: GroupMoments, right: GroupMoments) -> tuple[GroupMoments, GroupMoments]:
    """Give both the same features in the same order, with the indicators of either."""
    ours, theirs = left.feature_names, right.feature_names
    if left.columns is None or right.columns is None or ours == theirs:
        if left.n_features != right.n_features:
            raise InvalidInputError(
                f"moments of {left.n_features} and of {right.n_features} features cannot be merged."
            )
        if ours != theirs and None not in (ours, theirs):
            raise InvalidInputError(
                f"moments of different features cannot be merged: {ours} and {theirs}. Use the "
                "same columns in the same order for every batch."
            )
        return left, right
    mine, other = _features_by_column(left), _features_by_column(right)
    if lacking := sorted(mine.keys() ^ other.keys()):
        where = "the later part" if lacking[0] in mine else "what is there so far"
        raise InvalidInputError(
            f"moments of different features cannot be merged: {where} lacks column {lacking[0]!r}. "
            "Use the same columns in every part."
        )
    plain = [name for name in mine if name in mine[name]]
    if both := [name for name in mine if (name in plain) != (name in other[name])]:
        raise InvalidInputError(
            f"moments of different features cannot be merged: column {both[0]!r} holds numbers in "
            "one part and text in another. Give it the same type everywhere."
        )
    order = (*plain, *(name for name in mine if name not in plain))
    pairs = [(f, name) for name in order for f in sorted({*mine[name], *other[name]})]
    names, columns = tuple(f for f, _ in pairs), tuple(name for _, name in pairs)
    return place_features(left, names, columns), place_features(right, names, columns)


def _features_by_column(moments: GroupMoments) -> dict[str, list[str]]:
    """Return the indicators of each column that is text; a number is its own feature."""
    features: dict[str, list[str]] = {}
    for name, column in zip(moments.feature_names or (), moments.columns or (), strict=True):
        features.setdefault(column, []).append(name)
    # A text column without any value has no indicator but that of missing values.
    for column in () if moments.indicators is None else moments.indicators.incomplete:
        features.setdefault(column, [])
    return features


def place_features(
    moments: GroupMoments, names: tuple[str, ...], columns: Sequence[str]
) -> GroupMoments:
    """Give moments all features; those they lack were zero in all rows that have their column."""
    if moments.feature_names == names:
        return moments
    place = {name: index for index, name in enumerate(names)}
    index = [place[name] for name in moments.feature_names or ()]
    indicators, size = moments.indicators, len(names)
    if indicators is not None:
        fill = np.zeros(size)
        fill[index] = indicators.fill
        index += range(size, size + len(indicators.incomplete))
        size += len(indicators.incomplete)
        indicators = MissingIndicators(tuple(columns), indicators.incomplete, fill)
    table, span = embed((moments.table, moments.span), np.array(index, dtype=np.intp), size)
    return replace(
        moments,
        n_features=len(names),
        feature_names=names,
        table=table,
        span=span,
        indicators=indicators,
        one_hot=None,
        columns=tuple(columns),
    )


# Noise that hides every single row: (ε, δ)-differential privacy. Letters: u a row in deviations
# known beforehand, clipped to the length L; M the sum of (L, u)(L, u)ᵀ over the rows of a group,
# which holds their count, sum and scatter. A row is in one group, and moves its M by
# ‖(L, u)‖² ≤ 2L² in the Frobenius norm: that is the sensitivity of all groups together.
def noise_deviation(epsilon: float, delta: float) -> float:
    """Deviation of Gaussian noise for sensitivity 1: the analytic mechanism (Balle, Wang 2018)."""

    def excess(sigma: float) -> float:  # of the δ that noise of this deviation has, decreasing
        a, b = 0.5 / sigma, epsilon * sigma
        return float(ndtr(a - b) - np.exp(epsilon + log_ndtr(-a - b)) - delta)

    classical = np.sqrt(2.0 * np.log(1.25 / delta)) / min(epsilon, 1.0)
    return float(brentq(excess, 1e-6, 2.0 * classical, xtol=1e-12, rtol=1e-12)) * (1.0 + 1e-9)


def clip_rows(X: FloatArray, center: FloatArray, scale: FloatArray, length: float) -> FloatArray:
    """Return rows in deviations, none longer than `length`."""
    with np.errstate(over="ignore"):
        u = np.clip((X - center) / scale, -_FAR, _FAR)
    norms = np.linalg.norm(u, axis=1, keepdims=True)
    return np.asarray(u * np.minimum(1.0, length / np.maximum(norms, length)))


def sum_squares(u: FloatArray, length: float) -> FloatArray:
    """Return M, the sum of (L, u)(L, u)ᵀ."""
    rows = np.column_stack([np.full(len(u), length), u])
    return np.asarray(rows.T @ rows)


def add_noise(M: FloatArray, sigma: float, random: np.random.Generator) -> FloatArray:
    """Add noise of one deviation along every direction of the Frobenius norm."""
    noise = random.normal(size=M.shape) * sigma
    # Off the diagonal an entry counts twice in that norm, so that it has half the variance.
    noisy = M + (noise + noise.T) / 2.0
    np.fill_diagonal(noisy, np.diag(M) + np.diag(noise))
    return noisy


def read_cell(M: FloatArray, length: float, center: FloatArray, scale: FloatArray) -> Cell:
    """Return the nearest moments that rows can have, in the units of the features."""
    weight = max(float(M[0, 0]) / length**2, float(MIN_ROWS))
    mean = M[0, 1:] / length / weight
    mean = mean * min(1.0, length / max(float(np.linalg.norm(mean)), length))
    values, vectors = np.linalg.eigh(M[1:, 1:] - weight * np.outer(mean, mean))
    scatter = (vectors * np.maximum(values, 0.0)) @ vectors.T
    p = len(mean)
    attributes = (*np.zeros((3, 0)), np.zeros((0, p)), np.zeros((0, p, p)))
    features = (center + scale * mean, np.zeros(p), symmetrize(scatter * np.outer(scale, scale)))
    return Cell(round(weight), weight, 1.0, *features, *attributes)


def private_table(
    rows: Rows,
    groups: Sequence[Level],
    units: tuple[ArrayLike, ArrayLike],
    budget: tuple[float, float],
    bound: float,
    random_state: Any,
) -> CellTable:
    """Sum rows by group with noise; `units` are centre and scale, the budget is ε and δ."""
    epsilon, delta = budget
    for name, value, top in (
        ("epsilon", epsilon, np.inf),
        ("delta", delta, 1.0),
        ("bound", bound, np.inf),
    ):
        if isinstance(value, bool) or not 0.0 < value < top:
            most = "" if np.isinf(top) else " and below 1"
            raise InvalidInputError(
                f"{name}={value!r}: give a number above 0{most}.", parameter=name
            )
    codes, levels = _read_groups(rows, groups)
    center, scale = (
        _read_units(n, v, rows.X.shape[1]) for n, v in zip(("center", "scale"), units, strict=True)
    )
    length, random = bound * np.sqrt(rows.X.shape[1]), np.random.default_rng(random_state)
    sigma = noise_deviation(epsilon, delta) * 2.0 * length**2
    u = clip_rows(np.asarray(rows.X, dtype=np.float64), center, scale, length)
    cells: dict[Key, Cell] = {}
    for code, level in enumerate(levels):
        noisy = add_noise(sum_squares(u[codes == code], length), sigma, random)
        cells[(level,)] = read_cell(noisy, length, center, scale)
    assert rows.groups is not None
    return CellTable(rows.groups.names, (), (), cells)


def _read_groups(rows: Rows, groups: Sequence[Level]) -> tuple[Any, tuple[Level, ...]]:
    """Return the place of each row's group among those that were named beforehand."""
    known = () if rows.groups is None else rows.groups.categorical
    if rows.groups is None or len(known) != 1 or rows.groups.numeric:
        raise GroupsError(
            "moments with noise know one attribute that names groups: give one column, and put "
            "numbers into classes.",
            parameter="sensitive_features",
        )
    levels = sort_levels(set(groups))
    if len(levels) < 2 or (lacking := [n for n in known[0].levels if n not in levels]):
        problem = "are fewer than two" if len(levels) < 2 else f"lack {lacking[0]!r}"
        raise GroupsError(
            f"groups={list(groups)!r} {problem}: name all groups that may occur, because which of "
            "them do is a fact about the rows.",
            parameter="groups",
        )
    places = np.array([levels.index(level) for level in known[0].levels], dtype=np.intp)
    return places[known[0].codes], levels


def _read_units(name: str, value: ArrayLike, n_features: int) -> FloatArray:
    """Return a centre or scale for each feature."""
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim and numbers.shape != (n_features,):
        raise InvalidInputError(
            f"{name} has shape {numbers.shape}: give one number for each of {n_features} features.",
            parameter=name,
        )
    numbers = np.broadcast_to(numbers, (n_features,))
    if not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0.0).any()):
        what = "positive numbers" if name == "scale" else "numbers"
        raise InvalidInputError(f"{name} holds {value!r}: give finite {what}.", parameter=name)
    return numbers
