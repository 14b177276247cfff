"""What the paper compares with: optimised preprocessing and the fair support vector machine."""

from fairpca.baselines.calmon import CalmonPreprocessor
from fairpca.baselines.fair_svc import FairSVC

__all__ = ["CalmonPreprocessor", "FairSVC"]
