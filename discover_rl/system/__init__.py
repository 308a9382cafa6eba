"""The machine and the code: what hardware there is, how programs are compiled, which code ran.

`hardware` knows cores, memory and GPUs. `compilation` compiles JAX programs and keeps them on disk.
`provenance` names the versions of code that can move a result. `modules` imports the user's own
modules, and `registry` finds strategies and algorithms by name. `extras` says what to install if an
optional package is missing, `paths` checks paths that users give, and `text` makes text from files
safe to print. Import the modules themselves: `from discover_rl.system import hardware`.
"""
