"""What can be asked for; apart from the numbers, so that a command line can offer it at once."""

METHODS = {
    "linear": ("svm", "search", "exact"),
    "rbf": ("svm",),
    "cdf": ("search", "sample", "exact"),
}
"""Methods of each family of classifiers, the default first."""

FAMILIES = tuple(METHODS)
"""Half-spaces, Gaussian-kernel SVMs and orthants."""
