"""Fair principal component analysis with certificates."""

from importlib.metadata import version

__version__ = version("fairpca")
__all__ = ["__version__"]
