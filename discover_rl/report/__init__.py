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

`folder` writes the files. `data` reads records into arrays, `bands` makes learning curves of them,
and `groups` decides which cells share a figure. `comparisons` (one task) and `across` (all tasks)
compare cells by `statistics`, with the bootstrap of `resampling`. `summary` and `conclusion` write
sentences, `tables` tables, `learning_curves` and `comparison_figures` figures in one `style` with
`colours`, `payload`, `page_tables` and `page` the page that `live` serves. `discovery` says which
runs found a sparse reward, and `leaderboard` ranks the arms of a suite. `published` has the paper's
results, `methods` says which settings make another method, and `formatting` writes numbers.
"""

from discover_rl.report.folder import Written, write
from discover_rl.report.leaderboard import write as write_leaderboard

__all__ = ["Written", "write", "write_leaderboard"]
