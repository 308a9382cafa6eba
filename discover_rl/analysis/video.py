"""Videos of a saved policy: the episodes of its run's evaluation, repeated exactly.

Gymnasium renders them without a screen: MuJoCo's tasks by EGL or OSMesa, others by pygame. The
ffmpeg that comes with imageio-ffmpeg encodes them.
"""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from discover_rl.core.types import UserError
from discover_rl.envs.gymnasium_vector import GymnasiumEpisodes
from discover_rl.envs.rendering import frames_per_second, picture
from discover_rl.storage.policies import Policy
from discover_rl.system import extras
from discover_rl.training.evaluation import Scores, check_played, evaluator_of, own_settings

EVALUATION_EPISODES = 10
"""Episodes of an evaluation, if the policy's file does not say."""


def film(policy: Policy, task: str, path: Path, episodes: int, seed: int | None = None) -> Scores:
    """Play episodes of a policy, one after the other, and write them into one video.

    No file is left if an error occurs.

    Args:
        policy: The policy, which acts without exploration.
        task: The task; its spaces must be the policy's.
        path: The video, which ends in .mp4.
        episodes: How many.
        seed: As of `evaluate_policy`.

    Returns:
        Returns and lengths of the episodes, (1, episodes).
    """
    if path.suffix != ".mp4":
        raise UserError(f"A video is a file that ends in .mp4, not {path.name}.")
    ffmpeg = encoder()
    render_without_screen()
    # The last bits depend on how many episodes act together: as many as in the run's evaluations.
    own = own_settings(policy, task)
    together = max(episodes, own.get("eval.episodes", EVALUATION_EPISODES))
    draft = path.with_name(path.name + ".tmp")
    with evaluator_of(policy, task, together, filmed=episodes, seed=seed) as (evaluator, nets):
        assert isinstance(evaluator.episodes, GymnasiumEpisodes)  # EnvPool has no pictures
        envs = evaluator.episodes.envs
        video = VideoWriter(ffmpeg, draft, frames_per_second(envs[0]))
        scores = []
        try:
            for i in range(episodes):
                played = evaluator.play(
                    nets,
                    policy.head,
                    np.asarray([i]),
                    after_step=lambda i=i: video.add(picture(envs[i], task)),
                )
                scores.append([array[0, i] for array in played])
            check_played(evaluator, task, [returns for returns, _ in scores])
            video.finish()
            draft.replace(path)
        finally:
            video.stop()
            draft.unlink(missing_ok=True)
    return Scores(*(np.asarray([numbers]) for numbers in zip(*scores, strict=True)))


def encoder() -> str:
    """The path of ffmpeg, or a UserError if imageio-ffmpeg is not installed."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise UserError(extras.hint("A video", "video")) from error


def render_without_screen() -> None:
    """Set the environment variables by which SDL and MuJoCo render without a screen.

    Variables that the user has set stay. MuJoCo reads its variable when it is imported, so call
    this before.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
        libraries = {"egl": "EGL", "osmesa": "OSMesa"}
        found = (name for name, library in libraries.items() if ctypes.util.find_library(library))
        os.environ["MUJOCO_GL"] = next(found, "egl")


class VideoWriter:
    """Encodes pictures into a file, which begins with the first of them."""

    def __init__(self, ffmpeg: str, path: Path, rate: float):
        """
        Args:
            ffmpeg: The path of the encoder.
            path: The file; its folder is made if need be.
            rate: Pictures per second.
        """
        self.ffmpeg, self.path, self.rate = ffmpeg, path, rate
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, frame: np.ndarray) -> None:
        """Add a picture, (height, width, 3), uint8; all have the same size."""
        process = self._process or self._begin(frame)
        assert process.stdin is not None
        try:
            process.stdin.write(frame.data)
        except BrokenPipeError:
            self.finish()  # which raises, with what ffmpeg printed

    def _begin(self, frame: np.ndarray) -> subprocess.Popen[bytes]:
        height, width, _ = frame.shape
        given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        # Players want colours at half the resolution, so sides have to be even.
        even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]
        command = [self.ffmpeg, "-v", "error", "-y", *given, "-r", f"{self.rate:g}", "-i", "-"]
        command += ["-an", "-c:v", "libx264", *even, "-movflags", "+faststart", "-f", "mp4"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()  # if it cannot be written, Python says so in fewer words than ffmpeg
        process = self._process = subprocess.Popen(
            [*command, str(self.path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return process

    def finish(self) -> None:
        """Wait until the file is complete; a UserError if ffmpeg failed."""
        assert self._process is not None
        _, errors = self._process.communicate()
        if self._process.returncode:
            name = self.path.name.removesuffix(".tmp")
            raise UserError(f"{name} cannot be written: {errors.decode().strip()}")

    def stop(self) -> None:
        """End ffmpeg if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self._process.communicate()
