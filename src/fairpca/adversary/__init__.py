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
from fairpca.adversary._path import Ascent, PathTarget, Point, Space, find_space, fit_path

__all__ = [
    "Ascent",
    "Leakage",
    "PathTarget",
    "Point",
    "Space",
    "Targets",
    "find_space",
    "fit_path",
    "form_silently",
    "form_targets",
    "random_frequencies",
    "whitened",
]
