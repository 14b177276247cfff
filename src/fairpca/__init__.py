"""Fair principal component analysis with certificates."""

from importlib.metadata import version

from fairpca.estimators import FairKernelPCA, FairPCA
from fairpca.moments import GroupMoments
from fairpca.solvers import Certificate

__version__ = version("fairpca")
__all__ = ["Certificate", "FairKernelPCA", "FairPCA", "GroupMoments", "__version__"]
