"""How reports write numbers and names: with how many digits, in LaTeX and in Markdown.

Numbers have a true minus sign (−), and 0 never has one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from discover_rl.system.text import printable

NEGLIGIBLE = 1e-6
"""A number below this share of the largest one beside it may be written as 0."""
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
"""LaTeX for the letters that it does not print as they are."""
MARKDOWN = re.compile(r"[\\`*_<>|~$&]|\](?=\()")
"""Letters that are markup wherever they stand, and the middle of a link."""


def latex(text: str) -> str:
    """The text in LaTeX, letter by letter, so that nothing is escaped twice.

    >>> print(latex("σ_0 = 5 %"))
    $\\sigma$\\_0 = 5 \\%
    """
    return "".join(LATEX.get(letter, letter) for letter in text)


def quoted(label: str) -> str:
    """Put a name in quotes: without them, a strategy called none would change a sentence."""
    return f"“{label}”"


def runs(count: int) -> str:
    """How many runs, in words.

    >>> runs(1), runs(1200)
    ('1 run', '1,200 runs')
    """
    return f"{count:,} run{'s' * (count != 1)}"


def seeds(numbers: Sequence[int]) -> str:
    """Seeds in words, with ranges.

    >>> seeds([3]), seeds([7, 0, 2, 1])
    ('seed 3', 'seeds 0–2, 7')
    """
    ranges: list[list[int]] = []
    for seed in sorted(numbers):
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    parts = [f"{row[0]}–{row[-1]}" if len(row) > 1 else f"{row[0]}" for row in ranges]
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(parts)}"


def markdown(text: str) -> str:
    """The text with everything escaped that Markdown, or a terminal, would take for markup."""
    return MARKDOWN.sub(r"\\\g<0>", printable(text))


def number_format(
    scores: Iterable[tuple[float, float | None]],
) -> Callable[[float | None], str]:
    """How to write numbers that stand together, all with the same number of decimal places.

    There are three digits of the largest standard deviation, or four of the largest mean where
    there is no deviation. There are more where a deviation, or a mean without one, would be written
    as 0.

    Args:
        scores: Mean and standard deviation, or None, of everything that stands together.

    Returns:
        A function from a number to text; None and NaN are '–'.

    >>> text = number_format([(3350.27, 297.7)])
    >>> text(3350.27), text(297.7), text(None)
    ('3350', '298', '–')
    """
    known = list(scores)
    least = NEGLIGIBLE * max((abs(mean) for mean, _ in known), default=0.0)
    spreads = [sd for _, sd in known if sd and sd > least]
    alone = [abs(mean) for mean, sd in known if not (sd and sd > least) and abs(mean) > least]
    start = places(max(spreads), 3) if spreads else places(max(alone, default=0.0), 4)
    count = enough_places(start, spreads + alone)

    def text(value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else fixed(value, count)

    return text


def places(value: float, significant: int) -> int:
    """How many decimal places show `significant` digits of a value.

    >>> places(297.7, 3), places(0.0011, 3)
    (0, 5)
    """
    return max(0, significant - 1 - math.floor(math.log10(value))) if value else 2


def enough_places(count: int, values: Sequence[float], most: int = 9) -> int:
    """How many decimal places, `count` to `most`, so that no value but 0 is written as 0.

    >>> enough_places(1, [0.25, 0.004])
    3
    """
    while count < most and any(value and not float(f"{value:.{count}f}") for value in values):
        count += 1
    return min(count, most)


def fixed(value: float, count: int, sign: str = "") -> str:
    """A value with `count` decimal places; with `sign` '+', also where it is positive.

    >>> fixed(-1.25, 1), fixed(-0.001, 1), fixed(2.0, 1, sign="+")
    ('−1.2', '0.0', '+2.0')
    """
    return f"{value:{sign}z.{count}f}".replace("-", "−")


def last_evaluations(counts: Sequence[int]) -> str:
    """How many evaluations scores are the means of, after 'the last'.

    >>> last_evaluations([1]), last_evaluations([1, 4]), last_evaluations([10])
    ('evaluation', '1 or 4 evaluations', '10 evaluations')
    """
    many = " or ".join(map(str, counts))
    return "evaluation" if many == "1" else f"{many} evaluations"
