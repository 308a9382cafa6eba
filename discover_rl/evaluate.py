"""Greedy episodes for every lane, batched over lanes and episodes.

The paper's rules: an environment of its own, seeded with the run's seed + 100, so that every
evaluation of a run starts from the same states; no exploration, no learning. Policies act on the
host in NumPy, exactly as a saved policy does.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from discover_rl import envs, machine, networks, tasks
from discover_rl.config import Run
from discover_rl.envs import Trials
from discover_rl.policy import Policy
from discover_rl.pools import PooledTrials
from discover_rl.types import Form, Net, UserError

SEED_OFFSET = 100
MAX_STEPS = 10_000
"""Where a saved policy's episode is cut."""


class Interrupted(Exception):
    """Evaluation was asked to stop half-way; nothing has come of it."""


class Scores(NamedTuple):
    returns: np.ndarray  # (lanes, episodes)
    lengths: np.ndarray  # (lanes, episodes)


class Evaluator:
    def __init__(
        self,
        task: str,
        seeds: Sequence[int],
        episodes: int,
        max_steps: int,
        engine: str = "gymnasium",
        filmed: bool = False,
    ):
        self.max_steps, self.shape = max_steps, (len(seeds), episodes)
        # The first episode starts from the run's seed + 100 itself, the others from its offspring.
        first = [seed + SEED_OFFSET for seed in seeds]
        starts = [
            it
            for seed in first
            for it in (seed, *(envs.episode_seed(seed, i) for i in range(1, episodes)))
        ]
        self.trials: Trials | PooledTrials
        if engine == "gymnasium":
            self.trials = Trials(task, starts, filmed)
        else:
            self.trials = PooledTrials(task, starts)
        self.spec = self.trials.spec

    def __call__(
        self, nets: Net, form: Form, alive: np.ndarray, interrupted: Callable[[], bool] = bool
    ) -> Scores:
        """One evaluation of every living lane; `nets` has lanes in front."""
        running = np.flatnonzero(np.repeat(alive, self.shape[1]))
        return self.play(nets, form, running, interrupted)

    def play(
        self,
        nets: Net,
        form: Form,
        running: np.ndarray,
        interrupted: Callable[[], bool] = bool,
        watch: Callable[[], None] = lambda: None,
    ) -> Scores:
        """These episodes, counted through all lanes, as they go in an evaluation of all; `watch` is
        called where they start and after every step."""
        number = self.shape[0] * self.shape[1]
        obs = np.zeros((number, self.spec.observation_size), np.float32)
        returns, lengths = np.zeros(number), np.zeros(number, int)
        if running.size:
            obs[running] = self.trials.begin(running)
            watch()
        for _ in range(self.max_steps):
            if not running.size:
                break
            if interrupted():
                raise Interrupted
            # Lanes and episodes that have ended go on being computed: a batch of constant shape
            # gives an episode the same actions whatever the others do.
            with np.errstate(all="ignore"):  # a dead lane may hold anything
                seen = obs.reshape(*self.shape, -1)
                actions = np.asarray(networks.mean_action(form, nets, seen)).reshape(number, -1)
            box = self.spec.to_box(actions[running])
            obs[running], rewards, ended = self.trials.step(running, box)
            returns[running] += rewards
            lengths[running] += 1
            watch()
            running = running[~ended]
        return Scores(returns.reshape(self.shape), lengths.reshape(self.shape))

    def begin(
        self, nets: Net, form: Form, alive: np.ndarray, interrupted: Callable[[], bool] = bool
    ) -> None:
        """Evaluate, and keep what comes of it."""
        self._scores = self(nets, form, alive, interrupted)

    def ready(self) -> bool:
        """Whether what was begun last has ended."""
        return True

    def scores(self) -> Scores:
        """What came of it."""
        return self._scores

    def crash(self, lane: int) -> str:
        """What the first of a lane's environments raised that did; '' if none."""
        mine = range(lane * self.shape[1], (lane + 1) * self.shape[1])
        return next((self.trials.crashes[i] for i in mine if i in self.trials.crashes), "")

    def close(self) -> None:
        self.trials.close()


class Aside:
    """An evaluator in a process of its own, while training goes on here: it is told and answers the
    same. It may use this share of the cores, but a quarter at least and half at most."""

    def __init__(self, share: float, task: str, seeds: Sequence[int], *about: Any):
        self._pipe, theirs = multiprocessing.Pipe()
        # Not by multiprocessing, which would run the user's script once more. In a session of its
        # own, so that it never hears of Ctrl-C.
        code, end = "from discover_rl import evaluate; evaluate.serve()", theirs.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(end)],
            pass_fds=[end],
            start_new_session=True,
            env=os.environ
            | machine.ALONE_FROM_START,  # idle threads of NumPy's would keep cores busy
        )
        theirs.close()
        with self._noticed():
            self._pipe.send((sys.path, min(max(share, 1 / 4), 1 / 2), task, list(seeds), about))
        self._crashes: list[str] = []

    def begin(
        self, nets: Net, form: Form, alive: np.ndarray, interrupted: Callable[[], bool] = bool
    ) -> None:
        del interrupted  # who asks to stop waits for the last evaluation
        with self._noticed():
            self._pipe.send((nets, form, alive))

    def ready(self) -> bool:
        return self._pipe.poll()

    def scores(self) -> Scores:
        with self._noticed():
            scores, self._crashes = self._pipe.recv()
        return scores

    def crash(self, lane: int) -> str:
        return self._crashes[lane] if self._crashes else ""

    @contextlib.contextmanager
    def _noticed(self) -> Iterator[None]:
        """A broken pipe would be taken for that of who reads our output."""
        try:
            yield
        except (EOFError, OSError) as error:
            raise ChildProcessError("The process that evaluates is gone.") from error

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()


def serve() -> None:
    """What the process of an `Aside` does, until who asks is gone."""
    pipe = Connection(int(sys.argv[1]))
    sys.path[:], share, task, seeds, about = pipe.recv()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[-max(2, round(len(cores) * share)) :])
    evaluator = Evaluator(task, seeds, *about)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            scores = evaluator(*pipe.recv())
            pipe.send((scores, [evaluator.crash(lane) for lane in range(len(seeds))]))


def steps(run: Run) -> float:
    """Of one evaluation, if every episode goes on to its limit."""
    return run.eval.episodes * min(tasks.limit(run.task) or math.inf, run.eval.max_steps)


def evaluate_policy(policy: Policy, task: str, episodes: int) -> Scores:
    """A saved policy's episodes, from the states that its run's own evaluations started from."""
    engine = own_settings(policy, task).get("env.engine", "gymnasium")
    with evaluating(policy, task, episodes, engine) as (evaluator, lane):
        return evaluator(lane, policy.form, np.ones(1, bool))


def own_settings(policy: Policy, task: str) -> dict[str, Any]:
    """Those of the policy's run; none on another task than its own."""
    return policy.about.get("settings", {}) if task == policy.about.get("task") else {}


@contextlib.contextmanager
def evaluating(
    policy: Policy, task: str, episodes: int, engine: str = "gymnasium", filmed: bool = False
) -> Iterator[tuple[Evaluator, Net]]:
    """An evaluator of this policy alone, and its network as the only lane."""
    seed = policy.about.get("seed", 0)
    evaluator = Evaluator(task, [seed], episodes, MAX_STEPS, engine, filmed)
    try:
        if evaluator.spec != policy.spec:
            raise UserError(f"{task} has other spaces than this policy was trained for.")
        yield (
            evaluator,
            {
                layer: {name: array[None] for name, array in parts.items()}
                for layer, parts in policy.net.items()
            },
        )
    finally:
        evaluator.close()
