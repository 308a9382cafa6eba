"""Episodes of a saved policy as a video: those that its run was evaluated by, as they went then.

Pictures come from Gymnasium, without a screen: MuJoCo's by EGL or OSMesa, others' by pygame. They
go to the ffmpeg that imageio-ffmpeg brings along.
"""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from discover_rl.envs import Trials
from discover_rl.evaluate import Scores, evaluating, own_settings
from discover_rl.policy import Policy
from discover_rl.tasks import picture, pictures_per_second
from discover_rl.types import UserError

EVALUATED = 10
"""Episodes of an evaluation, where a policy does not say."""


def film(policy: Policy, task: str, path: Path, episodes: int) -> Scores:
    """Play and film so many episodes, one after the other. The file is whole or not there."""
    if path.suffix != ".mp4":
        raise UserError(f"A video is a file that ends in .mp4, not {path.name}.")
    command = encoder()
    without_screen()
    # Rounding depends on how many episodes act together: as many as in the run's evaluations.
    together = max(episodes, own_settings(policy, task).get("eval.episodes", EVALUATED))
    draft = path.with_name(path.name + ".tmp")
    with evaluating(policy, task, together, filmed=True) as (evaluator, lane):
        assert isinstance(evaluator.trials, Trials)  # EnvPool has no pictures
        envs = evaluator.trials.envs
        reel = Reel(command, draft, pictures_per_second(envs[0]))
        scores = []
        try:
            for i in range(episodes):
                played = evaluator.play(
                    lane,
                    policy.form,
                    np.asarray([i]),
                    watch=lambda i=i: reel.add(picture(envs[i], task)),
                )
                scores.append([part[0, i] for part in played])
            if crash := evaluator.crash(0):
                raise UserError(f"{task} could not be played: {crash}.")
            reel.finish()
            draft.replace(path)
        finally:
            reel.drop()
            draft.unlink(missing_ok=True)
    return Scores(*(np.asarray([part]) for part in zip(*scores, strict=True)))


def encoder() -> str:
    """The ffmpeg to use; a UserError where there is none."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise UserError("A video needs a package: pip install 'discover_rl[video]'.") from error


def without_screen() -> None:
    """Ask for pictures that need no screen, where nobody asked for others; MuJoCo looks for that
    when it is imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform == "linux":
        kinds = ("egl", "EGL"), ("osmesa", "OSMesa")
        there = (name for name, library in kinds if ctypes.util.find_library(library))
        if "MUJOCO_GL" not in os.environ:
            os.environ["MUJOCO_GL"] = next(there, "egl")


class Reel:
    """Pictures on their way into a file, which begins with the first of them."""

    def __init__(self, command: str, path: Path, rate: float):
        self.command, self.path, self.rate = command, path, rate
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, frame: np.ndarray) -> None:
        process = self._process or self._begin(frame)
        assert process.stdin is not None
        try:
            process.stdin.write(frame.data)
        except BrokenPipeError:
            self.finish()  # which says why

    def _begin(self, frame: np.ndarray) -> subprocess.Popen[bytes]:
        height, width, _ = frame.shape
        given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        # Players want colours at half the resolution, so that sides have to be even.
        even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]
        words = [self.command, "-v", "error", "-y", *given, "-r", f"{self.rate:g}", "-i", "-"]
        words += ["-an", "-c:v", "libx264", *even, "-movflags", "+faststart", "-f", "mp4"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        process = self._process = subprocess.Popen(
            [*words, str(self.path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return process

    def finish(self) -> None:
        """Wait until all of it is written."""
        assert self._process is not None
        _, said = self._process.communicate()
        if self._process.returncode:
            name = self.path.name.removesuffix(".tmp")
            raise UserError(f"{name} cannot be written: {said.decode().strip()}")

    def drop(self) -> None:
        """Stop what still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self._process.communicate()
