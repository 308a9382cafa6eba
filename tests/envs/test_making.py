"""How environments are made: any Box actions, Dicts and Tuples, wrappers, repeats, arguments."""

import gymnasium
import numpy as np
import pytest

import discover_rl
from discover_rl.config import Request, cohorts, resolve
from discover_rl.core.types import PolicyHead, Spec, UserError
from discover_rl.envs import answers, tasks
from discover_rl.envs.gymnasium_vector import GymnasiumEpisodes, GymnasiumVector
from discover_rl.envs.observations import flatten
from discover_rl.envs.settings import Making
from discover_rl.storage.policies import Policy
from discover_rl.storage.records import Record
from discover_rl.training import evaluation, job
from discover_rl.training import launch as training
from discover_rl.training.evaluation import evaluate_policy
from tests.envs import odd_tasks
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

PARTS = "tests.envs.odd_tasks:Parts-v0"
ANSWERS = "tests.envs.odd_tasks:Answers-v0"
HERE = "tests.envs.odd_tasks"


def begun(task: str, **settings) -> GymnasiumVector:
    vector = GymnasiumVector(task, [3], **settings)
    vector.begin(0)
    return vector


def step(vector, action=1.0):
    size = vector.spec.action_size
    return vector.step(np.full((1, size), action, np.float32), np.ones(1, bool))


# Observations


def test_parts_come_in_the_order_of_gymnasiums_own_flattening():
    env = odd_tasks.Parts()
    for seed in range(3):
        obs, _ = env.reset(seed=seed)
        theirs = gymnasium.spaces.flatten(env.observation_space, obs)
        np.testing.assert_array_equal(flatten(obs), theirs)
    vector = begun(PARTS)
    assert vector.spec.observation_shape == (5,)
    answer = step(vector)
    np.testing.assert_array_equal(answer.next_obs[0][:3], [0, 2, 3])
    assert answer.next_obs[0][4] == 1.0


def test_the_order_of_keys_is_alphabetical_though_a_space_may_keep_another():
    box = gymnasium.spaces.Box(-9, 9, (1,))
    space = gymnasium.spaces.Dict({"b": box, "a": box}, sort_keys=False)
    assert list(space.spaces) == ["b", "a"]
    obs = {"b": np.zeros(1), "a": np.ones(1)}
    np.testing.assert_array_equal(flatten(obs), [1.0, 0.0])
    np.testing.assert_array_equal(answers.flat(obs, answers.shape_of(space)), [1.0, 0.0])


def test_a_policy_takes_what_the_task_observes():
    env = odd_tasks.Parts()
    weight = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    net = {"head": {"weight": weight, "bias": np.zeros(2, np.float32)}}
    policy = Policy(net, tasks.spec_of(env), PolicyHead())
    obs, _ = env.reset(seed=0)
    action, _ = policy.predict(obs)
    np.testing.assert_array_equal(action, policy.predict(flatten(obs))[0])
    assert env.action_space.contains(action)


@pytest.mark.parametrize("kind", ["Pictures", "ScaledPictures"])
def test_images_are_noted_once(capsys, kind):
    tasks._note_images.cache_clear()
    for _ in range(2):
        tasks.check(f"tests.envs.odd_tasks:{kind}-v0")
    tasks.check(PARTS)
    said = capsys.readouterr().err
    assert said.count("Note: ") == 1
    assert "observes images" in said


def test_keys_may_be_numbers():
    vector = begun(f"{HERE}:Numbered-v0")
    np.testing.assert_array_equal(vector.obs, [[0.0, 1.0]])


# Actions


def test_actions_stay_inside_a_box_of_double_precision():
    spec = begun(PARTS).spec
    for action in (-1.0, 1.0, 7.0):
        boxed = spec.to_box(np.full(2, action, np.float32))
        assert boxed.dtype == np.float32
        assert odd_tasks.TENTH.contains(boxed)
        assert np.abs(boxed).min() > 0.0999999
    # The environment checks them itself.
    vector = begun(PARTS)
    for action in (-1.0, 1.0):
        step(vector, action)
    assert not vector.crashes


def test_an_action_without_dimensions_is_an_array_all_the_same():
    vector = begun(f"{HERE}:Scalar-v0")
    step(vector)
    assert not vector.crashes
    scores = GymnasiumEpisodes(f"{HERE}:Scalar-v0", [0])
    scores.begin(np.arange(1))
    scores.step(np.arange(1), np.zeros(1, np.float32))
    assert not scores.crashes


def test_bounds_of_single_precision_stay_what_they_are():
    bound = float(np.float32(0.4))
    spec = Spec((1,), (1,), (-bound,), (bound,))
    assert spec.to_box(np.ones(1, np.float32)).item() == bound


# Wrappers, repeats, arguments


def test_wrappers_are_applied_from_the_inside_out():
    one = Making(wrappers=(f"{HERE}:doubled", f"{HERE}:and_one"))
    other = Making(wrappers=(f"{HERE}:and_one", f"{HERE}:doubled"))
    assert step(begun(PARTS, making=one)).reward[0] == pytest.approx(1.2)
    assert step(begun(PARTS, making=other)).reward[0] == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("wrapper", "said"),
    [
        ("doubled", "env.wrappers takes module:function, not 'doubled'."),
        ("no_such_module:f", "The wrapper no_such_module:f cannot be imported: ModuleNotFound"),
        (f"{HERE}:trebled", f"The wrapper {HERE}:trebled cannot be imported: AttributeError"),
        (f"{HERE}:nothing", f"The wrapper {HERE}:nothing must return an environment, not None"),
        (f"{HERE}:failing", f"The wrapper {HERE}:failing failed on {PARTS}: RuntimeError: no such"),
    ],
)
def test_a_wrapper_that_is_none_is_one_sentence(wrapper, said):
    with pytest.raises(UserError) as caught:
        tasks.make(PARTS, making=Making(wrappers=(wrapper,)))
    assert str(caught.value).startswith(said)


def test_a_repeated_action_is_one_step_that_ends_where_the_episode_does():
    vector = begun(PARTS, making=Making(action_repeat=3))
    answers = [step(vector) for _ in range(4)]
    assert [it.next_obs[0][4] for it in answers] == [3, 6, 7, 3]
    np.testing.assert_allclose([it.reward[0] for it in answers], [0.3, 0.3, 0.1, 0.3])
    assert [bool(it.ended[0]) for it in answers] == [False, False, True, False]
    assert len(vector.episodes(0)[0].actions) == 1


def test_time_limits_count_in_steps_of_the_run():
    assert tasks.time_limit("Pendulum-v1") == 200
    assert tasks.time_limit("Pendulum-v1", Making(action_repeat=3)) == 67


def test_arguments_reach_the_task():
    env = tasks.make("Hopper-v5")
    name = "exclude_current_positions_from_observation"
    more = tasks.make("Hopper-v5", making=Making(kwargs=((name, False),)))
    assert more.observation_space.shape[0] == env.observation_space.shape[0] + 1
    with pytest.raises(UserError, match="Hopper-v5 takes no argument colour"):
        tasks.make("Hopper-v5", making=Making(kwargs=(("colour", 1),)))


def asked(**settings):
    return resolve(Request(PARTS, "td3", "none", 1000, 1, settings))[0]


DEEP = "[" * 10**5
"""A word: as JSON it is too deep to be read."""


@pytest.mark.parametrize(
    ("settings", "making", "recorded"),
    [
        ({}, Making(), {}),
        ({"env.action_repeat": 1}, Making(), {}),
        ({"env.action_repeat": "2"}, Making(action_repeat=2), {"env.action_repeat": 2}),
        ({"env.wrappers": "a:b, c:d"}, Making(1, ("a:b", "c:d")), {"env.wrappers": ["a:b", "c:d"]}),
        ({"env.kwargs.x": "false"}, Making(kwargs=(("x", False),)), {"env.kwargs.x": False}),
        ({"env.kwargs.x": "[1, 2]"}, Making(kwargs=(("x", (1, 2)),)), {"env.kwargs.x": [1, 2]}),
        ({"env.kwargs.x": DEEP}, Making(kwargs=(("x", DEEP),)), {"env.kwargs.x": DEEP}),
        ({"env.kwargs": {"x": "up"}}, Making(kwargs=(("x", "up"),)), {"env.kwargs.x": "up"}),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_part_of_the_run(settings, making, recorded):
    run, plain = asked(**settings), asked()
    assert run.env.making == making
    said, usual = run.to_json()["settings"], plain.to_json()["settings"]
    assert {name: said[name] for name in said.keys() - usual.keys()} == recorded
    assert bool(job.difference(run.to_json(), plain.to_json())) == bool(recorded)
    assert len(cohorts([run, plain])) == (2 if recorded else 1)
    # A record says how to make the same environments again.
    assert evaluation.making_of(said) == making


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"env.action_repeat": 0},
            "env.action_repeat must be at least 1 and at most 10,000, not 0.",
        ),
        ({"env.wrappers": [1]}, "env.wrappers must be words with commas between them, not [1]."),
        ({"env.kwargs": "x"}, "An argument needs its name: env.kwargs.NAME=VALUE."),
        ({"env.kwargs.": "x"}, "An argument needs its name: env.kwargs.NAME=VALUE."),
        *(
            ({"env.kwargs.x": value}, "env.kwargs.x must be a number, a word, true, false or a")
            for value in (object(), "NaN", "1e999", float("inf"), "9" * 30, "[[[[1]]]]", 2**64)
        ),
        ({"env.repeat": 2}, "There is no setting env.repeat. Did you mean env.action_repeat?"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, said):
    with pytest.raises(UserError) as caught:
        asked(**settings)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("name", ["env.wrappers", "env.kwargs.x"])
def test_envpool_has_no_wrappers_and_no_arguments(name):
    settings = {"env.backend": "envpool", name: "a:b"}
    with pytest.raises(UserError, match=r"needs env\.backend=gymnasium"):
        resolve(Request("Hopper-v5", "td3", "none", 1000, 1, settings))
    making = resolve(Request("Hopper-v5", "td3", "none", 1000, 1, {name: "a:b"}))[0].env.making
    assert tasks.choose_backend("Hopper-v5", "auto", "gpu", making) == "gymnasium"


def test_wrappers_may_be_given_as_functions(tmp_path):
    small = {"hidden": (4,), "horizon": 20, "eval.episodes": 1, "eval.every": 20}
    (result,) = discover_rl.train(
        PARTS,
        algorithm="a2c",
        strategy="none",
        steps=20,
        out=tmp_path,
        wrappers=[odd_tasks.doubled],
        **{"env.action_repeat": 2, "env.kwargs.length": 6, **small},
    )
    assert result.returns[-1][0] == pytest.approx(6 * 0.2)  # evaluations see the same task
    scores = evaluate_policy(result.policy(), PARTS, 1)
    assert scores.returns.item() == pytest.approx(6 * 0.2)
    assert scores.lengths.item() == 3


# Exact resume


MADE = {"env.action_repeat": 2, "env.wrappers": f"{HERE}:doubled", "env.kwargs.length": 9}


def test_an_episode_can_be_restored():
    making = Making(2, (f"{HERE}:doubled",), (("length", 9),))
    vector, again = begun(PARTS, making=making), GymnasiumVector(PARTS, [3], making=making)
    for action in np.linspace(-1, 1, 8):
        step(vector, action)
    episode = vector.episodes(0)[0]
    assert (episode.number, len(episode.actions)) == (1, 3)
    assert again.restore(0, episode)
    assert not GymnasiumVector(PARTS, [3]).restore(0, episode)
    np.testing.assert_array_equal(vector.obs, again.obs)


def test_an_environment_that_fails_where_it_did_not_before_begins_anew():
    vector = begun(ANSWERS)
    for _ in range(4):
        step(vector)
    failing = GymnasiumVector(ANSWERS, [3], making=Making(kwargs=(("parts", 4),)))
    assert not failing.restore(0, vector.episodes(0)[0])
    assert not failing.crashes
    assert failing.episodes(0)[0].number == 1


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path):
    runs = runs_of(PARTS, 120, 2, "none", "a2c", **MADE)
    training.train(runs, tmp_path / "whole")
    assert stop_at(63, runs, tmp_path / "stopped") == 63
    training.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_what_a_wrapper_remembers_of_earlier_episodes_is_said_to_be_lost(tmp_path):
    runs = runs_of(PARTS, 120, 1, "none", "a2c", **{"env.wrappers": f"{HERE}:Counting"})
    stop_at(63, runs, tmp_path)
    training.train(runs, tmp_path)
    events = [it.get("event") for it in Record(tmp_path / "seed-0" / "record.jsonl").lines]
    assert events.count("episode_lost") == 1
