"""Gaps on held-out folds without the noise of the fold, and what they show by chance.

In the components, f and Q are the gaps of means and covariances on a fold, and E is the covariance
of f. On average ‖f‖² exceeds the square of the true gap by tr E, which is subtracted. For
covariances that would take fourth moments; the product of the gaps of two independent halves of the
fold has no noise to subtract, whatever the distribution. Squares are averaged over folds before the
root is taken: the roots of single folds would bring the noise back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairpca.exceptions import GroupsError
from fairpca.moments._cells import FloatArray, merge
from fairpca.moments._form_contrasts import form_contrasts
from fairpca.moments._table import merge_tables
from fairpca.moments.contrasts import Contrast
from fairpca.moments.group_moments import GroupMoments

DRAWS = 200  # of groups that do not differ


class FoldGap(NamedTuple):
    """What one held-out fold says of one contrast, in d components."""

    square: float  # squared mean gap, less its noise
    rows: FloatArray  # (d, d): covariance of all rows of the contrast
    noise: tuple[float, ...]  # 1/n₊ + 1/n₋ of the fold and of its halves
    mean_gaps: FloatArray  # (2, d): of the halves
    cov_gaps: FloatArray  # (2, d, d)
    places: tuple[int, ...]  # of the halves: folds that share one vary together
    by_units: bool
    is_product: bool  # whether `square` is that of the halves


Fold: TypeAlias = Mapping[str, FoldGap]


class HeldOutGap(NamedTuple):
    """Largest gap over the contrasts, without the noise of the folds; infinite: none is measured.

    `error` is what one standard error of the square adds to the value. `by_fold` has the signed
    roots of the folds' squares, which are negative where noise makes a square so.
    """

    value: float
    error: float
    by_fold: tuple[float, ...]


def align_components(components: FloatArray, reference: FloatArray) -> FloatArray:
    """Rotate components within their space to be nearest to others, so that folds can be averaged.

    Any basis of the space has the same gaps; without a common one products would not add up.
    """
    left, _, right = np.linalg.svd(reference @ components.T)
    return np.asarray(left @ right @ components)


def measure_fold(
    halves: Sequence[GroupMoments],
    components: FloatArray,
    options: Sequence[Any],
    compared: Container[str],
    *,
    places: tuple[int, ...] = (0, 1),
    by_units: bool = False,
    again: bool = False,
) -> Fold:
    """Measure the contrasts named in `compared` on a fold, given by the moments of its halves.

    `again`: both halves have been measured as parts of other folds.
    """
    scores = [half.projected(components) for half in halves]
    if len(scores) < 2:
        return {}
    parts = [_contrasts(part, options, compared) for part in scores]
    table = merge_tables(*(part.table for part in scores))
    whole = _contrasts(GroupMoments(len(components), None, table), options, compared)
    return {
        name: _measure(whole[name], [part[name] for part in parts], places, by_units, again)
        for name in whole
        if all(name in part for part in parts)
    }


def _contrasts(
    moments: GroupMoments, options: Sequence[Any], compared: Container[str]
) -> dict[str, Contrast]:
    """Contrasts with at least two rows on both sides (three: a number), by name."""
    try:
        compare, joint, reference = options
        shape = (moments.table, moments.n_features)
        contrasts = form_contrasts(*shape, compare, joint, reference, 2)
    except GroupsError:  # one group only
        return {}
    return {
        contrast.label: contrast
        for contrast in contrasts
        if contrast.cov_gap is not None and contrast.label in compared
        if contrast.sides[1] is not None or contrast.n_positive > 2
    }


def _measure(
    whole: Contrast,
    parts: Sequence[Contrast],
    places: tuple[int, ...],
    by_units: bool,
    again: bool,
) -> FoldGap:
    assert whole.mean_gap is not None
    gaps = np.array([part.mean_gap for part in parts])
    # Rows of a unit are alike: only the halves are independent. And the squares of halves have been
    # counted if they are measured again: what is new is their product.
    is_product = by_units or again
    if is_product:
        square = float(gaps[0] @ gaps[1])
    else:
        square = float(whole.mean_gap @ whole.mean_gap - np.trace(mean_noise(whole)))
    rows = merge([side for side in whole.sides if side is not None]).covariance
    noise = tuple(map(inverse_rows, (whole, *parts)))
    cov_gaps = np.array([_unbiased(part) for part in parts])
    return FoldGap(square, rows, noise, gaps, cov_gaps, places, by_units, is_product)


def mean_noise(contrast: Contrast) -> FloatArray:
    """Covariance of a mean gap: Σ S_g/(n_g - 1); of a number z, of the part that z leaves."""
    plus, minus = contrast.sides
    assert plus is not None
    assert contrast.mean_gap is not None
    if minus is None:
        residual = plus.covariance - np.outer(contrast.mean_gap, contrast.mean_gap)
        return np.asarray(residual / max(plus.n_rows - 2, 1))
    return np.asarray(plus.covariance / (plus.n_rows - 1) + minus.covariance / (minus.n_rows - 1))


def _unbiased(contrast: Contrast) -> FloatArray:
    """Covariance gap with divisor n - 1: with n, small groups look narrower than they are."""
    plus, minus = contrast.sides
    assert plus is not None
    assert contrast.cov_gap is not None
    if minus is None:
        return contrast.cov_gap
    first, second = (side.covariance * side.n_rows / (side.n_rows - 1) for side in (plus, minus))
    return np.asarray(first - second)


def inverse_rows(contrast: Contrast) -> float:
    """1/n₊ + 1/n₋, or 1/n of a number: the noise of gaps in units of the rows' covariance."""
    return sum(1.0 / side.n_rows for side in contrast.sides if side is not None)


def summarise_mean(folds: Sequence[Fold], pooled: bool = False) -> HeldOutGap:
    """Largest mean gap: average the squares over folds, then take the root.

    `pooled`: the components are the same for all folds, as those of held-out rows are.
    """
    squares: list[Any] = []
    for name in _names(folds):
        gaps = [fold[name] for fold in folds if name in fold]
        halves = np.array([gap.mean_gaps for gap in gaps])
        values = _pooled_squares(halves) if pooled else np.array([gap.square for gap in gaps])
        squares.append((values, None if pooled else [gap.places for gap in gaps]))
    return _summary(*max(squares, key=_mean_of_first, default=((), None)))


def summarise_cov(
    folds: Sequence[Fold], compared: Container[str], pooled: bool = False
) -> HeldOutGap:
    """Largest covariance gap: average the products of halves, then take the root."""
    squares: list[Any] = []
    for name in _names(folds):
        if name in compared:
            gaps = [fold[name] for fold in folds if name in fold]
            values = _cov_squares(np.array([gap.cov_gaps for gap in gaps]), pooled)
            squares.append((values, None if pooled else [gap.places for gap in gaps]))
    return _summary(*max(squares, key=_mean_of_first, default=((), None)))


def _mean_of_first(entry: tuple[Any, Any]) -> float:
    return float(np.mean(entry[0]))


def _cov_squares(gaps: FloatArray, pooled: bool) -> FloatArray:
    """Squared spectral norms by fold, from gaps of shape (…, folds, 2, d, d), free of noise.

    Products of halves are unbiased for the squared Frobenius norm. What share of it is the spectral
    norm is read off the average over folds; the largest eigenvalue of noisy products would be far
    too large.
    """
    flat = gaps.reshape(*gaps.shape[:-2], -1)
    products = _pooled_squares(flat) if pooled else np.sum(flat[..., 0, :] * flat[..., 1, :], -1)
    average = gaps.mean(axis=(-4, -3))
    spectral = np.abs(np.linalg.eigvalsh(average)).max(axis=-1)
    frobenius = np.linalg.norm(average, axis=(-2, -1))
    share = np.divide(spectral, frobenius, out=np.ones_like(spectral), where=frobenius > 0.0)
    return np.asarray(products * share[..., None] ** 2)


def _pooled_squares(halves: FloatArray) -> FloatArray:
    """Products of all pairs of halves, from gaps of shape (…, folds, 2, k): their mean, by half.

    Components that differ from fold to fold allow products within a fold only. With k folds, all
    pairs have a k-th of their variance. A mean over pairs varies by half twice as much as the
    average product of a half with the others, so deviations are doubled; where nothing differs the
    error is then too large by √2.
    """
    if halves.shape[-3] < 2:
        return np.asarray(np.sum(halves[..., 0, :] * halves[..., 1, :], axis=-1))
    each = halves.reshape(*halves.shape[:-3], -1, halves.shape[-1])
    others = each.sum(axis=-2, keepdims=True) - each
    products = np.sum(each * others, axis=-1) / (each.shape[-2] - 1)
    return np.asarray(2.0 * products - products.mean(axis=-1, keepdims=True))


def _names(folds: Iterable[Fold]) -> list[str]:
    """Contrasts that more than one fold has, where there are any: the largest of one is noise."""
    counts = Counter(name for fold in folds for name in fold)
    return [name for name, count in counts.items() if count > 1] or list(counts)


def _summary(
    squares: Sequence[float] | FloatArray, places: Sequence[Sequence[int]] | None
) -> HeldOutGap:
    if not len(squares):
        return HeldOutGap(np.inf, 0.0, ())
    values = np.asarray(squares)
    square = max(float(values.mean()), 0.0)
    error = _standard_error(values, places) if len(values) > 1 else 0.0
    roots = np.sign(values) * np.sqrt(np.abs(values))
    return HeldOutGap(square**0.5, (square + error) ** 0.5 - square**0.5, tuple(roots.tolist()))


def _standard_error(values: FloatArray, places: Sequence[Sequence[int]] | None) -> float:
    """Return the error of the mean of folds, some of which share a half and so vary together."""
    n, apart = len(values), values - values.mean()
    squares = float(apart @ apart)
    variance = squares / (n * (n - 1))
    if places is not None:
        # The sum of products of deviations over folds that share a half, and how many these are:
        # each is too small by the variance of the mean, which all deviations are taken from.
        sums, counts = np.zeros((2, 1 + max(map(max, places))))
        np.add.at(sums, np.array(places).ravel(), np.repeat(apart, 2))
        np.add.at(counts, np.array(places).ravel(), 1.0)
        shared, sharing = float(sums @ sums) - squares, float(counts @ counts) - n
        variance = max(variance, shared / (n**2 - sharing)) if sharing < n**2 else variance
    return float(np.sqrt(variance))


def chance_levels(
    folds: Sequence[Fold], compared: Container[str], pooled: bool
) -> tuple[float, float]:
    """Average mean and covariance gap that groups would show on these folds if they did not differ.

    Gaps are drawn from normal distributions with the covariance of all rows, and measured as those
    of the folds are. How far the halves are apart, beyond what normal rows would be, scales the
    draws: heavy tails (covariances) and units (means) have more noise than the counts say.
    """
    names = _names(folds)
    if not names:
        return np.inf, np.inf
    random = np.random.default_rng(0)
    every = [fold[name] for fold in folds for name in fold]
    mean_excess, cov_excess = _excess(every)
    means, covs = np.zeros(DRAWS), np.zeros(DRAWS)
    for name in names:
        gaps = [fold[name] for fold in folds if name in fold]
        if pooled:
            drawn = np.stack([_draw_means(gap, mean_excess, random) for gap in gaps], axis=1)
            squares = _pooled_squares(drawn).mean(axis=1)
        else:
            squares = sum(_draw_square(gap, mean_excess, random) for gap in gaps) / len(gaps)
        means = np.maximum(means, squares)
        if name in compared:
            drawn = np.stack([_draw_gaps(gap, cov_excess, random) for gap in gaps], axis=1)
            covs = np.maximum(covs, _cov_squares(drawn, pooled).mean(axis=1))
    return float(np.sqrt(means).mean()), float(np.sqrt(covs).mean())


def _excess(gaps: Sequence[FoldGap]) -> tuple[float, float]:
    """Squared distance of the halves over that of normal rows, of means (by units) and of Q."""
    mean_apart = cov_apart = mean_normal = cov_normal = 0.0
    for gap in gaps:
        trace, scale = float(np.trace(gap.rows)), sum(gap.noise[1:])
        mean_apart += float(np.sum((gap.mean_gaps[0] - gap.mean_gaps[1]) ** 2))
        mean_normal += trace * scale
        cov_apart += float(np.sum((gap.cov_gaps[0] - gap.cov_gaps[1]) ** 2))
        cov_normal += (trace**2 + float(np.sum(gap.rows**2))) * scale
    by_units = any(gap.by_units for gap in gaps)
    mean_excess = mean_apart / mean_normal if by_units and mean_normal else 1.0
    return mean_excess, cov_apart / cov_normal if cov_normal else 1.0


def _draw_square(gap: FoldGap, excess: float, random: np.random.Generator) -> FloatArray:
    """Squares of mean gaps whose true value is zero, less their noise."""
    if gap.is_product:
        return np.asarray(np.prod(_draw_means(gap, excess, random), axis=1).sum(axis=1))
    values = np.maximum(np.linalg.eigvalsh(gap.rows), 0.0) * excess
    return np.asarray((random.chisquare(1, (DRAWS, len(values))) - 1.0) @ values * gap.noise[0])


def _draw_means(gap: FoldGap, excess: float, random: np.random.Generator) -> FloatArray:
    """Mean gaps of halves whose true value is zero, shape (draws, 2, d), in the axes of rows."""
    values = np.maximum(np.linalg.eigvalsh(gap.rows), 0.0) * excess
    normal = random.standard_normal((DRAWS, 2, len(values)))
    return np.asarray(normal * np.sqrt(values * np.array(gap.noise[1:])[:, None]))


def _draw_gaps(gap: FoldGap, excess: float, random: np.random.Generator) -> FloatArray:
    """Covariance gaps of halves whose true value is zero, shape (draws, 2, d, d)."""
    values, vectors = np.linalg.eigh(gap.rows)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    d = len(values)
    normal = random.standard_normal((DRAWS, 2, d, d))
    normal = root @ ((normal + normal.swapaxes(2, 3)) / np.sqrt(2.0)) @ root.T
    scale = np.sqrt(excess * np.array(gap.noise[1:]))
    return np.asarray(normal * scale[:, None, None])
