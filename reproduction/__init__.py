"""Tables and figures of Olfat and Aswani (AAAI 2019), computed anew: ``python -m reproduction``.

Not part of the installed package: it imports fairpca, and fairpca never imports it.
"""
