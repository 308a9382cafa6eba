"""A study's report: figures, tables, a summary and a page, made from its records alone.

    <out>/report/
      index.html                          all of it as one page, to click through
      summary.md                          what can be said, and what is missing
      curves/<group>-{paper,iqm}.*        all tasks of an algorithm, as PNG and SVG
      curves/<group>/<task>-{paper,iqm}.* each task
      curves/<group>-{aggregate,profile,improvement,efficiency}.*
      tables/<group>.{md,tex,csv}, tables/<group>-{area,details}.tex, tables/<group>-comparisons.csv

The same records give the same files, byte for byte. What an earlier report left there and this one
does not write is removed; files of any other name are not touched.

`folder` writes it. `data` reads records into arrays, `bands` makes curves of them, `groups` lays
cells out side by side, `comparisons` and `across` compare them by `statistics`, `resampling` has
the bootstrap. `summary` puts it into words, `tables` into tables, `learning_curves` and
`comparison_figures` into figures in one `style`, `payload` and `page` into the page that `live`
serves. `discovery` says who found a sparse reward, `leaderboard` ranks the arms of a suite.
`published` has the paper's own results, `methods` which settings make another method, `formatting`
how numbers are written.
"""

from discover_rl.report.folder import Written, write
from discover_rl.report.leaderboard import write as write_leaderboard

__all__ = ["Written", "write", "write_leaderboard"]
