"""Which colour, dashes and marker a line has: those of its strategy, in every figure and page.

Okabe and Ito's palette is made for all kinds of colour vision; its yellow is left out, which is too
pale for lines. There are more strategies than colours, so some share one; dashes and markers tell
these apart, and all lines where there is no colour. Several arms of one strategy are shades of its
colour; the plain one is that of the arm with the strategy's name, or else of the first. Where all
lines are of one strategy, they are told apart by colours instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DARK = {
    "#111418": "#F1F3F5",
    "#0072B2": "#4CA6E0",
    "#D55E00": "#F58A45",
    "#009E73": "#2CC39A",
    "#CC79A7": "#E29AC4",
    "#E69F00": "#F2B632",
    "#56B4E9": "#9AD6F8",
    "#8C510A": "#C9935A",
}
"""The colours, and lighter ones for a dark background."""
BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BROWN = DARK
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BROWN)
"""Colours of lines that are all of one strategy, in order."""
DASHES: tuple[Any, ...] = ("-", "-.", (0, (1, 1)), (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1)), "--")
"""Dashes, in order. There are fewer than colours, so that the two do not repeat together."""
MARKERS = ("o", "^", "D", "v", "P", "X", "s")
"""Markers, in order."""
SHADES = (("#FFFFFF", 0.4), ("#000000", 0.4), ("#FFFFFF", 0.62), ("#000000", 0.62))
"""For a strategy's second arm, its third, …: a colour to mix the strategy's with, and how much."""


class LineStyle(NamedTuple):
    """How a line is drawn: its colour, Matplotlib's dashes and marker, its colour on black."""

    colour: str
    dashes: Any
    marker: str
    dark: str


def _style(colour: str, number: int) -> LineStyle:
    dashes, marker = DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)]
    return LineStyle(colour, dashes, marker, DARK[colour])


STRATEGIES = {
    "none": LineStyle(BLACK, "--", "s", DARK[BLACK]),
    "discover": _style(BLUE, 0),
    "gaussian": _style(VERMILION, 1),
    "pink": _style(GREEN, 2),
    "rnd": _style(PURPLE, 3),
    "see": _style(ORANGE, 4),
    "seek": _style(SKY, 0),
    "corner": _style(BROWN, 1),
    "noisynet": _style(GREEN, 3),
    "psne": _style(PURPLE, 1),
    "coherent": _style(ORANGE, 2),
    "oac": _style(BLUE, 3),
    "meta": _style(SKY, 4),
    "ou": _style(VERMILION, 2),
    "zeta": _style(BROWN, 3),
    "gsde": _style(BROWN, 4),
}
"""The styles of the package's strategies."""


def line_styles(strategy_of: Mapping[str, str]) -> dict[str, LineStyle]:
    """The style of each line.

    Args:
        strategy_of: By label, in the order of the lines.
    """
    if len(set(strategy_of.values())) == 1 < len(strategy_of):
        labels = enumerate(strategy_of)
        return {label: _style(COLOURS[i % len(COLOURS)], i) for i, label in labels}
    known = dict(STRATEGIES)
    for strategy in dict.fromkeys(strategy_of.values()):
        if strategy not in known:
            known[strategy] = _free([known[it] for it in strategy_of.values() if it in known])
    found: dict[str, LineStyle] = {}
    arms: dict[str, int] = {}
    # The arm that is called as its strategy comes first, so that it has the plain colour.
    for label in sorted(strategy_of, key=lambda label: label != strategy_of[label]):
        strategy = strategy_of[label]
        number = arms[strategy] = arms.get(strategy, -1) + 1
        found[label] = _shaded(known[strategy], number)
    return {label: found[label] for label in strategy_of}


def _free(taken: Sequence[LineStyle]) -> LineStyle:
    """A style for a strategy from outside the package, with a colour that is least taken."""
    used = [style.colour for style in taken]
    colour = min(COLOURS, key=used.count)
    return _style(colour, len(used))


def _shaded(style: LineStyle, number: int) -> LineStyle:
    """The style of a strategy's arm; number 0 is the strategy's own."""
    if not number:
        return style
    towards, share = SHADES[(number - 1) % len(SHADES)]
    return LineStyle(
        _mixed(style.colour, towards, share),
        DASHES[(DASHES.index(style.dashes) + number) % len(DASHES)],
        MARKERS[(MARKERS.index(style.marker) + number) % len(MARKERS)],
        _mixed(style.dark, towards, 0.7 * share),
    )


def _mixed(colour: str, towards: str, share: float) -> str:
    """A colour mixed with another.

    >>> _mixed("#0072B2", "#FFFFFF", 0.5)
    '#80B8D8'
    """
    parts = [[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in (colour, towards)]
    mixed = [round((1 - share) * a + share * b) for a, b in zip(*parts, strict=True)]
    return "#" + "".join(f"{part:02X}" for part in mixed)
