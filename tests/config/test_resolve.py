"""From a request to runs: defaults, presets, the user; sweeps; cohorts."""

import json

import pytest

from discover_rl.algorithms import ALGORITHMS
from discover_rl.algorithms.td3 import Hyper
from discover_rl.config import Request, cohorts, preset, resolve
from discover_rl.core.types import UserError
from discover_rl.training import job

MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
    *("Reacher", "InvertedPendulum", "InvertedDoublePendulum"),
)
PAPER_TASKS = [f"{name}-v5" for name in MUJOCO] + ["BipedalWalker-v3", "LunarLanderContinuous-v3"]


def runs_of(
    overrides=None,
    *,
    task="Pendulum-v1",
    algorithm="td3",
    strategy="discover",
    steps=5000,
    seeds=1,
):
    return resolve(Request(task, algorithm, strategy, steps, seeds, overrides or {}))


def refusal(overrides=None, **request) -> str:
    with pytest.raises(UserError) as caught:
        runs_of(overrides, **request)
    return str(caught.value)


# Defaults, presets, the user


def test_the_user_goes_before_the_preset_and_the_preset_before_the_default():
    assert Hyper().warmup == 1_000
    assert runs_of()[0].hyper.warmup == 1_000
    assert runs_of(task="Hopper-v5")[0].hyper.warmup == 25_000
    for task in ("Pendulum-v1", "Hopper-v5"):
        assert runs_of({"warmup": "7"}, task=task)[0].hyper.warmup == 7
    assert runs_of({"warmup": 7})[0].hyper == Hyper(warmup=7)


@pytest.mark.parametrize(
    "task", ["Pendulum-v1", "Pusher-v5", "MountainCarContinuous-v0", "Ants-v5"]
)
def test_tasks_outside_the_paper_have_the_defaults(task):
    assert preset("td3", task, "discover") == {}


@pytest.mark.parametrize("task", ["Hopper-v2", "Hopper-v4", "Hopper-v12", "Hopper"])
def test_presets_are_for_every_version_of_a_task(task):
    assert preset("td3", task, "discover")["warmup"] == 25_000


# Evaluations


@pytest.mark.parametrize(
    ("steps", "every"),
    [(1, 1000), (15_000, 1000), (100_000, 1000), (100_001, 1001), (1_000_000, 10_000)],
)
def test_by_default_a_run_is_evaluated_100_times_and_1000_steps_apart_at_least(steps, every):
    assert runs_of(steps=steps)[0].eval.every == every
    assert every >= 1000
    assert len(range(0, steps, every)) <= 100  # before the last step; the end is one more


def test_the_cadence_can_be_set():
    assert runs_of({"eval.every": 1000}, steps=1_000_000)[0].eval.every == 1000
    assert runs_of({"eval.every": "50", "eval.episodes": 3})[0].eval.every == 50
    assert runs_of({"eval.every": "50", "eval.episodes": 3})[0].eval.episodes == 3


# Several environments


def test_environments_are_evaluated_at_a_step_they_all_reach():
    for count, every in ((1, 1000), (3, 1002), (8, 1000), (16, 1008)):
        (run,) = runs_of({"env.count": count}, algorithm="ppo", steps=48_000)
        assert (run.env.count, run.eval.every) == (count, every)


def test_replay_has_room_for_a_transition_of_each_environment():
    said = "replay_size must be at least env.count, 4, not 3."
    assert refusal({"env.count": 4, "replay_size": 3}, algorithm="td3") == said
    assert runs_of({"env.count": 4, "replay_size": 4}, algorithm="td3")[0].env.count == 4


def test_a_strategy_that_follows_one_episode_after_the_other_has_one_environment():
    said = "env.count must be 1 with meta, which follows one episode after the other, not 4."
    assert refusal({"env.count": 4}, algorithm="ddpg", strategy="meta") == said
    assert runs_of({"env.count": 4}, algorithm="ddpg", strategy="none")[0].env.count == 4


@pytest.mark.parametrize("algorithm", ["a2c", "sac"])
@pytest.mark.parametrize(
    ("count", "more", "sentence"),
    [
        (3, {}, "steps must be a multiple of env.count, as 5001 is, not 5000."),
        (
            *(4, {"eval.every": 50}),
            "eval.every must be a multiple of env.count, as 52 is, not 50.",
        ),
        (0, {}, "env.count must be at least 1 and at most 10,000, not 0."),
        (-2, {}, "env.count must be at least 1 and at most 10,000, not -2."),
        ("two", {}, "env.count must be a whole number, not 'two'."),
        (1.5, {}, "env.count must be a whole number, not 1.5."),
    ],
)
def test_environments_that_would_stop_at_different_steps_are_refused(
    algorithm, count, more, sentence
):
    assert refusal({"env.count": count, **more}, algorithm=algorithm) == sentence


def test_half_precision_is_for_off_policy():
    said = (
        "compute.precision=bf16 is off-policy only; ppo must learn from the same densities that it "
        "acted by."
    )
    assert refusal({"compute.precision": "bf16"}, algorithm="ppo") == said
    assert runs_of({"compute.precision": "bf16"}, algorithm="sac")[0].compute.precision == "bf16"


# Runs


def test_seeds_are_counted_from_zero_or_listed():
    assert [run.seed for run in runs_of(seeds=3)] == [0, 1, 2]
    assert [(run.seed, run.name) for run in runs_of(seeds=[7, 3])] == [(7, "seed-7"), (3, "seed-3")]


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], [-1], [2**32], [0.5], "3"])
def test_impossible_seeds_are_refused(seeds):
    assert "seed" in refusal(seeds=seeds)


@pytest.mark.parametrize("steps", [0, -5, 2.5, True, float("nan"), "many"])
def test_impossible_steps_are_refused(steps):
    assert refusal(steps=steps).startswith("steps must be a whole number above 0, not ")


@pytest.mark.parametrize("several", [[0.1, 0.3], (0.1, 0.3), "0.1,0.3"])
def test_several_values_for_a_float_are_several_runs_in_folders_of_their_own(several):
    runs = runs_of({"strategy.lam": several}, seeds=2)
    assert [(run.strategy_hyper.lam, run.seed) for run in runs] == [
        (0.1, 0),
        (0.1, 1),
        (0.3, 0),
        (0.3, 1),
    ]
    assert [run.name for run in runs] == [
        "strategy.lam=0.1/seed-0",
        "strategy.lam=0.1/seed-1",
        "strategy.lam=0.3/seed-0",
        "strategy.lam=0.3/seed-1",
    ]


def test_sweeps_multiply_and_only_what_varies_is_in_the_name():
    runs = runs_of({"gamma": [0.9, 0.99], "strategy.lam": [0.1, 0.2, 0.3], "tau": 0.1})
    pairs = {(run.hyper.gamma, run.strategy_hyper.lam) for run in runs}
    assert pairs == {(gamma, lam) for gamma in (0.9, 0.99) for lam in (0.1, 0.2, 0.3)}
    assert runs[0].name == "gamma=0.9/strategy.lam=0.1/seed-0"
    assert {run.hyper.tau for run in runs} == {0.1}


@pytest.mark.parametrize("several", ["0.1,0.1", [0.1, 0.1], "0.1,0.10"])
def test_the_same_value_twice_is_refused(several):
    assert "strategy.lam" in refusal({"strategy.lam": several})


def test_a_run_has_the_same_name_however_its_value_is_written():
    written = [[0.1, 0.3], "0.1,0.3", "0.10, .3", ["1e-1", "0.3"]]
    names = {tuple(run.name for run in runs_of({"strategy.lam": it})) for it in written}
    assert names == {("strategy.lam=0.1/seed-0", "strategy.lam=0.3/seed-0")}


def test_a_sweep_over_nothing_is_refused():
    assert "strategy.lam" in refusal({"strategy.lam": []})


def test_one_bad_value_in_a_sweep_is_refused():
    assert refusal({"gamma": "0.9,1.9"}) == "gamma must be at least 0 and at most 1, not 1.9."


def test_a_tuple_is_one_value_and_no_sweep():
    (run,) = runs_of({"hidden": "64,32"})
    assert run.hyper.hidden == (64, 32)


# Cohorts


def test_seeds_and_floats_share_a_cohort():
    runs = runs_of({"strategy.lam": [0.1, 0.3], "gamma": [0.9, 0.99]}, seeds=2)
    assert cohorts(runs) == [runs]
    assert len(runs) == 8


@pytest.mark.parametrize(
    "other",
    [
        {"batch_size": 32},
        {"hidden": 8},
        {"warmup": 5},
        {"strategy.delayed": False},
        {"eval.every": 50},
        {"eval.episodes": 2},
    ],
)
def test_what_is_static_sets_cohorts_apart(other):
    ours, theirs = runs_of(seeds=2), runs_of(other, seeds=2)
    assert cohorts(ours + theirs) == [ours, theirs]


@pytest.mark.parametrize("other", [{"task": "Hopper-v5"}, {"strategy": "none"}, {"steps": 6000}])
def test_another_task_strategy_or_length_is_another_cohort(other):
    same = {"warmup": 9}
    ours, theirs = runs_of(same), runs_of(same, **other)
    assert cohorts(ours + theirs) == [ours, theirs]


# Mistakes


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("gama", "gamma"),
        ("batchsize", "batch_size"),
        ("strategy.lamb", "strategy.lam"),
        ("eval.episode", "eval.episodes"),
        ("evl.every", "eval.every"),
        ("lam", "strategy.lam"),
        ("episodes", "eval.episodes"),
    ],
)
def test_an_unknown_setting_gives_the_nearest(wrong, right):
    assert refusal({wrong: 1}) == f"There is no setting {wrong}. Did you mean {right}?"


def test_a_setting_of_another_strategy_is_unknown():
    assert "There is no setting strategy.lam." in refusal({"strategy.lam": 0.1}, strategy="none")
    assert "strategy.sigma" in refusal({"strategy.lam": 0.1}, strategy="gaussian")


@pytest.mark.parametrize(
    ("algorithm", "strategy", "sentence"),
    [
        ("tdd3", "none", "There is no algorithm tdd3. Did you mean td3?"),
        ("td3", "Discovery", "There is no strategy Discovery. Did you mean discover?"),
    ],
)
def test_an_unknown_algorithm_or_strategy_gives_the_nearest(algorithm, strategy, sentence):
    with pytest.raises(UserError) as caught:
        resolve(Request("Pendulum-v1", algorithm, strategy, 10, 1, {}))
    assert str(caught.value) == sentence


def test_an_algorithm_near_nothing_gives_all_of_them():
    with pytest.raises(UserError) as caught:
        resolve(Request("Pendulum-v1", "xxxxxxxx", "none", 10, 1, {}))
    assert (
        str(caught.value) == f"There is no algorithm xxxxxxxx. There are {', '.join(ALGORITHMS)}."
    )


# What the record gets


def test_a_setting_that_came_later_is_recorded_where_it_has_another_value():
    later = {"head_gain": 0.01, "normalise_advantages": "minibatch"}
    plain, changed = (runs_of(it, algorithm="ppo")[0] for it in ({}, later))
    assert not later.keys() & plain.to_json()["settings"].keys()
    assert changed.to_json()["settings"] == plain.to_json()["settings"] | later
    assert (plain.settings["head_gain"], plain.settings["normalise_advantages"]) == (1.0, "rollout")
    said = job.difference(plain.to_json(), changed.to_json())
    swept = runs_of({"head_gain": [0.01, 1.0]}, algorithm="ppo")
    assert [len(lanes) for lanes in cohorts(swept)] == [1, 1]  # it is part of the program
    assert said == "head_gain is 1.0 there and 0.01 here"


def test_to_json_is_fully_resolved_and_survives_json():
    run = runs_of({"hidden": "8,4", "strategy.lam": "0.5", "eval.episodes": 2}, seeds=[4])[0]
    said = run.to_json()
    assert json.loads(json.dumps(said)) == said
    named = {name: said[name] for name in ("task", "algorithm", "strategy", "steps", "seed")}
    assert named == {
        "task": "Pendulum-v1",
        "algorithm": "td3",
        "strategy": "discover",
        "steps": 5000,
        "seed": 4,
    }
    assert said["settings"] == {
        "gamma": 0.99,
        "tau": 0.005,
        "actor_lr": 3e-4,
        "critic_lr": 3e-4,
        "lr_decay": 0.0,
        "batch_size": 256,
        "replay_size": 1_000_000,
        "warmup": 1000,
        "train_every": 1,
        "updates": 1,
        "hidden": [8, 4],
        "smoothing": 0.2,
        "smoothing_clip": 0.5,
        "delay": 2,
        "strategy.lam": 0.5,
        "strategy.delayed": True,
        "strategy.target_network": True,
        "strategy.target_smoothing": True,
        "strategy.acts": True,
        "strategy.subtracts": False,
        "env.count": 1,
        "env.backend": "gymnasium",
        "env.reward_delay": 1,
        "env.limit_terminates": False,
        "compute.precision": "float32",
        "compute.keep_replay": False,
        "eval.every": 1000,
        "eval.episodes": 2,
        "eval.max_steps": 10_000,
    }


@pytest.mark.parametrize(
    ("steps", "settings", "sentence"),
    [
        (2000, {}, r"^steps must be 2048 at least, one rollout, not 2000; or set horizon\.$"),
        (24, {"horizon": 12, "env.count": 3, "eval.every": 3}, r"^steps must be 36 at least"),
        (
            24,
            {"horizon": 4, "minibatches": 13, "env.count": 3, "eval.every": 3},
            r"^minibatches must be 12 at most, a rollout's steps, not 13\.$",
        ),
    ],
)
def test_runs_that_would_learn_nothing_are_refused(steps, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        resolve(Request("Pendulum-v1", "ppo", "none", steps, 1, settings))
