"""What a representation gives away to a kernel ridge classifier, and ascent against it.

The leakage is the R² of a ridge regression of the group labels on random Fourier features of the
whitened scores. Its gradient is exact, so that a basis can be chosen for variance and against the
leakage. This is the one room after the moments that needs rows.
"""

from fairpca.adversary._ascent import Ascent, PathTarget, Point
from fairpca.adversary._leakage import Leakage, random_frequencies, whitened
from fairpca.adversary._space import Space, find_space, fit_path
from fairpca.adversary._targets import Targets, form_targets, thinned
from fairpca.adversary._unseen import (
    MIN_ROWS,
    Side,
    Unseen,
    cross_fitted,
    largest_difference,
)

__all__ = [
    "MIN_ROWS",
    "Ascent",
    "Leakage",
    "PathTarget",
    "Point",
    "Side",
    "Space",
    "Targets",
    "Unseen",
    "cross_fitted",
    "find_space",
    "fit_path",
    "form_targets",
    "largest_difference",
    "random_frequencies",
    "thinned",
    "whitened",
]
