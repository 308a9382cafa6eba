"""The report's folder: which files it has, and writing them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from discover_rl.algorithms import ALGORITHMS
from discover_rl.core.types import UserError
from discover_rl.report import (
    bands,
    comparisons,
    data,
    discovery,
    formatting,
    page,
    published,
    style,
    summary,
    tables,
)
from discover_rl.report.comparisons import Analysis
from discover_rl.report.groups import Group, slug
from discover_rl.report.learning_curves import PublishedCurves
from discover_rl.storage import files
from discover_rl.studies.study import Study


class Written(NamedTuple):
    """A report that was written.

    Attributes:
        files: Their paths.
        missing: Paragraphs on runs that failed or are not over; empty if all are done.
        summary: The text of `summary.md`, without Markdown's escapes.
    """

    files: list[Path]
    missing: list[str]
    summary: str

    @property
    def page(self) -> Path:
        """The page, which has all of the report."""
        return next(file for file in self.files if file.name == page.NAME)


def write(
    study: Study,
    out: Path,
    to: Path | None = None,
    published_folder: Path | None = None,
    until: int | None = None,
) -> Written:
    """Write the report of a study.

    Files that an earlier report left there, and that this one does not have, are removed.

    Args:
        study: What is declared.
        out: The study's folder; records in it may be missing.
        to: Folder for the report; `out`/report by default.
        published_folder: A copy of the authors' curves, to be drawn, too.
        until: Look at runs up to this step, as if they ended there.

    Raises:
        UserError: no run of the study has begun there, or a folder of the report is a link.
    """
    folder = to or out / "report"
    files.refuse_links(out, [] if to else ["report"])
    files.refuse_links(folder, ["tables", "curves"])
    found = published.Found({}, [])
    if published_folder is not None:
        found = published.curves(published_folder)
    everything = data.load(study, out, until)
    if all(run.state == "waiting" and run.header is None for run in everything.runs):
        raise UserError(
            f"There is nothing to report: in {out} no run of {study.name} has begun. "
            "`discover run` trains it; --out names another folder."
        )
    analyses = comparisons.analyse(everything)
    text = summary.text(everything, analyses, found.notes)
    page_data = page.content(everything, analyses, found.notes)
    pages = {
        "summary.md": formatting.markdown(text),
        page.NAME: page.document(study.name, page_data),
    }
    written = []
    for name, content in _contents(analyses, found.curves, pages):
        files.write(folder / name, content)
        written.append(folder / name)
    _remove_old(folder, written)
    return Written(written, summary.missing(everything), text)


def _contents(
    analyses: list[Analysis], published_curves: PublishedCurves, pages: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Every file: its name below the report's folder, and its content."""
    from discover_rl.report import comparison_figures, learning_curves

    for name, text in pages.items():
        yield name, text.encode()
    for analysis in analyses:
        group = analysis.group
        for suffix, content in tables.files(analysis).items():
            yield f"tables/{group.name}{suffix}", content
        found = [it for it in (discovery.suite(analysis), discovery.table(analysis)) if it]
        if found:
            text = "\n\n".join(map(tables.markdown, found)) + "\n"
            yield f"tables/{group.name}-found.md", text.encode()
            yield f"tables/{group.name}-found.csv", discovery.as_csv(analysis).encode()
        figures = comparison_figures.figures(analysis)
        for kind in bands.BANDS:
            if len(group.panels) > 1:
                figures[kind] = learning_curves.grid(group, kind, published_curves)
        for name, formats in figures.items():
            for suffix, content in formats.items():
                yield f"curves/{group.name}-{name}.{suffix}", content
        for panel, name in zip(group.panels, _panel_names(group), strict=True):
            for kind in bands.BANDS:
                formats = learning_curves.single(group, panel, kind, published_curves)
                for suffix, content in formats.items():
                    yield f"curves/{group.name}/{name}-{kind}.{suffix}", content


def _remove_old(folder: Path, written: Sequence[Path]) -> None:
    """Remove files of an earlier report, by the names that reports give to files."""
    from discover_rl.report import comparison_figures

    group = rf"({'|'.join(ALGORITHMS)})(-settings)?"
    kinds, suffix = "|".join(bands.BANDS), rf"\.({'|'.join(style.FORMATS)})"
    ours = re.compile(
        rf"tables/{group}({'|'.join(map(re.escape, (*tables.SUFFIXES, *discovery.SUFFIXES)))})"
        rf"|curves/{group}-({kinds}|{'|'.join(comparison_figures.FIGURES)}){suffix}"
        rf"|curves/{group}/[^/]+-({kinds}){suffix}"
    )
    paths = {path: path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    old = {path for path, name in paths.items() if ours.fullmatch(name)}
    for file in sorted(old - set(written)):
        if file.is_file():
            files.remove(file)
            if file.parent.parent.name == "curves" and not any(file.parent.iterdir()):
                file.parent.rmdir()


def _panel_names(group: Group) -> list[str]:
    """Names of the panels' files; those that would be the same are numbered."""
    slugs = [slug(panel.title) for panel in group.panels]
    return [
        name if slugs.count(name) == 1 else f"{name}-{slugs[:i].count(name) + 1}"
        for i, name in enumerate(slugs)
    ]
