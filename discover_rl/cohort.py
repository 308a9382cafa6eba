"""The loop: environment → agent → evaluate → record, for the lanes of one cohort.

    evaluate at step 0
    repeat: the agent acts and learns on, for a few steps
            every eval.every steps: evaluate, append to the records (on a GPU machine, beside)
            about once a minute, and when asked to stop: checkpoint

Nothing here depends on the clock except when a checkpoint is written, and writing one changes
nothing; so a run that was killed and resumed is, bit for bit, the one that was not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors.numpy

from discover_rl import checkpoint, evaluate, machine, provenance, store, visits
from discover_rl.agent import Agent
from discover_rl.algorithms import ON_POLICY
from discover_rl.config import Run, cohorts
from discover_rl.envs import Episode, Lanes
from discover_rl.evaluate import Aside, Evaluator, Interrupted
from discover_rl.observers import Observer
from discover_rl.policy import Policy
from discover_rl.pools import Pool
from discover_rl.rollouts import RolloutAgent
from discover_rl.store import Record
from discover_rl.trees import lane_of, stack
from discover_rl.types import Stopped


class Pending(NamedTuple):
    """An evaluation that was begun."""

    step: int
    lanes: list[int]
    report: Mapping[str, Any]


class Cohort:
    """Runs that train in lockstep: from a checkpoint, or from their beginning."""

    def __init__(
        self,
        runs: Sequence[Run],
        records: Mapping[str, Record],
        out: Path,
        desk: Path,
        observer: Observer,
        resume: Path | None = None,
    ):
        """Records and policies go below `out`, checkpoints below `desk`."""
        assert len(cohorts(runs)) == 1, "one program is for runs of one kind"
        first, seeds = runs[0], [run.seed for run in runs]
        self.runs, self.out, self.desk, self.observer = list(runs), out, desk, observer
        self.records = [records[run.name] for run in runs]
        self.alive = np.ones(len(runs), bool)
        settings = dataclasses.asdict(first.env)
        engine = settings.pop("engine")
        lanes = Lanes if engine == "gymnasium" else Pool
        self.lanes: Lanes | Pool = lanes(first.task, seeds, **settings)
        asked = first.task, seeds, first.eval.episodes, first.eval.max_steps, engine
        self.evaluator: Evaluator | Aside
        if _spares_cores(engine):
            each = evaluate.steps(first)
            self.evaluator = Aside(each / (each + first.eval.every), *asked)
        else:
            self.evaluator = Evaluator(*asked)
        self._pending: Pending | None = None
        kind = RolloutAgent if first.algorithm in ON_POLICY else Agent
        self.agent: Any = kind(
            self.lanes.spec,
            first.algorithm,
            first.hyper,
            first.strategy,
            first.strategy_hyper,
            first.steps,
            first.env.count,
            first.compute.precision,
        )
        begin = (
            np.asarray(seeds, np.uint32),
            stack([run.hyper for run in runs]),
            stack([run.strategy_hyper for run in runs]),
        )
        if resume is None:
            self.step = 0
            self._start(self.agent.init(*begin))
        else:
            self.step = int(checkpoint.manifest(resume)["step"])
            like = self.agent.like(*begin)
            state, episodes = checkpoint.load(resume, like)
            self._resume(self.agent.place(state), episodes)

    def _start(self, state: Any) -> None:
        for run, record in zip(self.runs, self.records, strict=True):
            header = {"run": run.to_json(), "code": provenance.code()}
            about = {"commit": provenance.commit(), "device": machine.device()}
            record.begin(header | about)
        envs = len(self.lanes.obs)
        for env in range(envs):
            self.lanes.begin(env)
        self.state = self._entered(state, np.ones(envs, bool))

    def _resume(self, state: Any, episodes: list[list[Episode]]) -> None:
        fresh = np.zeros(len(self.lanes.obs), bool)
        for lane, (running, record) in enumerate(zip(episodes, self.records, strict=True)):
            if running:
                record.cut(self.step)
            # It may have failed by its evaluation, after the checkpoint of the same step.
            if not running or record.failure:
                self.alive[lane] = False
                continue
            first = lane * self.lanes.count
            for env, episode in enumerate(running, first):
                fresh[env] = not self.lanes.restore(env, episode)
            lost = {"step": self.step, "event": "episode_lost"}
            if fresh[first : first + len(running)].any() and lost not in record.lines:
                sentence = "the environment could not be restored exactly"
                self._note(lane, "episode_lost", self.step, sentence)
        self.state = self._entered(state, fresh) if fresh.any() else state

    def _entered(self, state: Any, fresh: np.ndarray) -> Any:
        """The state once episodes have begun in the environments that are `fresh`."""
        obs = self.lanes.obs.copy()  # the device may still be reading when a step writes
        return self.agent.enter(state, obs, fresh, np.int32(self.step))

    def run(self, stopping: Callable[[], bool], checkpoint_seconds: float) -> None:
        """Train to the end, or until asked to stop."""
        self.observer.started(self.runs, self.step)
        # What exists by now is here to stay: looking through it for garbage takes time.
        gc.freeze()
        steps, every = self.runs[0].steps, self.runs[0].eval.every
        # From the first step on there is a checkpoint: whatever happens, these lanes stay together.
        if self.step == 0:
            self._save()
        try:
            if stopping():  # while programs are compiled nobody listens
                raise Interrupted
            self.agent.prepare(self.state, self.lanes, self.step)
            self._began, self._evaluating = time.monotonic(), 0.0
            saved = self._began
            while self.alive.any():
                if self.step % every == 0 or self.step == steps:
                    self._evaluate(stopping)
                if self.step == steps:
                    self._collect()
                    break
                if stopping():
                    raise Interrupted
                until = min(steps, self.step - self.step % every + every)
                self.state, self.step, bad = self.agent.advance(
                    self.state, self.lanes, self.alive, self.step, until
                )
                if bad or self.evaluator.ready():
                    self._collect()
                for lane, quantity, step in bad:
                    if self.alive[lane]:  # and was not buried by an evaluation that was collected
                        self._bury(lane, quantity, step)
                self.observer.stepped(self.step)
                if time.monotonic() - saved >= checkpoint_seconds:
                    self._save()
                    saved = time.monotonic()
        except Interrupted:
            self._save()
            raise Stopped(checkpoint.step_of(self.desk)) from None
        finally:
            gc.unfreeze()
            self.lanes.close()
            self.evaluator.close()
        dead = [self.runs[i].name for i in np.flatnonzero(~self.alive)]
        checkpoint.clear(self.desk, dead, self.out)
        self.observer.finished(self.runs)

    def _evaluate(self, stopping: Callable[[], bool]) -> None:
        """Begin to evaluate the lanes whose records do not have this step yet."""
        self._collect()
        wanting = [not record.evaluated(self.step) for record in self.records]
        lanes = np.flatnonzero(self.alive & wanting).tolist()
        if not lanes:
            return
        with self._counted():
            nets = self.agent.nets(self.state)
            self.evaluator.begin(nets, self.agent.algorithm.form, self.alive.copy(), stopping)
            # Before the first step there is nothing to report on.
            report = self.agent.report(self.state, np.int32(self.step)) if self.step else {}
            self._pending = Pending(self.step, lanes, jax.device_get(report))
        if self.step == self.runs[0].steps:
            # Before the last line, which says that the run is done.
            self._save_policies(nets)
            if self.runs[0].compute.keep_replay:
                self._save_replays()
        if self.evaluator.ready():
            self._collect()

    def _collect(self) -> None:
        """Write down what came of the evaluation that was begun last, once it is there.

        Before anything else is recorded and before a checkpoint, so that records and checkpoints
        are the same as if nothing had been done meanwhile.
        """
        if self._pending is None:
            return
        (step, lanes, report), self._pending = self._pending, None
        with self._counted():
            scores = self.evaluator.scores()
        for lane in lanes:
            returns = scores.returns[lane].tolist()
            if not np.isfinite(returns).all():
                self._bury(lane, "evaluation", step)
                continue
            line: dict[str, Any] = {"step": step, "returns": returns}
            line["lengths"] = scores.lengths[lane].tolist()
            told = {name: _plain(values[lane]) for name, values in report.items()}
            self.records[lane].append(line | ({"report": told} if told else {}))
            self.observer.evaluated(self.runs[lane], step, returns, told)
        self.observer.shared(step, self._evaluating / (time.monotonic() - self._began))

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """This is time for which evaluation keeps training waiting."""
        before = time.monotonic()
        yield
        self._evaluating += time.monotonic() - before

    def _bury(self, lane: int, quantity: str, step: int) -> None:
        """Stop a lane that has gone bad; leave the others and the last checkpoint alone."""
        self.alive[lane] = False
        if crash := (self.evaluator if quantity == "evaluation" else self.lanes).crash(lane):
            self._note(lane, "crashed", step, crash, reason=crash)
        else:
            self._note(lane, "diverged", step, f"{quantity} is not finite", quantity=quantity)

    def _note(self, lane: int, event: str, step: int, sentence: str, **details: str) -> None:
        self.records[lane].append({"step": step, "event": event, **details})
        self.observer.noted(self.runs[lane], step, sentence)

    def _save(self) -> None:
        self._collect()
        episodes = [self.lanes.episodes(lane) for lane in range(len(self.runs))]
        if checkpoint.save(self.desk, self.step, self.runs, self.alive, self.state, episodes):
            self._save_policies(self.agent.nets(self.state))

    def _save_policies(self, nets: Any) -> None:
        for lane in np.flatnonzero(self.alive).tolist():
            run = self.runs[lane]
            about = run.to_json() | {"step": self.step}
            policy = Policy(lane_of(nets, lane), self.lanes.spec, self.agent.algorithm.form, about)
            for name, content in policy.to_bytes().items():
                store.write(self.out / run.name / name, content)

    def _save_replays(self) -> None:
        for lane in np.flatnonzero(self.alive).tolist():
            kept = visits.collect(self.agent, self.state, lane, self.step)
            content = safetensors.numpy.save(kept._asdict())
            store.write(self.out / self.runs[lane].name / store.REPLAY, content)


def _spares_cores(engine: str) -> bool:
    """Whether there is room for evaluation beside training: the learning is done on a GPU, and
    threads that step environments are idle for most of the time."""
    return engine == "envpool" and jax.default_backend() != "cpu"


def _plain(value: np.ndarray) -> float | None:
    """A number for JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None
