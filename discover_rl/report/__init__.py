"""A study's report: curves, tables and a summary, made from its records and nothing else.

    <out>/report/
      summary.md                          what can be said, and what is missing
      curves/<group>-{paper,iqm}.*        all tasks of an algorithm, as PNG and SVG
      curves/<group>/<task>-{paper,iqm}.* each task
      curves/<group>-{aggregate,profile,improvement,efficiency}.*
      tables/<group>.{md,tex,csv}, tables/<group>-details.tex

The same records give the same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from discover_rl import store
from discover_rl.report import comparisons, data, published, summary, tables
from discover_rl.report.comparisons import Analysis
from discover_rl.report.figures import Curves
from discover_rl.report.groups import slug
from discover_rl.studies import Study


class Written(NamedTuple):
    """What came of it."""

    files: list[Path]
    missing: list[str]
    """What there is no more of, in words."""
    summary: str


def write(study: Study, out: Path, to: Path | None = None, theirs: Path | None = None) -> Written:
    """Report on what a study's folder holds, into `to`, with the authors' curves from `theirs`."""
    folder = to or out / "report"
    found = published.curves(theirs) if theirs is not None else published.Found({}, [])
    everything = data.load(study, out)
    analyses = comparisons.analyse(everything)
    page = summary.text(everything, analyses, found.notes)
    files = []
    for name, content in _files(analyses, found.curves, page):
        store.write(folder / name, content)
        files.append(folder / name)
    return Written(files, summary.missing(everything), page)


def _files(analyses: list[Analysis], theirs: Curves, page: str) -> Iterator[tuple[str, bytes]]:
    """Each with its name below the report's folder."""
    from discover_rl.report import figures, intervals

    yield "summary.md", page.encode()
    for analysis in analyses:
        group = analysis.group
        for suffix, content in tables.files(analysis).items():
            yield f"tables/{group.name}{suffix}", content
        drawn = intervals.figures(analysis)
        for kind in data.BANDS:
            if len(group.panels) > 1:
                drawn[kind] = figures.grid(group, kind, theirs)
        for name, formats in drawn.items():
            for suffix, content in formats.items():
                yield f"curves/{group.name}-{name}.{suffix}", content
        for panel in group.panels:
            for kind in data.BANDS:
                for suffix, content in figures.single(group, panel, kind, theirs).items():
                    yield f"curves/{group.name}/{slug(panel.title)}-{kind}.{suffix}", content
