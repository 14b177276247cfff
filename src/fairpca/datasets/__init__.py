"""Data to try things on: embedded, generated and fetched, each as a scikit-learn Bunch."""

from fairpca.datasets._embedded import load_diabetes_sex, make_two_gaussians
from fairpca.datasets._fetch import fetch_adult, fetch_compas, fetch_german

__all__ = [
    "fetch_adult",
    "fetch_compas",
    "fetch_german",
    "load_diabetes_sex",
    "make_two_gaussians",
]
