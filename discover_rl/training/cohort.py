"""The training loop: environment → agent → evaluate → record, for the lanes of one cohort.

    evaluate at step 0
    repeat: the agent acts and learns on, for a few steps
            every eval.every steps: evaluate, every metrics.every: measure; append to records
            about once a minute, and when asked to stop: write a checkpoint

With EnvPool on a GPU machine, evaluation goes on in a process of its own. Nothing here depends on
the clock except when a checkpoint is written, and writing one changes nothing. So a run that was
killed and resumed equals, bit for bit, the one that was not.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import Agent, AgentSetup
from discover_rl.config import Run, cohorts
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import Net, Stopped
from discover_rl.envs.envpool_vector import EnvPoolVector
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.envs.vector import Episode, VectorEnv
from discover_rl.storage import checkpoints, kept_checkpoints, scores
from discover_rl.storage.records import STOPPED, Record
from discover_rl.training import headers, memory
from discover_rl.training.early_stopping import may_stop, to_stop
from discover_rl.training.evaluation import BackgroundEvaluator, Interrupted
from discover_rl.training.evaluation_process import make_evaluator
from discover_rl.training.events import (
    Compiling,
    Evaluated,
    EvaluationTime,
    Finished,
    Noted,
    Started,
    Stepped,
)
from discover_rl.training.inheritance import in_words, inherited
from discover_rl.training.metrics import Meter, finite
from discover_rl.training.observers.base import HeldObserver, Observer
from discover_rl.training.outputs import Outputs


class PendingEvaluation(NamedTuple):
    """An evaluation that was begun and is not recorded yet."""

    step: int
    lanes: list[int]
    nets: Net
    report: Mapping[str, Any]


class Cohort:
    """Runs that train in lockstep: from a checkpoint, or from their beginning."""

    def __init__(
        self,
        runs: Sequence[Run],
        records: Mapping[str, Record],
        out: Path,
        workdir: Path,
        observer: Observer,
        resume: Path | None = None,
    ):
        """Make the environments and the agent.

        Args:
            runs: those to train; they must share everything static.
            records: of these runs, by their names.
            out: the folder for records and policies.
            workdir: the folder for checkpoints.
            observer: hears of progress.
            resume: a checkpoint to go on from.
        """
        assert len(cohorts(runs)) == 1, "a program is for runs that share everything static"
        first, seeds = runs[0], [run.seed for run in runs]
        self.runs, self.out, self.workdir = list(runs), out, workdir
        self.observer = HeldObserver(observer)
        self.records = [records[run.name] for run in runs]
        self.meter = Meter(self.runs, self.records, self.observer)
        self.alive = np.ones(len(runs), bool)
        self.backend = headers.backend(runs, self.records, resumed=resume is not None)
        vector = GymnasiumVector if self.backend == "gymnasium" else EnvPoolVector
        self.vector: VectorEnv = vector(
            first.task,
            seeds,
            reward_delay=first.env.reward_delay,
            limit_terminates=first.env.limit_terminates,
            count=first.env.count,
            making=first.env.making,
        )
        memory.check(runs, self.vector.spec)
        limit = self.vector.spec.time_limit
        self.evaluator: BackgroundEvaluator = make_evaluator(first, seeds, self.backend, limit)
        self._pending: PendingEvaluation | None = None
        self._to_stop: dict[int, str] = {}  # lanes that are to end at this step, and why
        self.agent: Agent = build_agent(
            AgentSetup(
                spec=self.vector.spec,
                algorithm=first.algorithm,
                hyper=first.hyper,
                strategy=first.strategy,
                strategy_hyper=first.strategy_hyper,
                steps=first.steps,
                environments=first.env.count,
                precision=first.compute.precision,
                transitions=first.start.transitions,
                metrics_every=self.meter.every,
            )
        )
        self.outputs = Outputs(self.runs, out, self.vector.spec, self.agent, self.backend)
        begin = (
            np.asarray(seeds, np.uint32),
            stack_floats([run.hyper for run in runs]),
            stack_floats([run.strategy_hyper for run in runs]),
        )
        if resume is None:
            self.step = 0
            state = self.agent.init(*begin)
            self._start(inherited(self.agent, state, first.start) if first.start.run else state)
        else:
            self.step = int(checkpoints.manifest(resume)["step"])
            state, episodes = checkpoints.load(resume, self.agent.like(*begin))
            self._resume(self.agent.place(state), episodes)

    @property
    def _living(self) -> list[int]:
        """The lanes that are trained."""
        return np.flatnonzero(self.alive).tolist()

    def _start(self, state: Any) -> None:
        own = headers.sources(self.runs[0])
        for run, record in zip(self.runs, self.records, strict=True):
            record.begin(headers.header(run, self.backend, own))
        envs = len(self.vector.obs)
        for env in range(envs):
            self.vector.begin(env)
        self.state = self._entered(state, np.ones(envs, bool))

    def _resume(self, state: Any, episodes: list[list[Episode]]) -> None:
        fresh = np.zeros(len(self.vector.obs), bool)
        for lane, (running, record) in enumerate(zip(episodes, self.records, strict=True)):
            if running and not record.stopped:  # a run that has stopped is done for good
                record.cut(self.step)
            # It may have failed by its evaluation, after the checkpoint of the same step.
            if not running or record.over:
                self.alive[lane] = False
                continue
            self._note_changed_code(lane)
            first = lane * self.vector.count
            for env, episode in enumerate(running, first):
                fresh[env] = not self.vector.restore(env, episode)
            lost = {"step": self.step, "event": "episode_lost"}
            if fresh[first : first + len(running)].any() and lost not in record.lines:
                sentence = "the environment could not be restored exactly"
                self._note(lane, "episode_lost", self.step, sentence)
        self.state = self._entered(state, fresh) if fresh.any() else state

    def _note_changed_code(self, lane: int) -> None:
        """Note that a run goes on with other code of the user's own than before."""
        run = self.runs[lane]
        for kind, _, now in headers.changed_code(run, self.records[lane].sources):
            sentence = f"goes on though the code of {getattr(run, kind)} has changed"
            self._note(lane, f"{kind}_changed", self.step, sentence, **{f"{kind}_source": now})

    def _entered(self, state: Any, fresh: np.ndarray) -> Any:
        """The state after episodes have begun in the environments that are `fresh`."""
        obs = self.vector.obs.copy()  # the device may still be reading when a step writes
        return self.agent.enter(state, obs, fresh, np.int32(self.step))

    def run(self, stopping: Callable[[], bool], checkpoint_seconds: float) -> None:
        """Train to the end.

        Args:
            stopping: asked every few steps; if true, `Stopped` is raised after a checkpoint.
            checkpoint_seconds: time between checkpoints.

        What the observer raises ends training after a checkpoint, as a stop does, and is raised.
        """
        self.observer.on_event(Started(self.runs, self.step))
        self.observer.release()
        # What exists by now is here to stay: looking through it for garbage takes time.
        gc.freeze()
        steps, every = self.runs[0].steps, self.runs[0].eval.every
        # From the first step on there is a checkpoint: whatever happens, these lanes stay together.
        if self.step == 0:
            self._save()
            for run in self.runs if self.runs[0].start.run else ():
                self.observer.on_event(Noted(run, 0, in_words(run.start)))
        try:
            if stopping():  # while programs are compiled nobody asks
                raise Interrupted
            self.observer.on_event(Compiling())
            self.agent.prepare(self.state, self.vector, self.step)
            self._began, self._evaluating = time.monotonic(), 0.0
            saved = self._began
            self.meter.start(self.step)
            while self.alive.any():
                if self.observer.failed():
                    raise Interrupted
                if self.step == steps:
                    self._keep_checkpoint(self._living)
                if self.step % every == 0 or self.step == steps:
                    self._evaluate(stopping)
                if self.step == steps:
                    self._record_evaluation()
                    break
                self._stop_early()
                if stopping():
                    raise Interrupted
                until = min(steps, self.step - self.step % every + every)
                until = min(until, self.meter.next_step(self.step))
                self.state, self.step, diverged = self.agent.advance(
                    self.state, self.vector, self.alive, self.step, until
                )
                if diverged or self.evaluator.ready():
                    self._record_evaluation()
                for lane, quantity, step in diverged:
                    if self.alive[lane]:  # and was not ended by the evaluation just recorded
                        self._end_lane(lane, quantity, step)
                if self.meter.due(self.step):
                    self._measure()
                self.observer.on_event(Stepped(self.step))
                if time.monotonic() - saved >= checkpoint_seconds:
                    self._save()
                    saved = time.monotonic()
        except Interrupted:
            self._save()
            self.observer.release()
            raise Stopped(checkpoints.step_of(self.workdir)) from None
        finally:
            gc.unfreeze()
            self.vector.close()
            self.evaluator.close()
        pairs = zip(self.runs, self.records, strict=True)
        failed = [run.name for run, record in pairs if record.failure]
        checkpoints.clear(self.workdir, failed, self.out)
        self.observer.on_event(Finished(self.runs))
        self.observer.release()

    def _evaluate(self, stopping: Callable[[], bool]) -> None:
        """Begin to evaluate the lanes whose records do not have this step yet."""
        self._record_evaluation()
        missing = [not record.evaluated(self.step) for record in self.records]
        lanes = np.flatnonzero(self.alive & missing).tolist()
        if not lanes:
            return
        with self._timed():
            nets = self.agent.nets(self.state)
            self.evaluator.begin(nets, self.agent.head, self.alive.copy(), stopping)
            # Before the first step there is nothing to report on.
            report = self.agent.report(self.state, np.int32(self.step)) if self.step else {}
            self._pending = PendingEvaluation(self.step, lanes, nets, jax.device_get(report))
        if self.step == self.runs[0].steps:
            # Before the last line of the record, which says that the run is done.
            self.outputs.save_trained(self.state, nets, self._living, self.step)
        # What may end a run is waited for: it ends where it was evaluated.
        if self.evaluator.ready() or may_stop(self.runs[0].eval):
            self._record_evaluation()

    def _record_evaluation(self) -> None:
        """Record the evaluation that was begun last, once it is there.

        That comes before anything else is recorded and before a checkpoint, so records and
        checkpoints are the same as if nothing had been done meanwhile.
        """
        if self._pending is None:
            return
        (step, lanes, nets, report), self._pending = self._pending, None
        with self._timed():
            found = self.evaluator.scores()
        for lane in lanes:
            returns = found.returns[lane].tolist()
            if not np.isfinite(returns).all():
                self._end_lane(lane, "evaluation", step)
                continue
            if scores.is_best(self.records[lane], step, returns):
                self.outputs.save_best(nets, lane, step, scores.mean(returns))
            line: dict[str, Any] = {"step": step, "returns": returns}
            line["lengths"] = found.lengths[lane].tolist()
            own = {name: finite(values[lane]) for name, values in report.items()}
            self.records[lane].append(line | ({"report": own} if own else {}))
            if self.observer.on_event(Evaluated(self.runs[lane], step, returns, own)) == "stop":
                self._to_stop[lane] = "its observer answered stop"
        self.meter.write(self.alive)
        share = self._evaluating / (time.monotonic() - self._began)
        self.observer.on_event(EvaluationTime(step, share))

    def _stop_early(self) -> None:
        """End the lanes that have learned enough, at the present step; leave the others alone."""
        self._to_stop |= to_stop(self.runs, self.records)
        for lane in sorted(self._to_stop.keys() & self._living):
            # Before the last line of the record, which says that the run is done.
            self._keep_checkpoint([lane])
            nets = self.agent.nets(self.state)
            self.outputs.save_trained(self.state, nets, [lane], self.step)
            why = self._to_stop[lane]
            self._note(lane, STOPPED, self.step, f"stopped early: {why}", reason=why)
            self.alive[lane] = False
        self._to_stop.clear()

    def _measure(self) -> None:
        """Measure the lanes, and record it once the evaluation before it is recorded."""
        where = self.vector, self.alive, self.step
        self.meter.measure(self.agent, self.state, *where, self._evaluating)
        if self._pending is None:
            self.meter.write(self.alive)

    def _keep_checkpoint(self, lanes: Sequence[int]) -> None:
        """Keep what it takes to go on from here in the folders of runs that end, if asked to."""
        if asked := self.runs[0].compute.keep_checkpoint:
            self._save()
        names = [self.runs[lane].name for lane in lanes]
        kept_checkpoints.keep(self.workdir, names, self.out, self.step if asked else None)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the time for which training waits for evaluation."""
        before = time.monotonic()
        yield
        self._evaluating += time.monotonic() - before

    def _end_lane(self, lane: int, quantity: str, step: int) -> None:
        """Stop a lane that has failed; leave the others and the last checkpoint alone."""
        self.alive[lane] = False
        if crash := (self.evaluator if quantity == "evaluation" else self.vector).crash(lane):
            self._note(lane, "crashed", step, crash, reason=crash)
        else:
            self._note(lane, "diverged", step, f"{quantity} is not finite", quantity=quantity)

    def _note(self, lane: int, event: str, step: int, sentence: str, **details: str) -> None:
        self.records[lane].append({"step": step, "event": event, **details})
        self.observer.on_event(Noted(self.runs[lane], step, sentence))

    def _save(self) -> None:
        self._record_evaluation()
        episodes = [self.vector.episodes(lane) for lane in range(len(self.runs))]
        where = self.workdir, self.step, self.runs
        if checkpoints.save(*where, self.alive, self.state, episodes):
            self.outputs.save_policies(self.agent.nets(self.state), self._living, self.step)
