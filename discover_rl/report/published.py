"""The paper's own results, which reports show beside what was measured.

`published.csv` has mean and standard deviation, over seeds, of the last ten evaluations, computed
from the curves that the authors released; the curves themselves do not come with the package. The
table leaves out curves that are weighted sums of other curves, and so no measurements: off-policy
those of NoisyNet, PSNE, Coherent, Meta and greedy policies, those of SAC with and without DISCOVER
on Humanoid and HumanoidStandup, and those of DISCOVER with DDPG on Ant and Humanoid. The authors
used other versions of the tasks, and their code scales directions by λ², so none of these numbers
is a target.
"""

from __future__ import annotations

import csv
import functools
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from discover_rl import algorithms
from discover_rl.algorithms import ALGORITHMS
from discover_rl.core.types import UserError
from discover_rl.report.methods import unusual_settings
from discover_rl.studies.study import Cell
from discover_rl.system.paths import plain

STEPS, EVERY = 1_000_000, 1_000
"""Steps of the authors' runs, and how many of them lie between evaluations."""
SPAN = (10, 9 * EVERY)
"""How many evaluations a published score is the mean of, and how many steps lie between the first
and the last of them; the same for all five algorithms."""
COMPONENTS = {
    "strategy.delayed": "without_dpu",
    "strategy.target_network": "without_tn",
    "strategy.target_smoothing": "without_tsr",
}
"""DISCOVER's components: our setting, and what `published.csv` calls runs without it."""
GRIDS = ("strategy.lam", "env.reward_delay")
"""Settings that the paper varies in a study of its own, which also has the usual value."""
RIVALS = re.compile("noisy|psne|parameter|coherent|meta|greedy|no[ _-]?expl", re.IGNORECASE)
"""What the paths of files with other strategies' curves contain."""
UNREADABLE = (OSError, ValueError, EOFError, TypeError)
"""What NumPy raises about a file that is no array, or another kind of file than its name says."""
MOST_BYTES = 2**27
"""The largest file that is read, unpacked: a table of ten thousand runs takes less."""
MOST_POINTS = 20_000
"""The longest curve that is read; the authors' have about a thousand points."""
RUN = re.compile(r"(?P<policy>.+)_(?P<kind>[A-Za-z0-9]+)-(?P<version>v\d+)_(?P<seed>\d+)")
"""The name of a file with one run's curve, without its suffix."""


class Key(NamedTuple):
    """The name of a published result. It does not contain the task's version.

    Attributes:
        study: 'evaluation', 'lambda', 'delayed_reward' or 'component'.
        algorithm: Its name.
        kind: The task without its version: 'Hopper'.
        strategy: 'baseline' or 'discover'.
        setting: What varies within the study; '' in 'evaluation'.
    """

    study: str
    algorithm: str
    kind: str
    strategy: str
    setting: str


class Number(NamedTuple):
    """A published result: mean and standard deviation over seeds, and where it is from."""

    version: str  # of the task, 'v2'
    mean: float
    sd: float
    seeds: int
    source: str


class Found(NamedTuple):
    """Curves that were read from a folder, and sentences on what was and was not found there."""

    curves: dict[Key, np.ndarray]  # (runs, points); NaN after a shorter run's end
    notes: list[str]


@functools.cache
def numbers() -> dict[Key, Number]:
    """All results of `published.csv`."""
    text = resources.files("discover_rl.report").joinpath("published.csv").read_text("utf-8")
    found = {}
    for row in csv.DictReader(text.splitlines()):
        number = row["version"], float(row["mean"]), float(row["sd"]), int(row["seeds"])
        found[Key(*(row[name] for name in Key._fields))] = Number(*number, row["source"])
    return found


def key(cell: Cell) -> Key | None:
    """Which published result a cell repeats, or None.

    It has the same algorithm, kind of task, strategy and settings, whatever its number of steps.
    """
    kind, _, _ = cell.task.rpartition("-v")
    on_policy = algorithms.load(cell.algorithm).Hyper.on_policy
    baseline = "none" if on_policy else "gaussian"
    strategy = {"discover": "discover", baseline: "baseline"}.get(cell.strategy)
    if strategy is None:
        return None
    own = unusual_settings(cell)
    own |= {name: value for name, value in cell.varied.items() if name in GRIDS}
    study, setting = "evaluation", ""
    if len(own) == 1:
        ((name, value),) = own.items()
        if name == "strategy.lam" and not str(value).startswith("linear:"):
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
    """The published result of a cell, or None if there is none or it has other steps."""
    found = key(cell)
    return numbers()[found] if found is not None and cell.steps == STEPS else None


def curves(path: Path) -> Found:
    """Read a copy of the authors' curves. Nothing in it is unpickled.

    Args:
        path: A folder with the authors' files, one run each, in whatever subfolders:

                …/TD3_Hopper-v2_3.npy, …/DISCOVER_TD3_Hopper-v2_3.npy
                …/On-Policy (PPO)/0.1/Hopper-v2/0.1_DISCOVER_PPO_Hopper-v2_3.npy

            Or a table of all runs, or a folder with one: an .npz file with `returns`, (runs,
            evaluations), and with the texts `study`, `algorithm`, `task`, `strategy` and `setting`,
            (runs,) each.
    """
    tables = [path] if path.suffix == ".npz" else sorted(path.glob("*.npz"))
    files = sorted(path.rglob("*.npy")) if path.is_dir() else []
    # Plain files alone: reading a pipe waits.
    tables, files = ([file for file in some if file.is_file()] for some in (tables, files))
    if not files and not tables:
        raise UserError(f"{path} holds no curves: give a folder with .npy files, or an .npz.")
    rows: list[tuple[Key, np.ndarray]] = []
    left_out: Counter[str] = Counter()
    for table in tables:
        rows += _read_table(table)
    for file in files:
        named = _key_of_file(file.relative_to(path))
        if isinstance(named, str):
            left_out[named] += 1
        elif (curve := _read_run(file)) is None:
            left_out["no curves in them"] += 1
        else:
            rows.append((named, curve))
    kept: dict[Key, list[np.ndarray]] = {}
    for which, curve in rows:
        if which in numbers():
            kept.setdefault(which, []).append(curve)
        else:
            left_out["nothing to trust or to compare with"] += 1
    notes = [
        f"{sum(map(len, kept.values())):,} published runs of {len(kept):,} cells in {path.name}"
    ]
    for why, count in sorted(left_out.items()):
        notes.append(f"Left out of published runs: {count:,}, {why}")
    return Found({which: _padded(runs) for which, runs in kept.items()}, notes)


def _key_of_file(path: Path) -> Key | str:
    """Which result a file's path says it belongs to, or why the file is left out."""
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
    before, _, algorithm = policy.rpartition("DISCOVER_")
    if not before and algorithm.lower() in ALGORITHMS and not re.search("(?i)ablat|delay", folders):
        strategy = "discover" if policy != algorithm else "baseline"
        return Key("evaluation", algorithm.lower(), kind, strategy, "")
    return "names that are not understood"


def _read_run(file: Path) -> np.ndarray | None:
    """A run's evaluations, or None if the file has no numbers, or more than a curve has.

    The authors' arrays are text, and begin with a computer's name.
    """
    try:
        if plain(file) > MOST_BYTES:
            return None
        # Mapped, so that nothing is allocated by the numbers of a file that has no such content.
        raw = np.load(file, mmap_mode="r", allow_pickle=False)
        if not isinstance(raw, np.ndarray) or raw.size > MOST_POINTS:
            return None
        raw = raw.ravel()
        if raw.dtype.kind == "U":
            raw = [text for text in raw if not text.startswith(("HOST", "GPU"))]
        row = np.asarray(raw, float)
    except UNREADABLE:
        return None
    return row if row.size and np.isfinite(row).all() else None


def _read_table(file: Path) -> list[tuple[Key, np.ndarray]]:
    """All runs of an .npz file."""
    names = ("study", "algorithm", "task", "strategy", "setting")
    try:
        with ZipFile(file) as packed:
            if (size := sum(it.file_size for it in packed.infolist())) > MOST_BYTES:
                raise ValueError(f"its {size:,} bytes are more than {MOST_BYTES:,}")
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            returns = np.asarray(arrays["returns"], float)
            if returns.ndim != 2 or returns.shape[1] > MOST_POINTS:
                raise ValueError(f"returns are no rows of {MOST_POINTS:,} points at most")
            columns = [arrays[name].astype(str).tolist() for name in names]
            rows = list(zip(*columns, returns, strict=True))
    except (*UNREADABLE, KeyError, MemoryError, BadZipFile, zlib.error) as error:
        raise UserError(
            f"{file} is no table of curves ({error}); it needs plain arrays of numbers and text: "
            f"returns, {', '.join(names)}."
        ) from error
    return [
        (Key(study, algorithm, task.rpartition("-v")[0], strategy, setting), row)
        for study, algorithm, task, strategy, setting, row in rows
    ]


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Curves of different lengths as one array, (runs, points), with NaN at their ends."""
    padded = np.full((len(rows), max(map(len, rows))), np.nan)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded
