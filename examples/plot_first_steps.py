"""
First steps
===========

Fit fair components, look at what changed, and at what it cost.

The data are 442 patients of scikit-learn's diabetes data; sex is protected and is not a feature.
"""

from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.datasets import load_diabetes_sex
from fairpca.report import BeforeAfterDisplay, LoadingsDisplay, ScreeDisplay

diabetes = load_diabetes_sex()
X = StandardScaler().fit_transform(diabetes.data)
fair = FairPCA(n_components=2).fit(X, sensitive_features=diabetes.sensitive_features)

# %%
# Plain components keep the sexes apart. On the fair ones their means agree to rounding and their
# covariances nearly. ``transform`` does not ask for the sex.
BeforeAfterDisplay.from_estimator(fair, X, sensitive_features=diabetes.sensitive_features)

# %%
# What that cost: variance. The dotted line is the most that any two components with gaps as small
# can keep on these rows.
ScreeDisplay.from_estimator(fair)

# %%
# And what the first component is made of now.
LoadingsDisplay.from_estimator(fair, feature_names=diabetes.feature_names)

# %%
# Everything else is in the certificate, which a notebook shows as a table.
fair.certificate_
