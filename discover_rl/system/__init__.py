"""The machine and the code: what hardware there is, how programs are compiled, which code ran.

`hardware` knows cores, memory and GPUs, `compilation` compiles JAX programs and keeps them on disk,
`provenance` names the versions that can move a result, `modules` imports those of the user, and
`registry` has strategies and algorithms by their names, `extras` what to install where a package is
missing, and `paths` checks those that users give.
"""
