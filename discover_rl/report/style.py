"""How figures look, and how they become files: the same numbers give the same bytes.

`figure` and `figure_files` serve every figure of the package, those of `analysis` too.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discover_rl.report import colours
from discover_rl.report.colours import LineStyle
from discover_rl.report.groups import Group
from discover_rl.system import extras
from discover_rl.system.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 10}
"""Matplotlib's settings for the figures of a report."""
DPI = 200
"""Resolution of a report's PNG files."""
FORMATS: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}}
"""File formats, each with the metadata to leave out, so that a file is the same another day."""


def line_styles(group: Group) -> dict[str, LineStyle]:
    """The style of each line of a group, by label: that of its strategy, whichever is the baseline.

    Where lines are values of a setting, their colours say which value it is.
    """
    if group.kind == "setting":
        return colours.line_styles(dict.fromkeys(group.labels, ""))
    lines = {label: line for panel in group.panels for label, line in panel.lines.items()}
    return colours.line_styles({label: lines[label].cell.strategy for label in group.labels})


def plain(text: str) -> str:
    """The text without Matplotlib's mathematics, where a dollar in a name is a dollar, and with
    control characters written out."""
    return printable(text).replace("$", r"\$")


@contextlib.contextmanager
def figure(width: float, height: float, settings: Mapping[Any, Any] = SETTINGS) -> Iterator[Figure]:
    """An empty figure, which pyplot does not keep. Draw on it, and save it, inside the context.

    Args:
        width: In inches.
        height: In inches.
        settings: Matplotlib's, as long as the context lasts.
    """
    extras.needed_for_figures()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # With a fixed salt, the names of an SVG file's elements are the same every time.
    with mpl.rc_context():
        mpl.rcdefaults()  # whatever a matplotlibrc, which may lie in the working directory, says
        mpl.rcParams.update({"svg.hashsalt": "discover_rl", **settings})
        yield Figure(figsize=(width, height), layout="constrained")


def figure_files(drawn: Figure, dpi: int = DPI) -> dict[str, bytes]:
    """A figure as PNG and as SVG, by suffix: the same bytes for the same figure."""
    files = {}
    for suffix, metadata in FORMATS.items():
        file = io.BytesIO()
        drawn.savefig(file, format=suffix, dpi=dpi, metadata=metadata)
        files[suffix] = file.getvalue()
    return files


def steps_axis(axis: Any) -> None:
    """Write an axis's steps as 200k and 1M."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.set_major_formatter(EngFormatter(sep=""))
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def legend(
    drawn: Figure,
    styles: Mapping[str, LineStyle | None],
    more: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> None:
    """Put a legend below the figure, where it covers nothing.

    Args:
        drawn: The figure.
        styles: By label, in order; a label with None has no line beside it.
        more: Further labels, each with Matplotlib's options for its line.
    """
    from matplotlib.lines import Line2D

    lines = [_sample(style) for style in styles.values()]
    names = [plain(label) for label in styles]
    for name, options in more:
        lines.append(Line2D([], [], **options))
        names.append(name)
    wide = max(1.8, 0.075 * max(map(len, names), default=0) + 0.7)  # inches, line included
    rows = -(-len(names) // max(1, int(drawn.get_figwidth() // wide)))
    columns = -(-len(names) // rows)
    drawn.legend(
        lines, names, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.5
    )


def _sample(style: LineStyle | None) -> Any:
    from matplotlib.lines import Line2D

    if style is None:
        return Line2D([], [], linestyle="none")
    dashes: dict[str, Any] = {"linestyle": style.dashes, "marker": style.marker, "markersize": 4}
    return Line2D([], [], color=style.colour, **dashes)
