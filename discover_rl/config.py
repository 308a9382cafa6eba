"""What a run is, and how it comes about: the algorithm's defaults, then presets, then the user.

A setting has one name everywhere – command line, Python, files: an algorithm's bare (`gamma`), a
strategy's with a prefix (`strategy.lam`), and so those of evaluation, of the environment and of the
machine (`eval.every`, `env.reward_delay`, `compute.precision`).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from numbers import Integral, Real
from typing import Any

from discover_rl import machine
from discover_rl.algorithms import ALGORITHMS, ON_POLICY
from discover_rl.hyper import build, nearest, setting, unknown
from discover_rl.strategies import ONLY, STRATEGIES
from discover_rl.types import UserError


@dataclass(frozen=True)
class Eval:
    every: int = setting(
        0, "Steps between evaluations; 0: 100 in a run, 1,000 apart or more.", low=0
    )
    episodes: int = setting(10, "Episodes in an evaluation.", low=1)
    max_steps: int = setting(
        10_000, "Where an episode is cut, for tasks without a time limit of their own.", low=1
    )


@dataclass(frozen=True)
class Env:
    count: int = setting(1, "Environments of a run, stepped together; on-policy only.", low=1)
    engine: str = setting(
        "gymnasium",
        "What steps them; envpool: threads, for MuJoCo's tasks; auto: those where they pay.",
        choices=("gymnasium", "envpool", "auto"),
    )
    reward_delay: int = setting(
        1, "Steps over which training rewards are summed before they are paid.", low=1
    )
    limit_terminates: bool = setting(
        False, "Learn from a time limit as from a termination (on: as the authors' code)."
    )


@dataclass(frozen=True)
class Compute:
    precision: str = setting(
        "float32",
        "Of matrix products on a GPU; tf32 is faster and rounds their factors to 10 bits.",
        choices=("float32", "tf32"),
    )
    keep_replay: bool = setting(
        False, "Keep the replay of a finished run in its folder, for `discover visitation`."
    )


SHARED: dict[str, type] = {"eval.": Eval, "env.": Env, "compute.": Compute}
"""Settings that every algorithm and strategy has, by their prefix."""


@dataclass(frozen=True)
class Run:
    """Task × algorithm × strategy × hyper-parameters × seed: the unit of result."""

    task: str
    algorithm: str
    strategy: str
    steps: int
    seed: int
    hyper: Any
    strategy_hyper: Any
    eval: Eval
    env: Env
    compute: Compute
    name: str
    """Its folder, below the output folder."""

    def to_json(self) -> dict[str, Any]:
        """Fully resolved, as line 1 of the record has it."""
        groups = (
            ("", self.hyper),
            ("strategy.", self.strategy_hyper),
            ("eval.", self.eval),
            ("env.", self.env),
            ("compute.", self.compute),
        )
        settings = {
            prefix + name: list(value) if isinstance(value, tuple) else value
            for prefix, group in groups
            for name, value in dataclasses.asdict(group).items()
        }
        named = {name: getattr(self, name) for name in ("task", "algorithm", "strategy")}
        return named | {"steps": self.steps, "seed": self.seed, "settings": settings}


def resolve(
    task: str,
    algorithm: str,
    strategy: str,
    steps: int,
    seeds: int | Iterable[int],
    overrides: Mapping[str, Any],
) -> list[Run]:
    """The runs that a request comes to: one per seed and per combination of swept floats."""
    _known("algorithm", algorithm, ALGORITHMS)
    _known("strategy", strategy, STRATEGIES)
    _paired(algorithm, strategy)
    seeds, steps = seeds_of(seeds), counted(steps)
    classes = {
        "": importlib.import_module(f"discover_rl.algorithms.{algorithm}").Hyper,
        "strategy.": importlib.import_module(f"discover_rl.strategies.{strategy}").Hyper,
        **SHARED,
    }
    chosen = preset(algorithm, task, strategy) | dict(overrides)
    known = {
        prefix: [prefix + f.name for f in dataclasses.fields(cls)]
        for prefix, cls in classes.items()
    }
    every_name = [name for names in known.values() for name in names]
    for name in chosen:
        if name not in every_name:
            raise unknown(name, known[_split(name, classes)[0]], every_name)
    swept = {name: _values(name, chosen[name], classes) for name in overrides}
    runs = []
    for combination in itertools.product(*swept.values()):
        settings = chosen | dict(zip(swept, combination, strict=True))
        groups = {prefix: {} for prefix in classes}
        for name, value in settings.items():
            prefix, bare = _split(name, groups)
            groups[prefix][bare] = value
        built = {prefix: build(cls, groups[prefix], prefix) for prefix, cls in classes.items()}
        built["eval."] = _cadence(algorithm, steps, built["eval."], built["env."].count)
        if algorithm in ON_POLICY:
            _filled(steps, built[""], built["env."].count)
            if built["compute."].keep_replay:
                raise UserError(
                    f"compute.keep_replay is off-policy only; {algorithm} has no replay."
                )
        place = machine.place(off_policy=algorithm not in ON_POLICY)
        chosen_engine = machine.engine(task, built["env."].engine, place)
        built["env."] = dataclasses.replace(built["env."], engine=chosen_engine)
        varied = [f"{name}={settings[name]}" for name in swept if len(swept[name]) > 1]
        folder = "".join(f"{part}/" for part in varied)
        runs += [
            Run(
                task=task,
                algorithm=algorithm,
                strategy=strategy,
                steps=steps,
                seed=seed,
                hyper=built[""],
                strategy_hyper=built["strategy."],
                eval=built["eval."],
                env=built["env."],
                compute=built["compute."],
                name=f"{folder}seed-{seed}",
            )
            for seed in seeds
        ]
    return runs


def pairs() -> list[tuple[str, str]]:
    """Every algorithm with every strategy that exists for it."""
    return [
        (algorithm, strategy)
        for algorithm, strategy in itertools.product(ALGORITHMS, STRATEGIES)
        if algorithm in ONLY.get(strategy, ALGORITHMS)
    ]


def cohorts(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that share everything static, grouped: they train in lockstep, lanes of one program."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        static = [_statics(group) for group in (run.hyper, run.strategy_hyper)]
        named = run.task, run.algorithm, run.strategy, run.steps
        key = (*named, run.eval, run.env, run.compute, *static)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def _cadence(algorithm: str, steps: int, chosen: Eval, count: int) -> Eval:
    """When to evaluate; a UserError where environments would have to stop at different steps."""
    if count > 1 and algorithm not in ON_POLICY:
        known = " and ".join(ON_POLICY)
        raise UserError(f"env.count above 1 is for {known}; {algorithm} learns at every step.")
    every = chosen.every or -(-max(1000, -(-steps // 100)) // count) * count
    for name, value in (("steps", steps), ("eval.every", every)):
        if value % count:
            above = value + -value % count
            raise UserError(f"{name} must be a multiple of env.count, as {above} is, not {value}.")
    return dataclasses.replace(chosen, every=every)


def _filled(steps: int, hyper: Any, count: int) -> None:
    """A UserError where nothing would be learned: no rollout is ever full, or parts are empty."""
    full, parts = hyper.horizon * count, hyper.minibatches
    if steps < full:
        raise UserError(f"steps must be {full} at least, one rollout, not {steps}; or set horizon.")
    if parts > full:
        raise UserError(f"minibatches must be {full} at most, a rollout's steps, not {parts}.")


def preset(algorithm: str, task: str, strategy: str) -> dict[str, Any]:
    """What presets/ALGORITHM.toml has for this task and strategy, later entries over earlier."""
    kind = re.sub(r"-v\d+$", "", task)
    settings: dict[str, Any] = {}
    for entry in _presets(algorithm):
        meant = kind in entry.get("tasks", [kind]) and strategy in entry.get(
            "strategies", [strategy]
        )
        if meant:
            settings |= entry["set"]
    return settings


@functools.cache
def _presets(algorithm: str) -> list[dict[str, Any]]:
    file = resources.files("discover_rl") / "presets" / f"{algorithm}.toml"
    return tomllib.loads(file.read_text())["preset"]


def _statics(hyper: Any) -> tuple[Any, ...]:
    kinds = typing.get_type_hints(type(hyper))
    return tuple(getattr(hyper, name) for name, kind in kinds.items() if kind is not float)


def _known(what: str, name: str, members: Mapping[str, Any]) -> None:
    if name not in members:
        hint = nearest(name, members) or f" There are {', '.join(members)}."
        raise UserError(f"There is no {what} {name}.{hint}")


def _paired(algorithm: str, strategy: str) -> None:
    existing = pairs()
    if (algorithm, strategy) not in existing:
        others = " and ".join(name for name, theirs in existing if theirs == strategy)
        own = ", ".join(theirs for name, theirs in existing if name == algorithm)
        raise UserError(f"{strategy} is for {others}; {algorithm} explores by {own}.")


def counted(steps: Any) -> int:
    """A number of steps; a UserError if it is none."""
    if not _whole(steps) or steps < 1:
        raise UserError(f"steps must be a whole number above 0, not {steps}.")
    return int(steps)


def seeds_of(seeds: Any) -> list[int]:
    """Which seeds are meant, by how many or by a list."""
    if not isinstance(seeds, Integral | Iterable) or isinstance(seeds, bool | str):
        raise UserError(f"seeds must be how many, or a list, not {seeds!r}.")
    listed = list(range(int(seeds)) if isinstance(seeds, Integral) else seeds)
    if not all(map(_whole, listed)) or not listed or len(set(listed)) < len(listed):
        raise UserError("seeds must be how many (at least 1), or a list without repetition.")
    if any(not 0 <= seed < 2**32 - 1000 for seed in listed):
        raise UserError("every seed must be at least 0 and below 2³² − 1000.")
    return [int(seed) for seed in listed]


def _split(name: str, prefixes: Iterable[str]) -> tuple[str, str]:
    """'strategy.lam' → ('strategy.', 'lam'). An unknown prefix is left to `build` to report."""
    head, dot, tail = name.partition(".")
    return (head + dot, tail) if dot and head + dot in prefixes else ("", name)


def _values(name: str, value: Any, classes: Mapping[str, type]) -> list[Any]:
    """The values a setting runs through: more than one only for a float that is given several."""
    prefix, bare = _split(name, classes)
    if typing.get_type_hints(classes[prefix]).get(bare) is not float:
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
