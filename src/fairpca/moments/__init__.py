"""Rows become moments, moments become contrasts; nothing after this room sees a row."""

from fairpca.moments.contrasts import Contrast, ContrastSet, ProjectedGaps
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.summaries import Pooled, Standardization

__all__ = [
    "COMPARE",
    "Contrast",
    "ContrastSet",
    "GroupMoments",
    "Pooled",
    "ProjectedGaps",
    "Standardization",
]
