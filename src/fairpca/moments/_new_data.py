"""What moments say about gaps on new data: closed forms, a bound for every subspace, and draws.

In coordinates A (components, or components over their deviations), f is the mean gap of the fitted
rows and E = Σ S_g/(n_g - 1) its covariance. The fitted f is mostly zero, the true one is not: its
square is tr AEAᵀ on average. Hotelling's T² bounds the length of the error of f in units of E, for
all directions at once, and so for every subspace, whichever way it was chosen from the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import f as f_distribution

from fairpca._present import number
from fairpca.linalg import symmetrize
from fairpca.moments._cells import ROUNDING, Cell, FloatArray
from fairpca.moments._form_contrasts import form_contrasts
from fairpca.moments._held_out import mean_noise
from fairpca.moments.contrasts import Contrast
from fairpca.moments.group_moments import GroupMoments


class GapForecast(NamedTuple):
    """Expected gaps in one unit; None: not computed."""

    mean_gap: float  # on the population
    mean_gap_new: float | None  # as measured on `n_new` rows, whose noise it has
    # What the mean gap on the population exceeds in at most 1 - `confidence` of all samples;
    # infinite where there are too few rows for the number of features.
    mean_bound: float
    cov_gap: float | None  # on the population


@dataclass(frozen=True)
class ExpectedGaps:
    """What to expect of fitted components on new data; from `FairPCA.expected_gaps`.

    Parameters
    ----------
    features, deviations
        The forecast in the units of `mean_gap_` and `cov_gap_`, those of the features as they are
        scaled, and in standard deviations of the component scores, as of whitened components. Each
        has mean_gap and cov_gap of the population, mean_gap_new of `n_new` rows, and mean_bound,
        which holds with `confidence` and is infinite for too few rows.
    n_new : int or None
        Number of rows of new data.
    confidence : float
        Of the bound.
    refits : int
        Number of fits behind the covariance gap.
    counted : {"rows", "units"}, default "rows"
        What the noise is reckoned by.

    See Also
    --------
    fairpca.FairPCA.expected_gaps : What makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> X, sex = np.random.default_rng(0).normal(size=(500, 3)), np.arange(500) % 2
    >>> FairPCA(1).fit(X, sensitive_features=sex).expected_gaps(refits=0)
    ExpectedGaps(
      mean gap: expected on new data 0.0..., at most 0... (95 %), in units of the features
      mean gap: expected on new data 0.0..., at most 0... (95 %), in component deviations)
    """

    features: GapForecast
    deviations: GapForecast
    n_new: int | None
    confidence: float
    refits: int
    counted: str = "rows"

    def text(self, unit: str = "features") -> str:
        """One sentence in one of the units, ``"features"`` or ``"deviations"``."""
        gaps = self.features if unit == "features" else self.deviations
        new = gaps.mean_gap if gaps.mean_gap_new is None else gaps.mean_gap_new
        where = "new data" if self.n_new is None else f"{self.n_new} rows of new data"
        bound = f"no bound with so few {self.counted} for so many features"
        if np.isfinite(gaps.mean_bound):
            bound = f"at most {number(gaps.mean_bound)} ({100 * self.confidence:g} %)"
        if self.n_new is not None:
            bound += " on the population"
        cov = "" if gaps.cov_gap is None else f"; covariance gap: expected {number(gaps.cov_gap)}"
        return f"mean gap: expected on {where} {number(new)}, {bound}{cov}"

    def __repr__(self) -> str:
        first, second = self.text("features"), self.text("deviations")
        return (
            f"ExpectedGaps(\n  {first}, in units of the features\n"
            f"  {second}, in component deviations)"
        )


def forecast_means(
    contrasts: Sequence[Contrast],
    components: FloatArray,
    turn: FloatArray,
    constrained: bool,
    new_share: float | None,
    confidence: float,
    by_unit: Mapping[str, tuple[FloatArray, int]] | None = None,
) -> GapForecast:
    """Largest expected mean gap and bound over contrasts, along `turn` (k, d) times components.

    `new_share` is the number of new rows over that of the fitted rows. `by_unit` has the noise of
    the gaps of the component scores, and its degrees of freedom, where rows belong to units.
    """
    directions = turn @ components
    level = 1.0 - (1.0 - confidence) / max(len(contrasts), 1)  # for all contrasts at once
    expected, on_new, bound = [0.0], [0.0], [0.0]
    for contrast in contrasts:
        assert contrast.mean_gap is not None
        parts = _noise_of_sides(contrast)
        noise = directions @ sum(part for part, _ in parts) @ directions.T
        rank, freedom = _rank_and_freedom(parts)
        if by_unit is not None:
            scores, freedom = by_unit.get(contrast.label, (np.zeros((len(components),) * 2), 0))
            noise = turn @ scores @ turn.T
        fitted = float(np.sum((directions @ contrast.mean_gap) ** 2))
        error = float(np.trace(noise))
        # A constraint removes what the rows show, so that the error of f comes on top of it. Plain
        # components do not know f, and what the rows show includes the error.
        square = fitted + error if constrained else max(fitted - error, 0.0)
        expected.append(square**0.5)
        if new_share is not None:  # each group has its share of the new rows
            on_new.append((square + error / new_share) ** 0.5)
        largest = max(float(np.linalg.eigvalsh(noise)[-1]), 0.0)
        bound.append(fitted**0.5 + (hotelling(rank, freedom, level) * largest) ** 0.5)
    return GapForecast(max(expected), None if new_share is None else max(on_new), max(bound), None)


def _noise_of_sides(contrast: Contrast) -> list[tuple[FloatArray, int]]:
    """Covariance of the mean of each side, S_g/(n_g - 1), and its degrees of freedom."""
    plus, minus = contrast.sides
    assert plus is not None
    if minus is None:
        return [(mean_noise(contrast), max(plus.n_rows - 2, 1))]
    parts = []
    for side, other in ((plus, minus), (minus, plus)):
        free = side.n_rows - 1
        parts.append((side.covariance / free, free) if free else (other.covariance, 1))
    return parts


def hotelling(rank: int, freedom: float, confidence: float) -> float:
    """Quantile of Hotelling's T²; it tends to that of χ², and is infinite with too few rows."""
    left = freedom - rank + 1.0
    if not rank or left < 1.0:
        return float(np.inf) if rank else 0.0
    return float(freedom * rank / left * f_distribution.ppf(confidence, rank, left))


def _rank_and_freedom(parts: Sequence[tuple[FloatArray, int]]) -> tuple[int, float]:
    """Directions that the noise has, and its degrees of freedom (Krishnamoorthy and Yu, 2004)."""
    total = np.asarray(sum(part for part, _ in parts))
    deviation = np.sqrt(np.diag(total))
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)
    values, vectors = np.linalg.eigh(total * np.outer(scale, scale))
    kept = values > ROUNDING * len(values) * max(values[-1], 0.0)
    rank = int(np.count_nonzero(kept))
    if not rank:
        return 0, 1.0
    whiten = (scale[:, None] * vectors[:, kept]) / np.sqrt(values[kept])
    spread = 0.0
    for part, free in parts:
        inside = whiten.T @ part @ whiten
        spread += (float(np.sum(inside**2)) + float(np.trace(inside)) ** 2) / free
    return rank, (rank + rank**2) / spread


def draw_moments(moments: GroupMoments, random: np.random.Generator) -> GroupMoments:
    """Moments that as many normal rows could have, were the moments at hand the truth."""
    cells = {key: _draw_cell(cell, random) for key, cell in moments.table.cells.items()}
    return replace(moments, table=replace(moments.table, cells=cells))


def _draw_cell(cell: Cell, random: np.random.Generator) -> Cell:
    """Draw mean and scatter (Wishart) of a cell, and how numeric attributes go with them."""
    values, vectors = np.linalg.eigh(cell.covariance)
    kept = values > ROUNDING * len(values) * max(values[-1], 0.0)
    root = vectors[:, kept] * np.sqrt(values[kept])
    rank, n, p = root.shape[1], cell.n_rows, len(root)
    free = n - 1
    normal = random.standard_normal((rank, min(free, rank)))
    if free > rank:  # Bartlett's factor: as many columns as directions, not as rows
        normal = np.tril(normal, -1)
        normal[np.diag_indices(rank)] = np.sqrt(random.chisquare(free - np.arange(rank)))
    factor = root @ normal
    deviation = np.sqrt(cell.z_scatter * cell.weight / n)
    turn = random.standard_normal((len(deviation), rank, rank))
    turn = root @ ((turn + turn.swapaxes(1, 2)) / np.sqrt(2.0)) @ root.T
    shift = random.standard_normal((len(deviation), rank)) @ root.T
    return replace(
        cell,
        mean=cell.mean + root @ random.standard_normal(rank) / np.sqrt(n),
        scatter=symmetrize(factor @ factor.T) * cell.weight / n,
        cross=cell.cross + deviation[:, None] * shift,
        third=cell.third + deviation[:, None, None] * turn.reshape(-1, p, p),
    )


def cov_gap_on(contrasts: Sequence[Contrast], directions: FloatArray) -> float:
    """Largest covariance gap of contrasts along directions of shape (d, p)."""
    gaps = [contrast.cov_gap for contrast in contrasts if contrast.cov_gap is not None]
    norms = [float(np.linalg.norm(directions @ gap @ directions.T, ord=2)) for gap in gaps]
    return max(norms, default=0.0)


def in_deviations(directions: FloatArray, covariance: FloatArray) -> FloatArray:
    """Turn directions so that their scores are uncorrelated with variance 1; zero stays zero."""
    values, vectors = np.linalg.eigh(directions @ covariance @ directions.T)
    kept = values > ROUNDING * max(float(np.trace(covariance)), 0.0)
    turned = (vectors[:, kept] / np.sqrt(values[kept])).T @ directions
    return np.asarray(turned)


def compared_contrasts(moments: GroupMoments, *options: Any) -> list[Contrast]:
    """Contrasts whose means are compared; the options are those of `GroupMoments.contrasts`."""
    if not moments.attributes:
        return []
    contrasts = form_contrasts(moments.table, moments.n_features, *options)
    return [contrast for contrast in contrasts if contrast.mean_gap is not None]
