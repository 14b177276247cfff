"""Helpers for small symmetric matrices; knows NumPy, SciPy and the BLAS thread guard only."""

from fairpca.linalg._gaussian import gaussian_delta
from fairpca.linalg._spectral import (
    Array,
    clipping_level,
    complement_basis,
    eigenvalue_excess,
    fantope_eigenvalues,
    finite_scores,
    fix_signs,
    ky_fan,
    orthonormalize,
    project,
    shared_level,
    single_blas_thread,
    spectral_norms,
    symmetrize,
    top_eigenpairs,
)

__all__ = [
    "Array",
    "clipping_level",
    "complement_basis",
    "eigenvalue_excess",
    "fantope_eigenvalues",
    "finite_scores",
    "fix_signs",
    "gaussian_delta",
    "ky_fan",
    "orthonormalize",
    "project",
    "shared_level",
    "single_blas_thread",
    "spectral_norms",
    "symmetrize",
    "top_eigenpairs",
]
