"""How a study's cells are laid out: which lines share a panel, and which line is the baseline.

A group is one figure with panels, and one table. A study with several arms has a group per
algorithm, in which each task (and each value of a setting that varies) has a panel and each arm a
line. A study with settings that vary has one more, in which each task and arm has a panel and each
value a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from discover_rl import algorithms
from discover_rl.report import formatting
from discover_rl.report.data import Data, Results
from discover_rl.report.methods import unusual_settings
from discover_rl.studies.study import Cell

SYMBOLS = {"strategy.lam": "λ", "gamma": "γ", "tau": "τ"}
"""Settings that have a letter in the paper."""


class Panel(NamedTuple):
    """Lines that are compared with each other."""

    title: str
    task: str
    lines: Mapping[str, Results]  # by label


class Group(NamedTuple):
    """Panels with the same lines.

    Attributes:
        name: Part of the names of its files.
        title: What readers see.
        algorithm: Of all its lines.
        panels: In the study's order.
        labels: Of the lines, in the study's order; a panel may lack some.
        kind: What the lines are: 'arm' or 'setting'.
        base: The label of the baseline, with which all other lines are compared.
        why: Why that one is the baseline, in words.
    """

    name: str
    title: str
    algorithm: str
    panels: Sequence[Panel]
    labels: Sequence[str]
    kind: str
    base: str
    why: str

    @property
    def rivals(self) -> list[str]:
        """The labels of all lines but the baseline's."""
        return [label for label in self.labels if label != self.base]

    def begun(self, label: str) -> bool:
        """Whether a line has an evaluation to draw, in any panel."""
        panels = [panel for panel in self.panels if label in panel.lines]
        return any(len(panel.lines[label].steps) for panel in panels)


def groups(data: Data) -> list[Group]:
    """The groups of a study, algorithm by algorithm."""
    found = []
    for algorithm in dict.fromkeys(results.cell.algorithm for results in data.cells):
        mine = [results for results in data.cells if results.cell.algorithm == algorithm]
        arm_of = _arm_names(mine)
        arms = {arm_of(results) for results in mine}
        varied = any(results.cell.varied for results in mine)
        if len(arms) > 1 or not varied:
            title_of = _panel_title(setting_text)
            cells: dict[str, list[Cell]] = {}
            for results in mine:
                cells.setdefault(arm_of(results), []).append(results.cell)
            base = _baseline(algorithm, cells)
            names = algorithm, algorithm, algorithm, "arm"
            found.append(_group(*names, mine, title_of, arm_of, base))
        if varied:
            several = len(arms) > 1
            title_of = _panel_title(arm_of if several else lambda results: "")
            base = setting_text(mine[0]), "the first value in the study"
            name = f"{algorithm}-settings" if several else algorithm
            # What differs between panels is in their titles; what all share is in the group's.
            title = f"{algorithm}, by setting" if several else f"{algorithm}, {arm_of(mine[0])}"
            names = name, title, algorithm, "setting"
            found.append(_group(*names, mine, title_of, setting_text, base))
    return found


def slug(text: str) -> str:
    """The text as part of a file's name.

    >>> slug("Hopper-v5, λ = 0.1")
    'Hopper-v5-lam=0.1'
    """
    letters = {letter: word.rpartition(".")[2] for word, letter in SYMBOLS.items()}
    text = "".join(letters.get(letter, letter) for letter in text)
    for old, new in ((" = ", "="), (", ", "-"), (" ", "-"), (":", "-"), ("/", "-")):
        text = text.replace(old, new)
    return text


def setting_text(results: Results) -> str:
    """The settings in which a cell differs from others of the grid: 'λ = 0.3'."""
    pairs = results.cell.varied.items()
    return ", ".join(f"{_short_name(name)} = {_value_text(value)}" for name, value in pairs)


def _short_name(name: str) -> str:
    return SYMBOLS.get(name, name.rpartition(".")[2])


def _value_text(value: Any) -> str:
    return "×".join(map(str, value)) if isinstance(value, list) else str(value)


def _arm_names(cells: Sequence[Results]) -> Callable[[Results], str]:
    """Return the labels of arms: the name, with the strategy if several strategies share a name."""
    strategies: dict[str, set[str]] = {}
    for results in cells:
        strategies.setdefault(results.cell.arm, set()).add(results.cell.strategy)

    def name(results: Results) -> str:
        cell = results.cell
        return cell.arm if len(strategies[cell.arm]) == 1 else f"{cell.strategy}, {cell.arm}"

    return name


def _panel_title(part: Callable[[Results], str]) -> Callable[[Results], str]:
    """Titles of panels: the task, and what else a panel is about, if anything."""
    return lambda results: ", ".join(filter(None, [results.cell.task, part(results)]))


def _group(
    name: str,
    title: str,
    algorithm: str,
    kind: str,
    cells: Sequence[Results],
    panel_of: Callable[[Results], str],
    label_of: Callable[[Results], str],
    base: tuple[str, str],
) -> Group:
    """Lay out cells by the titles of panels and the labels of lines."""
    panels: dict[str, Panel] = {}
    for results in cells:
        empty = Panel(panel_of(results), results.cell.task, {})
        lines = panels.setdefault(panel_of(results), empty).lines
        assert isinstance(lines, dict)
        lines[label_of(results)] = results
    labels = list(dict.fromkeys(label_of(results) for results in cells))
    return Group(name, title, algorithm, list(panels.values()), labels, kind, *base)


def _baseline(algorithm: str, arms: Mapping[str, Sequence[Cell]]) -> tuple[str, str]:
    """The baseline's label, and why it is the baseline.

    On-policy it is the algorithm's own exploration, off-policy Gaussian noise if there is any. Of
    several arms with that strategy it is the one that has its name, or else its usual settings.
    """
    wanted = ("none",) if algorithms.load(algorithm).Hyper.on_policy else ("gaussian", "none")
    several = len({cells[0].strategy for cells in arms.values()}) > 1
    for strategy in wanted:
        mine = {label: cells for label, cells in arms.items() if cells[0].strategy == strategy}
        named = [label for label in mine if label == strategy]
        usual = [label for label, cells in mine.items() if not any(map(_sets_strategy, cells))]
        for label in (*named, *usual, *mine):
            if several or label in named or label in usual:
                return label, "the baseline"
    names = " or ".join(map(formatting.quoted, wanted))
    return next(iter(arms)), f"the first in the study, in which no arm has strategy {names}"


def _sets_strategy(cell: Cell) -> bool:
    """Whether a hyper-parameter of the strategy has another value than usual."""
    return any(name.startswith("strategy.") for name in unusual_settings(cell))
