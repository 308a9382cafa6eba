"""A study's report: curves, tables and a summary, made from its records and nothing else.

    <out>/report/
      index.html                          all of it as one page, to click through
      summary.md                          what can be said, and what is missing
      curves/<group>-{paper,iqm}.*        all tasks of an algorithm, as PNG and SVG
      curves/<group>/<task>-{paper,iqm}.* each task
      curves/<group>-{aggregate,profile,improvement,efficiency}.*
      tables/<group>.{md,tex,csv}, tables/<group>-details.tex, tables/<group>-comparisons.csv

The same records give the same files, byte for byte. What an earlier report left there and this one
does not write is removed; files of any other name are not touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from discover_rl import store
from discover_rl.algorithms import ALGORITHMS
from discover_rl.report import comparisons, data, page, published, style, summary, tables, writing
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


def write(
    study: Study,
    out: Path,
    to: Path | None = None,
    theirs: Path | None = None,
    until: int | None = None,
) -> Written:
    """Report on what a study's folder holds, into `to`, with the authors' curves from `theirs`; on
    the steps `until` one of them, if not on all."""
    folder = to or out / "report"
    found = published.curves(theirs) if theirs is not None else published.Found({}, [])
    everything = data.load(study, out, until)
    analyses = comparisons.analyse(everything)
    text = summary.text(everything, analyses, found.notes)
    shown = page.content(everything, analyses, found.notes)
    pages = {"summary.md": writing.markdown(text), page.NAME: page.document(study.name, shown)}
    files = []
    for name, content in _files(analyses, found.curves, pages):
        store.write(folder / name, content)
        files.append(folder / name)
    _tidy(folder, files)
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


def _tidy(folder: Path, files: Sequence[Path]) -> None:
    """Remove what an earlier report wrote, by the names that reports give to files."""
    from discover_rl.report import intervals

    group = rf"({'|'.join(ALGORITHMS)})(-settings)?"
    bands, suffix = "|".join(data.BANDS), rf"\.({'|'.join(style.FORMATS)})"
    ours = re.compile(
        rf"tables/{group}({'|'.join(map(re.escape, tables.SUFFIXES))})"
        rf"|curves/{group}-({bands}|{'|'.join(intervals.MAKERS)}){suffix}"
        rf"|curves/{group}/[^/]+-({bands}){suffix}"
    )
    old = {it for it in folder.rglob("*") if ours.fullmatch(it.relative_to(folder).as_posix())}
    for file in sorted(old - set(files)):
        if file.is_file():
            store.remove(file)
            if file.parent.parent.name == "curves" and not any(file.parent.iterdir()):
                file.parent.rmdir()


def _names(group: Group) -> list[str]:
    """Of panels' files; those that would be the same are numbered."""
    slugs = [slug(panel.title) for panel in group.panels]
    return [
        name if slugs.count(name) == 1 else f"{name}-{slugs[:i].count(name) + 1}"
        for i, name in enumerate(slugs)
    ]
