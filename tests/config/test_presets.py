"""The presets: every algorithm on every task of the paper, to the number."""

import dataclasses
import importlib
import itertools
import json
import tomllib
from importlib import resources

import numpy as np
import pytest

from discover_rl import config
from discover_rl.algorithms import ALGORITHMS
from discover_rl.config import Request, preset, resolve
from discover_rl.envs.catalogue import _SUITE_NAMES
from discover_rl.envs.sparse import GOALS
from discover_rl.envs.tasks import make
from discover_rl.storage.policies import load_policy
from discover_rl.training import launch as training
from discover_rl.training.observers import Observer
from tests.conftest import drop_programs
from tests.helpers import cells
from tests.helpers.cells import is_on_policy

MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
    *("Reacher", "InvertedPendulum", "InvertedDoublePendulum"),
)
SPARSE = ["MountainCarContinuous-v0", *(f"discover_rl:{name}" for name in GOALS)]
OTHERS = [*SPARSE, "gymnasium_robotics:PointMaze_Large-v3", *_SUITE_NAMES]
TASKS = [f"{kind}-v5" for kind in MUJOCO] + ["BipedalWalker-v3", "LunarLanderContinuous-v3"]
CELLS = list(itertools.product(ALGORITHMS, TASKS))

ALL = {"gamma": 0.99, "lr_decay": 0.0, "replay_size": 1_000_000, "train_every": 1, "updates": 1}
BOTH = {"gamma": 0.99, "value_weight": 0.5, "entropy_weight": 0.0, "max_grad_norm": 0.5}
BOTH |= {"hidden": [64, 64], "normalise": True, "initial_log_std": 0.0}
EVERYWHERE = {
    "a2c": BOTH
    | {"gae_lambda": 1.0, "actor_lr": 1.3e-3, "lr_decay": 0.0}
    | {"horizon": 32, "minibatches": 1, "epochs": 1},
    "ppo": BOTH
    | {"gae_lambda": 0.95, "actor_lr": 3e-4, "lr_decay": 1.0, "clip": 0.2, "clip_value": True}
    | {"horizon": 2048, "minibatches": 32, "epochs": 10},
    "ddpg": ALL
    | {"tau": 1e-3, "actor_lr": 1e-4, "critic_lr": 1e-3, "batch_size": 64, "hidden": [400, 300]}
    | {"weight_decay": 0.01, "normalise": True, "clip_target": True, "warmup": 10_000},
    "sac": ALL
    | {"tau": 5e-3, "actor_lr": 3e-4, "critic_lr": 3e-4, "batch_size": 256, "hidden": [256, 256]}
    | {"temperature": 1.0, "temperature_lr": 3e-4, "target_entropy": -1.0, "warmup": 10_000}
    | {"learn_temperature": True, "reward_scale": 1.0, "target_period": 1, "behaviour": "sample"},
    "td3": ALL
    | {"tau": 5e-3, "actor_lr": 3e-4, "critic_lr": 3e-4, "batch_size": 256, "hidden": [256, 256]}
    | {"smoothing": 0.2, "smoothing_clip": 0.5, "delay": 2, "warmup": 25_000},
}
FAST = {"actor_lr": 7.3e-4, "critic_lr": 7.3e-4, "temperature_lr": 7.3e-4}
HERE = {
    ("sac", "Swimmer"): {"gamma": 0.9999},
    ("sac", "BipedalWalker"): FAST | {"gamma": 0.98, "tau": 0.02, "train_every": 64, "updates": 64},
    ("sac", "LunarLanderContinuous"): FAST | {"tau": 0.01, "lr_decay": 1.0},
    **{
        (algorithm, kind): {"warmup": 1_000}
        for algorithm in ("ddpg", "sac")
        for kind in ("HumanoidStandup", "Reacher", "InvertedPendulum", "InvertedDoublePendulum")
    },
}


def settings_of(task, algorithm, overrides=None, strategy="none"):
    """The algorithm's own settings, as the record has them."""
    (run,) = resolve(Request(task, algorithm, strategy, 1_000_000, 1, overrides or {}))
    settings = run.to_json()["settings"]
    return {name: value for name, value in settings.items() if "." not in name}


def entries_of(algorithm):
    file = resources.files("discover_rl.config") / "presets" / f"{algorithm}.toml"
    return tomllib.loads(file.read_text())["preset"]


def defaults_of(algorithm):
    return importlib.import_module(f"discover_rl.algorithms.{algorithm}").Hyper()


# The numbers


@pytest.mark.parametrize(("algorithm", "task"), CELLS)
def test_the_settings_are_the_papers(algorithm, task):
    kind = task.rpartition("-v")[0]
    expected = EVERYWHERE[algorithm] | HERE.get((algorithm, kind), {})
    for strategy in cells.strategies_of(algorithm):
        assert settings_of(task, algorithm, strategy=strategy) == expected


@pytest.mark.parametrize(("algorithm", "kind"), list(itertools.product(ALGORITHMS, MUJOCO)))
def test_version_4_of_a_task_has_the_preset_of_version_5(algorithm, kind):
    for strategy in cells.strategies_of(algorithm):
        older, newer = (preset(algorithm, f"{kind}-v{version}", strategy) for version in (4, 5))
        assert older == newer != {}
    assert settings_of(f"{kind}-v4", algorithm) == settings_of(f"{kind}-v5", algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_task_outside_the_paper_has_the_defaults_and_a_short_warmup(algorithm):
    expected = json.loads(json.dumps(dataclasses.asdict(defaults_of(algorithm))))
    warmup = {} if is_on_policy(algorithm) else {"warmup": 1_000}
    (run,) = resolve(Request("Pendulum-v1", algorithm, "none"))
    own = {name: value for name, value in run.settings.items() if "." not in name}
    assert own == expected | warmup


@pytest.mark.parametrize("task", [*TASKS, "Pendulum-v1"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_direction_reaches_less_far_on_policy(algorithm, task):
    (run,) = resolve(Request(task, algorithm, "discover", 10_000, 1, {}))
    assert run.strategy_hyper.lam == (0.1 if is_on_policy(algorithm) else 0.3)
    (run,) = resolve(Request(task, algorithm, "discover", 10_000, 1, {"strategy.lam": 0.7}))
    assert run.strategy_hyper.lam == 0.7


@pytest.mark.parametrize("task", [*TASKS, "Pendulum-v1"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_noise_on_parameters_starts_smaller_on_policy(algorithm, task):
    for strategy in ("noisynet", "psne", "coherent"):
        (run,) = resolve(Request(task, algorithm, strategy, 10_000, 1, {}))
        assert run.strategy_hyper.sigma == (0.017 if is_on_policy(algorithm) else 0.034)
        (run,) = resolve(Request(task, algorithm, strategy, 10_000, 1, {"strategy.sigma": 0.2}))
        assert run.strategy_hyper.sigma == 0.2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("strategy", "expected"), [("psne", {"threshold": 0.1}), ("coherent", {"beta": 0.01})]
)
def test_the_paper_states_one_threshold_and_one_wandering_for_all_tasks(
    algorithm, strategy, expected
):
    for task in (*TASKS, "Pendulum-v1"):
        chosen = preset(algorithm, task, strategy)
        others = {"strategy.sigma"} | {name for name in chosen if "." not in name}
        stated = {name: chosen[name] for name in chosen.keys() - others}
        assert stated == {f"strategy.{name}": value for name, value in expected.items()}


@pytest.mark.parametrize("algorithm", ["sac", "a2c", "ppo"])
def test_the_noise_of_a_state_starts_as_in_stable_baselines3(algorithm):
    (run,) = resolve(Request("Pendulum-v1", algorithm, "gsde", 10_000, 1, {}))
    squashes = algorithm == "sac"
    assert run.strategy_hyper.initial_log_std == (-3.0 if squashes else -2.0)
    assert run.strategy_hyper.learn_features == squashes
    assert run.strategy_hyper.mean_limit == 2.0


@pytest.mark.parametrize(("algorithm", "sigma"), [("td3", 0.3), ("sac", 0.3)])
def test_coloured_noise_is_as_its_authors_have_it(algorithm, sigma):
    (run,) = resolve(Request("Pendulum-v1", algorithm, "pink", 10_000, 1, {}))
    assert (run.strategy_hyper.beta, run.strategy_hyper.sigma) == (1.0, sigma)


def test_repeated_noise_is_as_in_flashsac():
    stated = preset("sac", "Pendulum-v1", "zeta")
    assert (stated["strategy.mu"], stated["strategy.limit"]) == (2.0, 16)


@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_noise_on_the_mountain_is_as_wandering_as_the_zoos(algorithm):
    """Stable-Baselines3's process, which the Zoo uses, has steps of 0.01: it lasts 670 steps."""
    (run,) = resolve(Request("MountainCarContinuous-v0", algorithm, "ou", 10_000, 1, {}))
    own = run.strategy_hyper
    assert (own.sigma, own.theta, own.dt) == (0.5, 0.15, 0.01)
    stated = {"strategy.sigma", "strategy.theta", "strategy.dt"}
    assert not stated & preset(algorithm, "Pendulum-v1", "ou").keys()


def test_sac_on_dm_controls_suite_starts_as_its_reference_does():
    for task in ("dm_control/pendulum-swingup-v0", "dm_control/hopper-hop-v0"):
        start = {"temperature": 0.1, "target_period": 2, "warmup": 5000}
        assert settings_of(task, "sac") == settings_of("Pendulum-v1", "sac") | start


@pytest.mark.parametrize(
    "task", ["discover_rl:SparseAnt-v0", "gymnasium_robotics:PointMaze_Large-v3"]
)
@pytest.mark.parametrize(("algorithm", "rate"), [("td3", 1e-3), ("sac", 3e-4)])
def test_sparse_locomotion_and_the_large_maze_are_learned_as_by_the_authors_of_see(
    task, algorithm, rate
):
    found = settings_of(task, algorithm)
    assert found["hidden"] == [400, 300]
    assert (found["actor_lr"], found["critic_lr"], found["warmup"]) == (rate, rate, 10_000)


def test_the_mountains_gsde_starts_as_small_as_in_the_zoo():
    found = preset("sac", "MountainCarContinuous-v0", "gsde")
    assert found["strategy.initial_log_std"] == -3.67
    assert not found.keys() & settings_of("MountainCarContinuous-v0", "sac").keys()


# Which goes before which


@pytest.mark.parametrize(
    ("algorithm", "task", "name", "default", "own", "wish"),
    [
        ("sac", "Swimmer-v5", "gamma", 0.99, 0.9999, 0.5),
        ("sac", "BipedalWalker-v3", "updates", 1, 64, 2),
        ("sac", "LunarLanderContinuous-v3", "lr_decay", 0.0, 1.0, 0.25),
        ("sac", "Hopper-v5", "warmup", 1_000, 10_000, 1_000),
        ("ddpg", "Hopper-v5", "warmup", 1_000, 10_000, 25_000),
    ],
)
def test_the_user_goes_before_the_task_and_the_task_before_the_default(
    algorithm, task, name, default, own, wish
):
    assert getattr(defaults_of(algorithm), name) == default
    preset_alone = settings_of(task, algorithm)
    assert preset_alone[name] == own
    # The wish changes what it names, and no other setting of the task.
    assert settings_of(task, algorithm, {name: wish}) == preset_alone | {name: wish}
    assert settings_of(task, algorithm, {name: str(wish)}) == preset_alone | {name: wish}


def test_a_sweep_goes_before_the_task_too():
    runs = resolve(
        Request("Swimmer-v5", "sac", "none", 10, 1, {"gamma": [0.9, 0.99], "tau": "0.1,0.2"})
    )
    assert {run.hyper.gamma for run in runs} == {0.9, 0.99}
    assert {run.hyper.tau for run in runs} == {0.1, 0.2}


# The files


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_entry_says_where_it_is_from_and_whom_it_is_for(algorithm):
    own = {field.name for field in dataclasses.fields(defaults_of(algorithm))}
    for entry in entries_of(algorithm):
        assert entry.keys() <= {"source", "tasks", "strategies", "set"}
        assert entry["source"].strip()
        strategies = entry.get("strategies", cells.strategies_of(algorithm))
        assert len(set(strategies)) == len(strategies)
        for strategy in strategies:
            theirs = importlib.import_module(f"discover_rl.strategies.{strategy}").Hyper
            known = own | {f"strategy.{field.name}" for field in dataclasses.fields(theirs)}
            assert entry["set"].keys() <= known
        tasks = entry.get("tasks", [])
        assert set(tasks) <= {task.rpartition("-v")[0] for task in (*TASKS, *OTHERS)}
        assert len(set(tasks)) == len(tasks)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_line_of_a_preset_reaches_a_task(algorithm):
    """No entry is undone by later ones for every task and strategy it is for."""
    entries = entries_of(algorithm)
    # (task, strategy, setting) → the entry it gets it from
    decides: dict[tuple[str, str, str], int] = {}
    for number, entry in enumerate(entries):
        kinds = entry.get("tasks", [*(t.rpartition("-v")[0] for t in TASKS), "Any"])
        strategies = entry.get("strategies", cells.strategies_of(algorithm))
        for kind, strategy in itertools.product(kinds, strategies):
            decides |= {(kind, strategy, name): number for name in entry["set"]}
    reaching = {(number, name) for (_, _, name), number in decides.items()}
    assert reaching == {(i, name) for i, entry in enumerate(entries) for name in entry["set"]}
    for (kind, strategy, name), number in decides.items():
        assert preset(algorithm, f"{kind}-v9", strategy)[name] == entries[number]["set"][name]


def test_every_algorithm_has_presets_and_every_presets_file_an_algorithm():
    files = (resources.files("discover_rl.config") / "presets").iterdir()
    assert {file.name for file in files} == {f"{name}.toml" for name in ALGORITHMS}


# On the real tasks


class Early(Observer):
    """Keeps the policy as it was before anything was learned."""

    def __init__(self, out):
        self.out = out

    def started(self, runs, step):
        self.policy = None

    def stepped(self, step):
        # The first checkpoint, before the first step, has left it.
        self.policy = self.policy or load_policy(self.out)


def cell_of(number: int) -> tuple[str, str, str]:
    """Every algorithm meets every strategy it has on some task; the largest, one that is cheap."""
    algorithm, task = CELLS[number]
    place = TASKS.index(task) + list(ALGORITHMS).index(algorithm)
    strategies = cells.strategies_of(algorithm)
    return algorithm, task, strategies[(place + 1) % len(strategies)]


@pytest.fixture
def light():
    """Drop programs after every cell: sixty of them in one process take too many memory maps."""
    yield
    drop_programs()


@pytest.mark.slow
@pytest.mark.usefixtures("light")
@pytest.mark.parametrize(("algorithm", "task", "strategy"), [cell_of(i) for i in range(len(CELLS))])
def test_every_algorithm_trains_on_every_task_with_networks_of_the_real_size(
    tmp_path, algorithm, task, strategy
):
    settings, overrides = settings_of(task, algorithm), {"eval.episodes": 1, "eval.max_steps": 20}
    if is_on_policy(algorithm):
        steps = settings["horizon"] + 1
    else:
        rounds = 1 if settings["train_every"] > 1 else 6
        steps = 20 + rounds * settings["train_every"] + 1
        overrides |= {"warmup": 20}
    overrides |= {f"strategy.{k}": v for k, v in cells.AWAKE.get(strategy, {}).items()}
    (run,) = config.resolve(config.Request(task, algorithm, strategy, steps, 1, overrides))
    early = Early(tmp_path)
    (record,) = training.train([run], tmp_path, early).values()
    assert record.done
    evaluated = [*range(0, steps, 1000), steps]
    others = [line for line in record.lines[1:] if "metrics" not in line]
    assert [line["step"] for line in others] == evaluated  # and no event
    report = record.evaluations[-1]["report"]
    assert None not in report.values(), report
    policy, env = load_policy(tmp_path), make(task)
    assert policy.net["layer0"]["weight"].shape == (
        policy.spec.observation_size,
        EVERYWHERE[algorithm]["hidden"][0],
    )
    before, after = early.policy.net["head"]["weight"], policy.net["head"]["weight"]
    assert np.abs(after - before).max() > 0
    obs, _ = env.reset(seed=1)
    for _ in range(5):
        action, _ = policy.predict(obs)
        assert env.action_space.contains(action)
        obs, *_ = env.step(action)
    env.close()
