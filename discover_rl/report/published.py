"""What the paper's authors published, next to what was measured here.

`published.csv` has mean and standard deviation, over seeds, of the last ten evaluations, worked out
from the curves that the authors released; the curves themselves are not shipped. Left out is what
is no measurement of its own: their off-policy curves of NoisyNet, PSNE, Coherent, Meta and greedy
policies, of SAC with and without DISCOVER on Humanoid and HumanoidStandup, and of DISCOVER with
DDPG on Ant and Humanoid are weighted sums of other curves. Tasks were of another version then, and
the authors' code scales directions by λ², so none of these numbers is a target.
"""

from __future__ import annotations

import csv
import functools
import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discover_rl.algorithms import ALGORITHMS, ON_POLICY
from discover_rl.report import methods
from discover_rl.studies import Cell
from discover_rl.types import UserError

STEPS, EVERY = 1_000_000, 1_000
SPAN = (10, 9 * EVERY)
"""How many evaluations a score is the mean of, and how many steps lie between first and last; the
same for all five algorithms."""
COMPONENTS = {
    "strategy.delayed": "without_dpu",
    "strategy.target_network": "without_tn",
    "strategy.target_smoothing": "without_tsr",
}
GRIDS = ("strategy.lam", "env.reward_delay")
"""Settings that have a study of their own where they vary, the usual value among the others."""
RIVALS = re.compile("noisy|psne|parameter|coherent|meta|greedy|no[ _-]?expl", re.IGNORECASE)
RUN = re.compile(r"(?P<policy>.+)_(?P<kind>[A-Za-z0-9]+)-(?P<version>v\d+)_(?P<seed>\d+)")


class Key(NamedTuple):
    """Which of the published results, whatever the task's version."""

    study: str
    algorithm: str
    kind: str
    strategy: str  # baseline or discover
    setting: str


class Number(NamedTuple):
    version: str
    mean: float
    sd: float
    seeds: int
    source: str


class Found(NamedTuple):
    """Curves read from a folder, and what was and was not found there, in words."""

    curves: dict[Key, np.ndarray]  # (runs, points)
    notes: list[str]


@functools.cache
def numbers() -> dict[Key, Number]:
    text = resources.files("discover_rl.report").joinpath("published.csv").read_text()
    found = {}
    for row in csv.DictReader(text.splitlines()):
        number = row["version"], float(row["mean"]), float(row["sd"]), int(row["seeds"])
        found[Key(*(row[name] for name in Key._fields))] = Number(*number, row["source"])
    return found


def key(cell: Cell) -> Key | None:
    """Which published result a cell repeats, if there is one: same algorithm, kind of task,
    strategy and settings, whatever number of steps."""
    kind, _, _ = cell.task.rpartition("-v")
    baseline = "none" if cell.algorithm in ON_POLICY else "gaussian"
    strategy = {"discover": "discover", baseline: "baseline"}.get(cell.strategy)
    if strategy is None:
        return None
    own = methods.own(cell) | {name: it for name, it in cell.varied.items() if name in GRIDS}
    study, setting = "evaluation", ""
    if len(own) == 1:
        ((name, value),) = own.items()
        if name == "strategy.lam":
            study, setting = "lambda", str(float(value))
        elif name == "env.reward_delay":
            study, setting = "delayed_reward", str(value)
        elif name in COMPONENTS and value is False:
            study, setting = "component", COMPONENTS[name]
    if own and study == "evaluation":
        return None
    found = Key(study, cell.algorithm, kind, strategy, setting)
    return found if found in numbers() else None


def number(cell: Cell) -> Number | None:
    """The published result of a cell, if it is of as many steps."""
    found = key(cell)
    return numbers()[found] if found is not None and cell.steps == STEPS else None


def curves(place: Path) -> Found:
    """The authors' curves from a copy of theirs: a folder with their files, a run each,

        …/TD3_Hopper-v2_3.npy, …/DISCOVER_TD3_Hopper-v2_3.npy
        …/Ablation Studies/…/On-Policy (PPO)/0.1/Hopper-v2/0.1_DISCOVER_PPO_Hopper-v2_3.npy

    or one file, or a folder with one, of all: an .npz of `returns`, (runs, evaluations), and of
    `study`, `algorithm`, `task`, `strategy` and `setting`, (runs,).
    """
    tables = [place] if place.suffix == ".npz" else sorted(place.glob("*.npz"))
    files = sorted(place.rglob("*.npy")) if place.is_dir() else []
    if not (files or [it for it in tables if it.is_file()]):
        raise UserError(f"{place} holds no curves: give a folder with .npy files, or an .npz.")
    rows: list[tuple[Key, np.ndarray]] = []
    odd: Counter[str] = Counter()
    for table in tables:
        rows += _table(table)
    for file in files:
        named = _named(file.relative_to(place))
        if isinstance(named, str):
            odd[named] += 1
        elif (read := _read(file)) is None:
            odd["no numbers in them"] += 1
        else:
            rows.append((named, read))
    kept: dict[Key, list[np.ndarray]] = {}
    for which, row in rows:
        if which in numbers():
            kept.setdefault(which, []).append(row)
        else:
            odd["nothing to trust or to compare with"] += 1
    notes = [
        f"{sum(map(len, kept.values())):,} published runs of {len(kept):,} cells in {place.name}"
    ]
    notes += [f"Left out of published runs: {count:,}, {why}" for why, count in sorted(odd.items())]
    return Found({which: _padded(them) for which, them in kept.items()}, notes)


def _named(path: Path) -> Key | str:
    """What a file's name says it is, or why it is left out."""
    match, folders = RUN.fullmatch(path.stem), "/".join(path.parts[:-1])
    if match is None:
        return "names that are not understood"
    policy, kind = match["policy"], match["kind"]
    if RIVALS.search(str(path)):
        return "rivals' and greedy ones, which off-policy are weighted sums of other curves"
    if lam := re.fullmatch(r"(\d\.\d+)_DISCOVER(?:_([A-Z0-9]+))?", policy):
        algorithm = lam[2] or next(iter(re.findall(r"\(([A-Z0-9]+)\)", folders)), "")
        if algorithm.lower() in ALGORITHMS:
            return Key("lambda", algorithm.lower(), kind, "discover", lam[1])
    ours, _, algorithm = policy.rpartition("DISCOVER_")
    if not ours and algorithm.lower() in ALGORITHMS and not re.search("(?i)ablat|delay", folders):
        strategy = "discover" if policy != algorithm else "baseline"
        return Key("evaluation", algorithm.lower(), kind, strategy, "")
    return "names that are not understood"


def _read(file: Path) -> np.ndarray | None:
    """A run's evaluations. The authors' arrays are text, and begin with a computer's name."""
    try:
        raw = np.load(file, allow_pickle=False).ravel()
        if raw.dtype.kind == "U":
            raw = [it for it in raw if not it.startswith(("HOST", "GPU"))]
        row = np.asarray(raw, float)
    except (OSError, ValueError, EOFError):
        return None
    return row if row.size and np.isfinite(row).all() else None


def _table(file: Path) -> list[tuple[Key, np.ndarray]]:
    names = ("study", "algorithm", "task", "strategy", "setting")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            returns = np.asarray(arrays["returns"], float)
            columns = [_words(file, arrays, name) for name in names]
            rows = list(zip(*columns, returns, strict=True))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{file} is no table of curves ({error}); it needs returns, {', '.join(names)}."
        ) from error
    return [
        (Key(study, algorithm, task.rpartition("-v")[0], strategy, setting), row)
        for study, algorithm, task, strategy, setting, row in rows
    ]


def _words(file: Path, arrays: Any, name: str) -> list[str]:
    """A column of text. One of Python objects is not unpickled, which could run anything: its words
    are picked out of the listing of its instructions."""
    import pickletools
    import zipfile

    try:
        return [str(it) for it in arrays[name]]
    except ValueError:
        pass
    with zipfile.ZipFile(file) as archive:
        raw = archive.read(f"{name}.npy")
    words: list[str] = []
    memo: list[Any] = []
    last: Any = None
    inside = False
    for code, value, _ in pickletools.genops(raw[raw.index(b"\n") + 1 :]):
        if code.name == "EMPTY_LIST":
            inside, last = True, None
        elif code.name == "MEMOIZE":
            memo.append(last)
        elif "UNICODE" in code.name or "BINGET" in code.name:
            assert value is not None
            last = value if "UNICODE" in code.name else memo[value]
            if inside:
                words.append(last)
        else:
            last = None
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name} is not text")
    return words


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    padded = np.full((len(rows), max(map(len, rows))), np.nan)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded
