"""Data to try things on: embedded, generated and fetched, each as a scikit-learn Bunch.

``python -m fairpca.datasets census census.csv`` writes one of them to a file.
"""

from fairpca.datasets._made import load_diabetes_sex, make_census, make_two_gaussians
from fairpca.datasets._published import fetch_adult, fetch_compas, fetch_german

__all__ = [
    "fetch_adult",
    "fetch_compas",
    "fetch_german",
    "load_diabetes_sex",
    "make_census",
    "make_two_gaussians",
]
