"""How figures look, and how they are turned into files: the same numbers give the same bytes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from discover_rl.report.groups import Group

# Okabe and Ito's palette, made for all kinds of colour vision, without its yellow, which is too
# pale for lines. Styles and markers tell lines apart where there is no colour. The numbers of
# each have no common divisor, so that they do not repeat together.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A")
DASHES = ("-", "-.", (0, (1, 1)), (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "^", "D", "v", "P", "X")
SETTINGS: dict[Any, Any] = {"svg.hashsalt": "discover_rl", "font.size": 9, "axes.titlesize": 10}
DPI = 200
FORMATS: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}}
"""With what must not be in a file for it to be the same another day."""


class Look(NamedTuple):
    colour: str
    dashes: Any
    marker: str


def looks(group: Group) -> dict[str, Look]:
    """The baseline is black and dashed, DISCOVER blue and solid, others are what is left."""
    rivals = sorted(group.rivals, key=lambda label: label != "discover")  # stable
    found = {
        label: Look(*(_cycled(them, i) for them in (COLOURS, DASHES, MARKERS)))
        for i, label in enumerate(rivals)
    }
    return {group.base: Look("black", "--", "s"), **found}


def _cycled(them: Sequence[Any], i: int) -> Any:
    return them[i % len(them)]


def plain(text: str) -> str:
    """Without mathematics: a dollar in a name is a dollar."""
    return text.replace("$", r"\$")


@contextlib.contextmanager
def figure(width: float, height: float) -> Iterator[Any]:
    """A figure of its own, which pyplot does not know of."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        yield Figure(figsize=(width, height), layout="constrained")


def rendered(drawn: Any) -> dict[str, bytes]:
    """As PNG and SVG, by suffix."""
    files = {}
    for suffix, metadata in FORMATS.items():
        file = io.BytesIO()
        drawn.savefig(file, format=suffix, dpi=DPI, metadata=metadata)
        files[suffix] = file.getvalue()
    return files


def steps_axis(axis: Any) -> None:
    """Steps as 200k and 1M."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.set_major_formatter(EngFormatter(sep=""))
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def legend(
    drawn: Any, labels: Sequence[str], look: Mapping[str, Look | None], more: Sequence = ()
) -> None:
    """Below the figure, where it covers nothing. What has no look has a name and no line."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=it.colour, linestyle=it.dashes, marker=it.marker, markersize=4)
        if it is not None
        else Line2D([], [], linestyle="none")
        for it in (look[label] for label in labels)
    ]
    names = [plain(label) for label in labels]
    for name, options in more:
        lines.append(Line2D([], [], **options))
        names.append(name)
    wide = max(1.8, 0.075 * max(map(len, names), default=0) + 0.7)  # inches, handle included
    rows = -(-len(names) // max(1, int(drawn.get_figwidth() // wide)))
    columns = -(-len(names) // rows)
    drawn.legend(
        lines, names, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.5
    )
