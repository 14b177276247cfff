"""
Components a person can read
============================

Each component is made of a few features, and the sexes have equal means on it all the same.

The data are 442 patients of scikit-learn's diabetes data; sex is protected and is not a feature.
"""

import numpy as np

from fairpca import FairPCA, SparseFairPCA
from fairpca.datasets import load_diabetes_sex
from fairpca.report import BiplotDisplay, LoadingsDisplay

diabetes = load_diabetes_sex()
X, sex, names = diabetes.data, diabetes.sensitive_features, diabetes.feature_names
dense = FairPCA(n_components=2, standardize=True).fit(X, sensitive_features=sex)
fair = SparseFairPCA(n_components=2, n_nonzero=4, standardize=True).fit(X, sensitive_features=sex)
print("loadings that are not zero:", np.count_nonzero(dense.components_, axis=1), fair.n_nonzero_)

# %%
# Points are loadings. Bars are their balance: the loading times the difference of the sexes in that
# feature. The bars sum to zero, so that the means of the sexes agree. A long bar on the other side
# belongs to a feature that cancels what the others say about sex.
LoadingsDisplay.from_estimator(fair, feature_names=names)

# %%
# Both components at once, over the scores of the patients.
BiplotDisplay.from_estimator(fair, X, sensitive_features=sex, feature_names=names)

# %%
# How many loadings are needed? The path has what each number explains.
path = SparseFairPCA(n_components=2, n_nonzero="path", standardize=True)
path.fit(X, sensitive_features=sex)
for size, share in zip(
    path.path_["n_nonzero"], path.path_["explained_variance_ratio"], strict=True
):
    print(f"{size} loadings explain {share:.1%}")

# %%
# What can be said to a committee:
for number, component in enumerate(fair.components_, start=1):
    balance = fair.balance_[0, number - 1]
    order = np.argsort(-np.abs(component))[: fair.n_nonzero_[number - 1]]
    made_of = ", ".join(f"{names[i]} ({component[i]:+.2f})" for i in order)
    cancels = names[int(np.argmax(np.abs(balance)))]
    share = fair.explained_variance_ratio_[number - 1]
    print(f"Component {number} explains {share:.0%} of the table. It is made of {made_of}.")
    print(f"  The largest group difference that the others cancel is that of {cancels}.")
explained = fair.explained_variance_ratio_.sum()
bound = explained * fair.certificate_.bound / fair.certificate_.objective
print(f"Together they explain {explained:.1%}; no two scores with equal means explain more than")
print(f"{bound:.1%}. The means of the sexes differ by {fair.mean_gap_:.0e}.")
