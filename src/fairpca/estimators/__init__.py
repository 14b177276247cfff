"""The scikit-learn surface: rows become moments, solutions become fitted attributes."""

from fairpca.estimators._fair_pca import FairPCA

__all__ = ["FairPCA"]
