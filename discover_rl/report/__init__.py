"""A study's report: curves, tables and a summary, made from its records and nothing else.

    <out>/report/
      index.html                          all of it as one page, to click through
      summary.md                          what can be said, and what is missing
      curves/<group>-{paper,iqm}.*        all tasks of an algorithm, as PNG and SVG
      curves/<group>/<task>-{paper,iqm}.* each task
      curves/<group>-{aggregate,profile,improvement,efficiency}.*
      tables/<group>.{md,tex,csv}, tables/<group>-details.tex

The same records give the same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from discover_rl import store
from discover_rl.report import comparisons, data, page, published, summary, tables
from discover_rl.report.comparisons import Analysis
from discover_rl.report.figures import Curves
from discover_rl.report.groups import Group, slug
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
    text = summary.text(everything, analyses, found.notes)
    shown = page.content(everything, analyses, found.notes)
    pages = {"summary.md": text, page.NAME: page.document(study.name, shown)}
    files = []
    for name, content in _files(analyses, found.curves, pages):
        store.write(folder / name, content)
        files.append(folder / name)
    return Written(files, summary.missing(everything), text)


def _files(
    analyses: list[Analysis], theirs: Curves, pages: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Each with its name below the report's folder."""
    from discover_rl.report import figures, intervals

    for name, text in pages.items():
        yield name, text.encode()
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
        for panel, name in zip(group.panels, _names(group), strict=True):
            for kind in data.BANDS:
                for suffix, content in figures.single(group, panel, kind, theirs).items():
                    yield f"curves/{group.name}/{name}-{kind}.{suffix}", content


def _names(group: Group) -> list[str]:
    """Of panels' files; those that would be the same are numbered."""
    slugs = [slug(panel.title) for panel in group.panels]
    return [
        name if slugs.count(name) == 1 else f"{name}-{slugs[:i].count(name) + 1}"
        for i, name in enumerate(slugs)
    ]
