"""Rows become moments, moments become contrasts; nothing after this package sees a row."""

from fairpca._choices import COMPARE
from fairpca.moments._new_data import ExpectedGaps
from fairpca.moments.contrasts import Contrast, ContrastSet
from fairpca.moments.folds import FoldedMoments, gap_statistics
from fairpca.moments.group_moments import GroupMoments

__all__ = [
    "COMPARE",
    "Contrast",
    "ContrastSet",
    "ExpectedGaps",
    "FoldedMoments",
    "GroupMoments",
    "gap_statistics",
]
