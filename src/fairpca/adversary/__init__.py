"""Leakage of a representation to a kernel ridge classifier, and ascent against it.

The one package after the moments that needs rows.
"""

from fairpca.adversary._leakage import (
    Leakage,
    Targets,
    form_silently,
    form_targets,
    random_frequencies,
    whitened,
)
from fairpca.adversary._path import Ascent, Path, PathTarget, Point, Space, find_space

__all__ = [
    "Ascent",
    "Leakage",
    "Path",
    "PathTarget",
    "Point",
    "Space",
    "Targets",
    "find_space",
    "form_silently",
    "form_targets",
    "random_frequencies",
    "whitened",
]
