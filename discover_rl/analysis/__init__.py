"""Analyses beside studies.

`visitation` shows which states two runs visited, `theory` measures the paper's Theorem 1 in tables,
`video` films saved policies.
"""
