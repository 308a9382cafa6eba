"""How numbers and names are written: with how many digits, in LaTeX and in Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

NEGLIGIBLE = 1e-6
"""What is smaller than that share of the largest number beside it needs no digit of its own."""
_LOWER = (
    r"\alpha \beta \gamma \delta \varepsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi o "
    r"\pi \rho \varsigma \sigma \tau \upsilon \varphi \chi \psi \omega"
)
_UPPER = r"A B \Gamma \Delta E Z H \Theta I K \Lambda M N \Xi O \Pi P ? \Sigma T \Upsilon \Phi X "
_GREEK = {
    chr(ord(first) + i): f"${name}$"
    for first, names in (("α", _LOWER), ("Α", _UPPER + r"\Psi \Omega"))
    for i, name in enumerate(names.split())
}
LATEX = {
    **_GREEK,
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "ϵ": r"$\epsilon$",
    "ϕ": r"$\phi$",
    "µ": r"$\mu$",  # the sign of a millionth, which is no Greek letter
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": "$^2$",
    "–": "--",
    "“": "``",
    "”": "''",
}
MARKDOWN = re.compile(r"[\\`*_<>|~$&]|\](?=\()")
"""Letters that mark something up wherever they stand, and the midst of a link."""


def latex(text: str) -> str:
    """Letter by letter, so that nothing is escaped twice."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def quoted(label: str) -> str:
    """A name within a sentence, which "none" would otherwise turn into its opposite."""
    return f"“{label}”"


def runs(count: int) -> str:
    """'1 run', '10 runs'."""
    return f"{count:,} run{'s' * (count != 1)}"


def seeds(them: Sequence[int]) -> str:
    """'seed 3', 'seeds 0–4, 7'."""
    rows: list[list[int]] = []
    for seed in sorted(them):
        if rows and seed == rows[-1][-1] + 1:
            rows[-1].append(seed)
        else:
            rows.append([seed])
    parts = [f"{row[0]}–{row[-1]}" if len(row) > 1 else f"{row[0]}" for row in rows]
    return f"seed{'s' * (len(them) > 1)} {', '.join(parts)}"


def markdown(text: str) -> str:
    """So that a reader of Markdown shows the text as it is."""
    return MARKDOWN.sub(r"\\\g<0>", text)


def digits(scores: Iterable[tuple[float, float | None]]) -> Callable[[float | None], str]:
    """How numbers that stand together are written, given means and standard deviations of all:
    with three digits of the largest deviation, or four of the largest mean where there is none, and
    more where a deviation, or a mean without one, would be written as 0."""
    known = list(scores)
    least = NEGLIGIBLE * max((abs(mean) for mean, _ in known), default=0.0)
    spreads = [sd for _, sd in known if sd and sd > least]
    alone = [abs(mean) for mean, sd in known if not (sd and sd > least) and abs(mean) > least]
    start = places(max(spreads), 3) if spreads else places(max(alone, default=0.0), 4)
    count = visible(start, spreads + alone)

    def shown(value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else fixed(value, count)

    return shown


def places(value: float, significant: int) -> int:
    """After the point, for so many significant digits of a value."""
    return max(0, significant - 1 - math.floor(math.log10(value))) if value else 2


def visible(count: int, values: Sequence[float], most: int = 9) -> int:
    """So many places, or as many as it takes for no value that is not 0 to be written as 0."""
    while count < most and any(it and not float(f"{it:.{count}f}") for it in values):
        count += 1
    return min(count, most)


def fixed(value: float, count: int, sign: str = "") -> str:
    """With a true minus, and never with one before 0."""
    return f"{value:{sign}z.{count}f}".replace("-", "−")
