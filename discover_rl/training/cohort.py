"""The training loop: environment → agent → evaluate → record, for the lanes of one cohort.

    evaluate at step 0
    repeat: the agent acts and learns on, for a few steps
            every eval.every steps: evaluate, every metrics.every: measure; append to records
            about once a minute, and when asked to stop: write a checkpoint

With EnvPool on a GPU machine, evaluation runs in another process. The clock decides only when a
checkpoint is written, and writing one changes nothing. So a run that was killed and resumed equals,
bit for bit, an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import Agent
from discover_rl.config import Run, cohorts
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import Stopped
from discover_rl.envs.backends import make_vector
from discover_rl.envs.vector import Episode
from discover_rl.storage import checkpoints, scores
from discover_rl.storage.records import MOST_RETURN, STOPPED, Record
from discover_rl.training import headers, memory
from discover_rl.training.agent_setup import setup_of
from discover_rl.training.early_stopping import may_stop, to_stop
from discover_rl.training.evaluation import BackgroundEvaluator, Interrupted, PendingEvaluation
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


class Cohort:
    """Runs that train in lockstep, from their beginning or from a checkpoint."""

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
            runs: the runs to train, which must share everything static.
            records: of these runs, by their names.
            out: the folder for records and policies.
            workdir: the folder for checkpoints.
            observer: receives the events of training.
            resume: a checkpoint to continue from.
        """
        assert len(cohorts(runs)) == 1, "a program is for runs that share everything static"
        first, seeds = runs[0], [run.seed for run in runs]
        self.runs, self.out, self.workdir = list(runs), out, workdir
        self.observer = HeldObserver(observer)
        self.records = [records[run.name] for run in runs]
        self.meter = Meter(self.runs, self.records, self.observer)
        self.alive = np.ones(len(runs), bool)
        self.backend = headers.backend(runs, self.records, resumed=resume is not None)
        self.vector = make_vector(first.task, seeds, first.env, self.backend)
        memory.check(runs, self.vector.spec)
        limit = self.vector.spec.time_limit
        self.evaluator: BackgroundEvaluator = make_evaluator(first, seeds, self.backend, limit)
        self._pending: PendingEvaluation | None = None
        self._to_stop: dict[int, str] = {}  # lanes that are to end at this step, and why
        self.agent: Agent = build_agent(setup_of(first, self.vector.spec, self.meter.every))
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
            if running and not record.stopped:  # a run that stopped early stays as it is
                record.cut(self.step)
            # A lane may have failed in an evaluation after the checkpoint of the same step.
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
        """Note that the user's own code has changed since this run began."""
        run = self.runs[lane]
        for kind, _, now in headers.changed_code(run, self.records[lane].sources):
            sentence = f"goes on though the code of {getattr(run, kind)} has changed"
            self._note(lane, f"{kind}_changed", self.step, sentence, **{f"{kind}_source": now})

    def _entered(self, state: Any, fresh: np.ndarray) -> Any:
        """Return the state after episodes have begun in the environments that are `fresh`."""
        obs = self.vector.obs.copy()  # the device may still be reading when a step writes
        return self.agent.enter(state, obs, fresh, np.int32(self.step))

    def run(
        self,
        stopping: Callable[[], bool],
        checkpoint_seconds: float,
        until: int | None = None,
    ) -> None:
        """Train to the end.

        Args:
            stopping: asked every few steps; if true, `Stopped` is raised after a checkpoint.
            checkpoint_seconds: time between checkpoints.
            until: the step of an evaluation after which the runs are left; None: their end.

        An error of the observer stops training after a checkpoint and is then raised.
        """
        self.observer.on_event(Started(self.runs, self.step))
        self.observer.release()
        # Everything allocated so far stays alive: the garbage collector need not search it.
        gc.freeze()
        steps, every = self.runs[0].steps, self.runs[0].eval.every
        # A checkpoint exists before the first step: so these lanes stay together after any crash.
        if self.step == 0:
            self._save()
            for run in self.runs if self.runs[0].start.run else ():
                self.observer.on_event(Noted(run, 0, in_words(run.start)))
        try:
            if stopping():  # compiling takes a while and cannot be stopped
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
                if self.step in (steps, until):
                    self._record_evaluation()
                if self.step == steps:
                    break
                self._stop_early()
                if self.step == until:
                    self._leave()
                    break
                if stopping():
                    raise Interrupted
                due = min(steps, self.step - self.step % every + every)
                due = min(due, self.meter.next_step(self.step))
                self.state, self.step, diverged = self.agent.advance(
                    self.state, self.vector, self.alive, self.step, due
                )
                if diverged or self.evaluator.ready():
                    self._record_evaluation()
                for lane, quantity, step in diverged:
                    if self.alive[lane]:  # the evaluation just recorded may have ended it
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
        failed = [run.name for run, it in zip(self.runs, self.records, strict=True) if it.failure]
        checkpoints.clear(self.workdir, failed, self.out)
        if self.step == steps or not self.alive.any():
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
            # Files come before the last line of the record, which says that the run is done.
            self.outputs.save_trained(self.state, nets, self._living, self.step)
        # If an evaluation may end a run, wait for it: the run ends at the step of the evaluation.
        if self.evaluator.ready() or may_stop(self.runs[0].eval):
            self._record_evaluation()

    def _record_evaluation(self) -> None:
        """Wait for the evaluation that was begun last, if there is one, and record it.

        This comes before anything else is recorded and before a checkpoint. So records and
        checkpoints are the same as if training had waited for the evaluation.
        """
        if self._pending is None:
            return
        (step, lanes, nets, report), self._pending = self._pending, None
        with self._timed():
            found = self.evaluator.scores()
        for lane in lanes:
            returns = found.returns[lane].tolist()
            if not (np.abs(returns) <= MOST_RETURN).all():  # NaN is not, either
                self._end_lane(lane, "evaluation", step)
                continue
            if scores.is_best(self.records[lane], step, returns):
                self.outputs.save_best(nets, lane, step, scores.mean(returns))
            line = {"step": step, "returns": returns, "lengths": found.lengths[lane].tolist()}
            own = {name: finite(values[lane]) for name, values in report.items()}
            own = self.runs[lane].amplitudes(step) | own if own else {}
            self.records[lane].append(line | ({"report": own} if own else {}))
            if self.observer.on_event(Evaluated(self.runs[lane], step, returns, own)) == "stop":
                self._to_stop[lane] = "its observer answered stop"
        self.meter.write(self.alive)
        share = self._evaluating / (time.monotonic() - self._began)
        self.observer.on_event(EvaluationTime(step, share))

    def _stop_early(self) -> None:
        """End the lanes that have learned enough, at the present step; leave the others alone."""
        self._to_stop |= to_stop(self.runs, self.records)
        if self._to_stop:
            self._record_evaluation()  # nothing follows the end of a run in its record
        for lane in sorted(self._to_stop.keys() & self._living):
            # Files come before the last line of the record, which says that the run is done.
            self._keep_checkpoint([lane])
            self.outputs.save_trained(self.state, self.agent.nets(self.state), [lane], self.step)
            why = self._to_stop[lane]
            self._note(lane, STOPPED, self.step, f"stopped early: {why}", reason=why)
            self.alive[lane] = False
        self._to_stop.clear()

    def _leave(self) -> None:
        """Leave the living lanes at this step, with all that it takes to go on beside others."""
        for lane, name in checkpoints.unsound(self.state, self._living).items():
            self._end_lane(lane, name, self.step)  # the next step would have noticed
        if not self.alive.any():
            return
        self._save()
        self.outputs.save_trained(self.state, self.agent.nets(self.state), self._living, self.step)
        self.outputs.keep_checkpoint(self.workdir, self._living, self.step)

    def _measure(self) -> None:
        """Measure the lanes, and record it once the evaluation before it is recorded."""
        where = self.vector, self.alive, self.step
        self.meter.measure(self.agent, self.state, *where, self._evaluating)
        if self._pending is None:
            self.meter.write(self.alive)

    def _keep_checkpoint(self, lanes: Sequence[int]) -> None:
        """Keep the checkpoint of runs that end; with their replay if compute.keep_checkpoint."""
        if self.runs[0].compute.keep_checkpoint or not checkpoints.has_replay(self.state):
            self._save()
            self.outputs.keep_checkpoint(self.workdir, lanes, self.step)
        else:
            self.outputs.keep_networks(self.workdir, lanes, self.step, self.state, self.vector)

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
        if checkpoints.save(self.workdir, self.step, self.runs, self.alive, self.state, episodes):
            self.outputs.save_policies(self.agent.nets(self.state), self._living, self.step)
