"""Data to try things on: embedded, generated and fetched, each as a scikit-learn Bunch.

``python -m fairpca.datasets census census.csv`` writes one of them to a file.
"""

from typing import TYPE_CHECKING, Any

from fairpca.datasets._made import load_diabetes_sex, make_census

if TYPE_CHECKING:
    from fairpca.datasets._published import fetch_adult, fetch_compas, fetch_german

__all__ = [
    "fetch_adult",
    "fetch_compas",
    "fetch_german",
    "load_diabetes_sex",
    "make_census",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fairpca.datasets' has no attribute {name!r}")
    from fairpca.datasets import _published  # not needed by embedded data

    return getattr(_published, name)
