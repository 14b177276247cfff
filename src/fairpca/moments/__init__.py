"""Rows become moments, moments become contrasts; nothing after this package sees a row."""

from fairpca._choices import COMPARE
from fairpca.moments._new_data import ExpectedGaps, GapForecast
from fairpca.moments.contrasts import Contrast, ContrastSet, GroupCovariances
from fairpca.moments.folds import FoldedMoments, GapStatistics, gap_statistics
from fairpca.moments.group_moments import GroupMoments

__all__ = [
    "COMPARE",
    "Contrast",
    "ContrastSet",
    "ExpectedGaps",
    "FoldedMoments",
    "GapForecast",
    "GapStatistics",
    "GroupCovariances",
    "GroupMoments",
    "gap_statistics",
]
