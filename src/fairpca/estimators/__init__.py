"""The scikit-learn surface: estimators that turn rows into moments and solutions into attributes."""

from fairpca.estimators._fair_pca import FairPCA

__all__ = ["FairPCA"]
