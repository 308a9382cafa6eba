"""The machine and the code: what hardware there is, how programs are compiled, which code ran.

`hardware` knows cores, memory and GPUs, `compilation` compiles JAX programs and keeps them on disk,
`provenance` names the versions that can move a result, `extras` what to install where a package is
missing.
"""
