"""Videos: they show the episodes of the evaluation, or there is no file."""

import ctypes.util
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

from discover_rl.analysis import video
from discover_rl.core.types import PolicyHead, UserError
from discover_rl.envs.gymnasium_vector import GymnasiumEpisodes
from discover_rl.envs.tasks import make, spec_of
from discover_rl.storage.policies import Policy, load_policy
from discover_rl.training.evaluation import EvaluationSetup, Evaluator, evaluator_of
from tests.cli.test_cli import discover, elsewhere
from tests.training.test_evaluation import network

TOGETHER = 3
HAS_GL = any(map(ctypes.util.find_library, ("EGL", "OSMesa")))


class Blind(gymnasium.Env):
    """Has no render mode."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, True, False, {}


class Dark(Blind):
    """Takes a render mode, and shows nothing."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return None


gymnasium.register("Blind-v0", Blind)
gymnasium.register("Dark-v0", Dark)


def save_policy(task: str, folder: Path) -> Path:
    """Save a policy, of a run that was evaluated by three episodes, in a folder."""
    net, _ = network(task, 1)
    env = make(task)
    own = {
        layer: {name: array[0] for name, array in arrays.items()} for layer, arrays in net.items()
    }
    about = {"task": task, "seed": 7, "step": 40, "settings": {"eval.episodes": TOGETHER}}
    for name, content in Policy(own, spec_of(env), PolicyHead(), about).to_bytes().items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    env.close()
    return folder


def evaluation_returns(task: str) -> list[float]:
    """Returns of an evaluation during training, as a record has them."""
    net, _ = network(task, 1)
    evaluator = Evaluator(EvaluationSetup(task, [7], TOGETHER, 10_000))
    scores = evaluator(net, PolicyHead(), np.ones(1, bool))
    evaluator.close()
    return scores.returns[0].tolist()


def decoded(path: Path) -> tuple[np.ndarray, str]:
    """The pictures of a video, (n, numbers), and what ffmpeg prints of it."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    about = done.stderr.decode()
    size = re.search(r"Video: .* (\d+)x(\d+)[, ]", about)
    assert size is not None
    numbers = int(size[1]) * int(size[2]) * 3
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, numbers), about


@pytest.mark.parametrize(
    ("task", "rate"),
    [
        ("Pendulum-v1", 30),
        ("LunarLanderContinuous-v3", 50),
        pytest.param(
            *("Hopper-v5", 125),
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not HAS_GL, reason="neither EGL nor OSMesa is installed"),
            ],
        ),
    ],
)
def test_filmed_episodes_are_those_of_the_evaluation(tmp_path, monkeypatch, task, rate):
    for name in ("MUJOCO_GL", "SDL_VIDEODRIVER"):
        monkeypatch.setenv(name, "")  # so that it is restored in the end
        monkeypatch.delenv(name)
    path, policy = tmp_path / "new" / "out.mp4", load_policy(save_policy(task, tmp_path / "run"))
    scores = video.film(policy, task, path, 2)
    assert scores.returns.tolist() == [evaluation_returns(task)[:2]]
    frames, about = decoded(path)
    # A picture of every start and after every step.
    assert len(frames) == scores.lengths.sum() + 2
    assert f" {rate} fps," in about
    assert frames[0].std() > 5  # it shows something
    assert (frames[0] != frames[-1]).any()
    assert [file.name for file in path.parent.iterdir()] == ["out.mp4"]


def test_the_command_films_one_episode_and_says_where(tmp_path, capfd):
    folder = save_policy("Pendulum-v1", tmp_path / "run")
    assert discover("evaluate", str(folder), "--video", str(tmp_path / "out.mp4")) == 0
    printed = capfd.readouterr().out
    assert f"{evaluation_returns('Pendulum-v1')[0]:.1f}" in printed
    assert f"Video: {tmp_path / 'out.mp4'}" in printed
    assert len(decoded(tmp_path / "out.mp4")[0]) == 201


def test_only_the_environments_that_are_filmed_are_made(tmp_path):
    """However many episodes an evaluation had, which a file says."""
    policy = load_policy(save_policy("Pendulum-v1", tmp_path))
    with evaluator_of(policy, "Pendulum-v1", 50_000, filmed=2) as (evaluator, _):
        assert isinstance(evaluator.episodes, GymnasiumEpisodes)
        assert (evaluator.shape, len(evaluator.episodes.envs)) == ((1, 50_000), 2)


# What cannot be filmed leaves nothing behind


@pytest.fixture
def refused(tmp_path, capfd):
    """A function that films, and returns the one sentence that the command fails with.

    It checks that no file is left.
    """

    def refused(task: str, name: str = "out.mp4", seeds: int = 1) -> str:
        for seed in range(seeds):
            folder = save_policy(task, tmp_path / "runs" / f"seed-{seed}")
        before = {str(path) for path in tmp_path.rglob("*")}
        where = folder if seeds == 1 else tmp_path / "runs"
        assert discover("evaluate", str(where), "--video", str(tmp_path / name)) == 2
        assert {str(path) for path in tmp_path.rglob("*")} == before
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err

    return refused


def test_a_video_is_of_one_policy_in_a_file_of_its_kind(refused):
    assert refused("Pendulum-v1", seeds=2).startswith("A video is of one policy; name one of ")
    assert refused("Pendulum-v1", "out.gif") == (
        "A video is a file that ends in .mp4, not out.gif.\n"
    )


def test_without_the_package_it_names_the_extra(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert refused("Pendulum-v1") == (
        "A video needs a package: pip install 'discover_rl[video]'.\n"
    )


@pytest.mark.parametrize("task", ["Blind-v0", "Dark-v0"])
def test_a_task_that_shows_nothing_is_refused(refused, task):
    assert refused(task).startswith(f"{task} cannot be filmed: ")


def test_an_encoder_that_fails_is_reported(refused, monkeypatch):
    monkeypatch.setattr(video, "encoder", lambda: "false")
    assert refused("Pendulum-v1").startswith("out.mp4 cannot be written: ")


def test_an_interrupted_video_leaves_nothing(tmp_path, monkeypatch):
    pictures = iter([np.zeros((40, 40, 3), np.uint8)] * 5)

    def stops(env, task):
        picture = next(pictures, None)
        if picture is None:
            raise KeyboardInterrupt
        return picture

    monkeypatch.setattr(video, "picture", stops)
    policy = load_policy(save_policy("Pendulum-v1", tmp_path / "run"))
    with pytest.raises(KeyboardInterrupt):
        video.film(policy, "Pendulum-v1", tmp_path / "out.mp4", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


needs_no_osmesa = pytest.mark.skipif(
    ctypes.util.find_library("OSMesa") is not None, reason="OSMesa is installed, so it works"
)
NO_GL = "MuJoCo cannot render here: no EGL or OSMesa library works (Debian's libegl1 or "


@needs_no_osmesa
def test_where_there_is_no_library_to_draw_with_it_says_so(refused, monkeypatch):
    import mujoco  # noqa: F401 – which would else fail at import, as in the next test

    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert refused("Hopper-v5").startswith(NO_GL)


@needs_no_osmesa
@pytest.mark.slow
def test_so_it_does_where_mujoco_fails_at_import(tmp_path):
    folder = save_policy("Hopper-v5", tmp_path / "run")
    environment = {**os.environ, "MUJOCO_GL": "osmesa"}
    done = elsewhere("evaluate", str(folder), "--video=out.mp4", cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(NO_GL)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_pictures_need_no_screen_unless_the_user_asks_for_one(monkeypatch):
    for libraries, kind in ((("EGL", "OSMesa"), "egl"), (("OSMesa",), "osmesa"), ((), "egl")):
        monkeypatch.delenv("MUJOCO_GL", raising=False)
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(
            video.ctypes.util, "find_library", lambda name, found=libraries: name in found
        )
        video.render_without_screen()
        assert os.environ["MUJOCO_GL"] == kind
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    video.render_without_screen()
    assert os.environ["MUJOCO_GL"] == "glfw"


def test_another_task_must_have_the_same_spaces(tmp_path):
    policy = load_policy(save_policy("Pendulum-v1", tmp_path / "run"))
    with pytest.raises(UserError, match="has other spaces than this policy was trained for"):
        video.film(policy, "LunarLanderContinuous-v3", tmp_path / "out.mp4", 1)
    assert not (tmp_path / "out.mp4").exists()
