"""Leakage of a representation to a kernel ridge classifier, and ascent against it.

The leakage is the R² of a ridge regression of the group labels on random Fourier features of the
whitened scores. Its gradient is exact, so that a basis can be chosen for much variance and little
leakage. This is the one package after the moments that needs rows.
"""

from fairpca.adversary._leakage import Leakage, random_frequencies, whitened
from fairpca.adversary._path import (
    Ascent,
    PathTarget,
    Point,
    Space,
    find_space,
    fit_path,
)
from fairpca.adversary._targets import Targets, form_silently, form_targets

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
