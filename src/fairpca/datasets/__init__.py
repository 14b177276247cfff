"""Data sets: what they are, where they come from, and how they are loaded."""

from fairpca.datasets._embedded import EmbeddedData, load_diabetes_sex

__all__ = ["EmbeddedData", "load_diabetes_sex"]
