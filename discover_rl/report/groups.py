"""How a study's cells are laid side by side: which rivals share a panel, and who is the baseline.

A group is a figure with panels, and a table with rows and columns. Where several arms compete there
is one of them per algorithm: a panel for each task (and value of what varies), a line for each arm.
Where settings vary there is one more: a panel for each task and arm, a line for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from discover_rl.algorithms import ON_POLICY
from discover_rl.report import methods, writing
from discover_rl.report.data import Data, Results
from discover_rl.studies import Cell

SYMBOLS = {"strategy.lam": "λ", "gamma": "γ", "tau": "τ"}
"""Settings that have a letter in the paper."""


class Panel(NamedTuple):
    """What is compared with each other."""

    title: str
    task: str
    lines: Mapping[str, Results]  # by label


class Group(NamedTuple):
    name: str
    """For files."""
    title: str
    algorithm: str
    panels: Sequence[Panel]
    labels: Sequence[str]
    """Of lines, in the study's order; a panel may lack some."""
    kind: str
    """What lines are: arms, or settings."""
    base: str
    """The label of what all others are compared with."""
    why: str
    """Why that one, in words."""

    @property
    def rivals(self) -> list[str]:
        return [label for label in self.labels if label != self.base]

    def begun(self, label: str) -> bool:
        """Whether there is anything of a line to draw."""
        return any(len(it.lines[label].steps) for it in self.panels if label in it.lines)


def groups(data: Data) -> list[Group]:
    found = []
    for algorithm in dict.fromkeys(it.cell.algorithm for it in data.cells):
        mine = [it for it in data.cells if it.cell.algorithm == algorithm]
        arm = _arms(mine)
        arms, varied = {arm(it) for it in mine}, any(it.cell.varied for it in mine)
        if len(arms) > 1 or not varied:
            panel = _title(lambda it: [setting_text(it)])
            cells: dict[str, list[Cell]] = {}
            for it in mine:
                cells.setdefault(arm(it), []).append(it.cell)
            base = _baseline(algorithm, cells)
            named = algorithm, algorithm, algorithm, "arm"
            found.append(_group(*named, mine, panel, arm, base))
        if varied:
            several = len(arms) > 1
            panel = _title(lambda it, arm=arm, several=several: [arm(it)] if several else [])
            first = setting_text(mine[0])
            base = first, "the first value in the study"
            name = f"{algorithm}-settings" if several else algorithm
            # What differs from panel to panel stands there, what all share beside the algorithm.
            title = f"{algorithm}, by setting" if several else f"{algorithm}, {arm(mine[0])}"
            named = name, title, algorithm, "setting"
            found.append(_group(*named, mine, panel, setting_text, base))
    return found


def slug(text: str) -> str:
    """As part of a file's name."""
    letters = {letter: word.rpartition(".")[2] for word, letter in SYMBOLS.items()}
    text = "".join(letters.get(letter, letter) for letter in text)
    for old, new in ((" = ", "="), (", ", "-"), (" ", "-"), (":", "-"), ("/", "-")):
        text = text.replace(old, new)
    return text


def setting_text(results: Results) -> str:
    """'λ = 0.3', as it varies over the grid."""
    pairs = results.cell.varied.items()
    return ", ".join(f"{_short(name)} = {_value(it)}" for name, it in pairs)


def _short(name: str) -> str:
    return SYMBOLS.get(name, name.rpartition(".")[2])


def _value(value: Any) -> str:
    return "×".join(map(str, value)) if isinstance(value, list) else str(value)


def _arms(cells: Sequence[Results]) -> Callable[[Results], str]:
    """What an arm is called: by its name, with the strategy where several share one."""
    strategies: dict[str, set[str]] = {}
    for it in cells:
        strategies.setdefault(it.cell.arm, set()).add(it.cell.strategy)

    def name(results: Results) -> str:
        cell = results.cell
        return cell.arm if len(strategies[cell.arm]) == 1 else f"{cell.strategy}, {cell.arm}"

    return name


def _title(parts: Callable[[Results], list[str]]) -> Callable[[Results], str]:
    return lambda it: ", ".join([it.cell.task, *filter(None, parts(it))])


def _group(
    name: str,
    title: str,
    algorithm: str,
    kind: str,
    cells: Sequence[Results],
    panel: Callable[[Results], str],
    line: Callable[[Results], str],
    base: tuple[str, str],
) -> Group:
    panels: dict[str, Panel] = {}
    for it in cells:
        lines = panels.setdefault(panel(it), Panel(panel(it), it.cell.task, {})).lines
        assert isinstance(lines, dict)
        lines[line(it)] = it
    labels = list(dict.fromkeys(line(it) for it in cells))
    return Group(name, title, algorithm, list(panels.values()), labels, kind, *base)


def _baseline(algorithm: str, arms: Mapping[str, Sequence[Cell]]) -> tuple[str, str]:
    """On-policy the algorithm's own exploration, off-policy Gaussian noise if it is there. Of
    several arms with that strategy the one that has its name, or else its usual settings."""
    wanted = ("none",) if algorithm in ON_POLICY else ("gaussian", "none")
    several = len({cells[0].strategy for cells in arms.values()}) > 1
    for strategy in wanted:
        mine = {label: cells for label, cells in arms.items() if cells[0].strategy == strategy}
        named = [label for label in mine if label == strategy]
        usual = [label for label, cells in mine.items() if not any(map(_strategic, cells))]
        for label in (*named, *usual, *mine):
            if several or label in named or label in usual:
                return label, "the baseline"
    names = " or ".join(map(writing.quoted, wanted))
    return next(iter(arms)), f"the first in the study, in which no arm has strategy {names}"


def _strategic(cell: Cell) -> bool:
    """Whether its strategy is set to something else than usual."""
    return any(name.startswith("strategy.") for name in methods.own(cell))
