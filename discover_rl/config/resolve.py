"""How a request becomes runs: the algorithm's defaults, then presets, then the user's settings."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from discover_rl import algorithms, strategies
from discover_rl.algorithms import ALGORITHMS
from discover_rl.config.run import Run
from discover_rl.config.settings import RENAMED, SHARED, Eval, current_names, note_old_name
from discover_rl.config.unused import check_used
from discover_rl.core.hyperparameters import LANE_VALUES, build, nearest, unknown
from discover_rl.core.types import LARGEST_SEED, UserError
from discover_rl.envs.settings import KWARGS, Env, arguments
from discover_rl.strategies import ONLY, STRATEGIES

MOST_STEPS = 10**9
"""The longest run. Programs count steps, and at most twice as many observations, in 32 bits."""
MOST_PROCESSES = 1000
"""The largest number of processes that train at once."""
MOST_RUNS = 10_000
"""The largest number of runs that one request, or one cell of a study, may ask for."""


@dataclass(frozen=True)
class Request:
    """A user's request: runs that differ in their seeds and in the floats that are swept."""

    task: str
    """A Gymnasium id, or module:id."""
    algorithm: str = "td3"
    """The name of an algorithm; or module:name, of a module that registers it."""
    strategy: str = "discover"
    """The name of a strategy; or module:name, of a module that registers it."""
    steps: int = 1_000_000
    """Environment steps of each run."""
    seeds: int | Iterable[int] = 1
    """How many (0, 1, …), or which."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Values by name, in place of defaults and presets. Several values of a float are swept."""
    start_from: str = ""
    """The folder of a run whose learned state these runs start from; '' for none."""

    @property
    def default_folder(self) -> Path:
        """The default output folder, runs/TASK-ALGORITHM-STRATEGY; -warm behind it if these runs
        start from another."""
        task = self.task.replace(":", "-").replace("/", "-")
        algorithm, strategy = (word.rpartition(":")[2] for word in (self.algorithm, self.strategy))
        warm = "-warm" if self.start_from else ""
        return Path("runs") / f"{task}-{algorithm}-{strategy}{warm}"


def resolve(request: Request) -> list[Run]:
    """Return the runs of a request: one for each seed and each combination of swept floats.

    >>> [run.name for run in resolve(Request("Pendulum-v1", seeds=2, settings={"gamma": 0.98}))]
    ['seed-0', 'seed-1']

    Raises:
        UserError: a name is unknown, or a value is not allowed.
    """
    task = request.task
    algorithm = algorithms.registry.find(request.algorithm)
    strategy = strategies.registry.find(request.strategy)
    _known("algorithm", algorithm, ALGORITHMS)
    _known("strategy", strategy, STRATEGIES)
    _paired(algorithm, strategy)
    seeds, steps = check_seeds(request.seeds), check_steps(request.steps)
    classes = {
        "": algorithms.load(algorithm).Hyper,
        "strategy.": strategies.load(strategy).Hyper,
        **SHARED,
    }
    for name in request.settings.keys() & RENAMED.keys():
        if RENAMED[name] in request.settings:
            raise UserError(f"{name} is the old name of {RENAMED[name]}; give only the new one.")
        note_old_name(name)
    overrides = _each_argument(current_names(request.settings))
    chosen = preset(algorithm, task, strategy) | overrides
    known = {
        prefix: [prefix + field.name for field in dataclasses.fields(cls)]
        for prefix, cls in classes.items()
    }
    every_name = [name for names in known.values() for name in names]
    for name in chosen:
        if name not in every_name and not name.startswith(KWARGS):
            raise unknown(name, known[_split(name, classes)[0]], every_name)
    swept = {name: _values(name, chosen[name], classes) for name in overrides}
    if (asked := len(seeds) * math.prod(map(len, swept.values()))) > MOST_RUNS:
        raise UserError(f"{asked:,} runs are asked for, {MOST_RUNS:,} at most are trained at once.")
    runs = []
    for combination in itertools.product(*swept.values()):
        settings = chosen | dict(zip(swept, combination, strict=True))
        groups = {prefix: {} for prefix in classes}
        for name, value in settings.items():
            prefix, bare = _split(name, groups)
            if not name.startswith(KWARGS):
                groups[prefix][bare] = value
        groups["env."]["kwargs"] = arguments(settings)
        built = {prefix: build(cls, groups[prefix], prefix) for prefix, cls in classes.items()}
        hyper, env = built[""], built["env."]
        _check_environments(task, hyper, env)
        if env.count > 1 and getattr(built["strategy."], "one_environment", False):
            raise strategies.several_environments(strategy, env.count)
        evaluation = _spaced(steps, built["eval."], env.count)
        if hyper.on_policy:
            _check_rollouts(steps, hyper, env.count)
            if built["compute."].keep_replay:
                raise UserError(
                    f"compute.keep_replay is off-policy only; {algorithm} has no replay."
                )
            if built["compute."].precision == "bf16":
                raise UserError(
                    f"compute.precision=bf16 is off-policy only; {algorithm} must learn from the "
                    "same densities that it acted by."
                )
        varied = [f"{name}={settings[name]}" for name in swept if len(swept[name]) > 1]
        varied = [part.replace(":", "-") for part in varied]  # of a schedule
        folder = "".join(f"{part}/" for part in varied)
        runs += [
            Run(
                task=task,
                algorithm=algorithm,
                strategy=strategy,
                steps=steps,
                seed=seed,
                hyper=hyper,
                strategy_hyper=built["strategy."],
                eval=evaluation,
                env=env,
                compute=built["compute."],
                name=f"{folder}seed-{seed}",
                score=built["score."],
                metrics=built["metrics."],
            )
            for seed in seeds
        ]
    several = [name for name, values in swept.items() if len(values) > 1]
    check_used(runs[0], overrides, several)
    return runs


def pairs() -> list[tuple[str, str]]:
    """Every algorithm with every strategy that exists for it."""
    return [
        (algorithm, strategy)
        for algorithm, strategy in itertools.product(ALGORITHMS, STRATEGIES)
        if algorithm in ONLY.get(strategy, ALGORITHMS)
    ]


def preset(algorithm: str, task: str, strategy: str) -> dict[str, Any]:
    """The settings that presets/ALGORITHM.toml has for a task and strategy; later entries win."""
    settings: dict[str, Any] = {}
    for entry in _entries(algorithm, task, strategy):
        settings |= entry["set"]
    return settings


def preset_sources(algorithm: str, task: str, strategy: str) -> dict[str, str]:
    """The source of each setting that `preset` has of the same arguments, as the file states it."""
    found: dict[str, str] = {}
    for entry in _entries(algorithm, task, strategy):
        found |= dict.fromkeys(entry["set"], entry["source"])
    return found


def _entries(algorithm: str, task: str, strategy: str) -> list[dict[str, Any]]:
    """The presets that are meant for a task and a strategy, in order."""
    kind = re.sub(r"-v\d+$", "", task)
    return [
        entry
        for entry in _presets(algorithm)
        if kind in entry.get("tasks", [kind]) and strategy in entry.get("strategies", [strategy])
    ]


def preset_values(algorithm: str) -> dict[str, list[str]]:
    """Return the values that settings have in the presets of tasks, by name, as they are written.

    Presets that name only a strategy are left out: they hold for all tasks.
    """
    found: dict[str, list[str]] = {}
    for entry in _presets(algorithm):
        for name, value in entry["set"].items() if "tasks" in entry else ():
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            values = found.setdefault(name, [])
            values += [text] if text not in values else []
    return found


@functools.cache
def _presets(algorithm: str) -> list[dict[str, Any]]:
    file = resources.files("discover_rl.config") / "presets" / f"{algorithm}.toml"
    if not file.is_file():  # of an algorithm of somebody else
        return []
    return tomllib.loads(file.read_text("utf-8"))["preset"]


def check_steps(steps: Any) -> int:
    """Return a number of steps as an int; a UserError if it is not one."""
    if not _whole(steps) or steps < 1:
        raise UserError(f"steps must be a whole number above 0, not {steps}.")
    if steps > MOST_STEPS:
        raise UserError(f"steps must be {MOST_STEPS:,} at most.")
    return int(steps)


def check_whole(name: str, number: Any) -> int:
    """Return the argument of this name as an int; a UserError if it is not a whole number."""
    if not _whole(number):
        raise UserError(f"{name} must be a whole number, not {number!r}.")
    return int(number)


def check_processes(processes: Any) -> int:
    """Return a number of processes as an int; a UserError if it is not one."""
    if not _whole(processes) or not 0 <= processes <= MOST_PROCESSES:
        raise UserError(
            f"processes must be a whole number from 0 to {MOST_PROCESSES:,}, not {processes!r}."
        )
    return int(processes)


def check_seconds(name: str, seconds: Any) -> float:
    """Return the argument of this name as a time in seconds; a UserError if it is not one."""
    if not isinstance(seconds, Real) or isinstance(seconds, bool) or not float(seconds) >= 0:
        raise UserError(f"{name} must be a number of seconds, 0 or more, not {seconds!r}.")
    return float(seconds)


def check_seeds(seeds: Any) -> list[int]:
    """Return the seeds that a number or a list stands for; a UserError if they make no sense.

    >>> check_seeds(3), check_seeds([7, 1])
    ([0, 1, 2], [7, 1])
    """
    if not isinstance(seeds, Integral | Iterable) or isinstance(seeds, bool | str):
        raise UserError(f"seeds must be how many, or a list, not {seeds!r}.")
    given = range(int(seeds)) if isinstance(seeds, Integral) else seeds
    listed = list(itertools.islice(given, MOST_RUNS + 1))
    if len(listed) > MOST_RUNS:
        raise UserError(f"seeds must be {MOST_RUNS:,} at most.")
    if not all(map(_whole, listed)) or not listed or len(set(listed)) < len(listed):
        raise UserError("seeds must be how many (at least 1), or a list without repetition.")
    if any(not 0 <= seed <= LARGEST_SEED for seed in listed):
        raise UserError("every seed must be at least 0 and below 2³² − 1000.")
    return [int(seed) for seed in listed]


def _check_environments(task: str, hyper: Any, env: Env) -> None:
    """Raise a UserError if no machine could make the environments that are asked for."""
    from discover_rl.envs.tasks import check_backend  # here, because it imports Gymnasium

    if not hyper.on_policy and hyper.replay_size < env.count:
        raise UserError(
            f"replay_size must be at least env.count, {env.count}, not {hyper.replay_size}."
        )
    check_backend(task, env.backend, env.making)


def _each_argument(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace a table of arguments for `gymnasium.make` by one setting for each argument."""
    found = dict(settings)
    table = found.pop(KWARGS[:-1], {})
    if not isinstance(table, Mapping) or KWARGS in found:
        raise UserError(f"An argument needs its name: {KWARGS}NAME=VALUE.")
    return found | {KWARGS + str(name): value for name, value in table.items()}


def _spaced(steps: int, chosen: Eval, count: int) -> Eval:
    """Fill in `eval.every` where it is 0, for runs of `count` environments.

    Raises:
        UserError: the environments, which step together, cannot stop exactly at an evaluation.
    """
    every = chosen.every or -(-max(1000, -(-steps // 100)) // count) * count
    for name, value in (("steps", steps), ("eval.every", every)):
        if value % count:
            above = value + -value % count
            raise UserError(f"{name} must be a multiple of env.count, as {above} is, not {value}.")
    return dataclasses.replace(chosen, every=every)


def _check_rollouts(steps: int, hyper: Any, count: int) -> None:
    """Raise a UserError if a run would learn nothing: no rollout is ever full, or minibatches are
    empty."""
    full, parts = hyper.horizon * count, hyper.minibatches
    if steps < full:
        raise UserError(f"steps must be {full} at least, one rollout, not {steps}; or set horizon.")
    if parts > full:
        raise UserError(f"minibatches must be {full} at most, a rollout's steps, not {parts}.")


def _known(what: str, name: str, members: Mapping[str, Any]) -> None:
    if name not in members:
        hint = nearest(name, members) or f" There are {', '.join(members)}."
        raise UserError(f"There is no {what} {name}.{hint}")


def _paired(algorithm: str, strategy: str) -> None:
    existing = pairs()
    if (algorithm, strategy) not in existing:
        others = ", ".join(name for name, theirs in existing if theirs == strategy)
        others = " and ".join(others.rsplit(", ", 1))
        own = ", ".join(theirs for name, theirs in existing if name == algorithm)
        raise UserError(f"{strategy} is for {others}; {algorithm} explores by {own}.")


def _split(name: str, prefixes: Iterable[str]) -> tuple[str, str]:
    """'strategy.lam' → ('strategy.', 'lam'). An unknown prefix is left to `build` to report."""
    head, dot, tail = name.partition(".")
    return (head + dot, tail) if dot and head + dot in prefixes else ("", name)


def _values(name: str, value: Any, classes: Mapping[str, type]) -> list[Any]:
    """Return the values of a setting; only a float can have several, which are swept."""
    prefix, bare = _split(name, classes)
    if typing.get_type_hints(classes[prefix]).get(bare) not in LANE_VALUES:
        return [value]
    several = value.split(",") if isinstance(value, str) else value
    if not isinstance(several, list | tuple):
        return [value]
    values = [getattr(build(classes[prefix], {bare: it}, prefix), bare) for it in several]
    if not values or len(set(values)) < len(values):
        raise UserError(f"{name} must be a number or a list without repetition, not {value!r}.")
    return values


def _whole(number: Any) -> bool:
    return isinstance(number, Real) and not isinstance(number, bool) and number == number // 1
