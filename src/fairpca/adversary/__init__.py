"""What a representation gives away to a kernel ridge classifier, and ascent against it.

The leak is the R² of a ridge regression of the group labels on random Fourier features of the
whitened scores. Its gradient is exact, so that a basis can be chosen for variance and against the
leak. This is the one room after the moments that needs rows.
"""

from fairpca.adversary._ascent import Aim, Ascent, Point
from fairpca.adversary._leak import Leak, random_frequencies, whitened
from fairpca.adversary._space import Space, find_space, follow_path
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
    "Aim",
    "Ascent",
    "Leak",
    "Point",
    "Side",
    "Space",
    "Targets",
    "Unseen",
    "cross_fitted",
    "find_space",
    "follow_path",
    "form_targets",
    "largest_difference",
    "random_frequencies",
    "thinned",
    "whitened",
]
