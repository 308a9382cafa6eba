"""Analyses of single runs and of the paper's theory.

`visitation` shows which states two runs visited, `theory` measures the paper's Theorem 1 in tables,
`video` films saved policies. Import these themselves: each needs other packages.
"""
