"""Studies: grids of runs that one file declares, trained and compared as a whole.

`study` reads the file, and `checks` its names and counts. `plan` divides the runs into cohorts,
`estimate` estimates what these cost from what `speed` measures, `campaign` trains them, `status`
reports how far each run is, and `export` writes all evaluations as one table. `declared/` has the
studies that come with the package, the paper's among them.
"""

from discover_rl.studies.study import Cell, Study, abouts, declared, load, shipped

__all__ = ["Cell", "Study", "abouts", "declared", "load", "shipped"]
