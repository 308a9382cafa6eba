"""The files of a run beside its record: policies, critic, replay, and what it can go on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.numpy

from discover_rl.agents.interface import Agent
from discover_rl.agents.off_policy.agent import OffPolicyAgent
from discover_rl.config import Run
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import Net, Spec
from discover_rl.envs.vector import VectorEnv
from discover_rl.storage import files, kept_checkpoints, replay_export
from discover_rl.storage.critics import Critic
from discover_rl.storage.policies import Policy
from discover_rl.storage.records import REPLAY_FILE


class Outputs:
    """Writes the files of a cohort's runs. Each is either complete or absent."""

    def __init__(self, runs: Sequence[Run], out: Path, spec: Spec, agent: Agent, backend: str):
        """Prepare to write.

        Args:
            runs: of the cohort.
            out: the folder that their folders are in.
            spec: the spaces of their task.
            agent: the agent that trains them.
            backend: the backend of their environments.
        """
        self.runs, self.out, self.spec, self.agent = runs, out, spec, agent
        self.backend = backend

    def save_policies(self, nets: Net, lanes: Sequence[int], step: int) -> None:
        """Write the policies of some lanes at this step; `nets` has lanes in front."""
        for lane in lanes:
            self._write(lane, self._policy(nets, lane, step).to_bytes())

    def save_best(self, nets: Net, lane: int, step: int, mean_return: float) -> None:
        """Write a lane's policy of this step as its best so far.

        Args:
            nets: the policies' networks, lanes in front.
            lane: which of them.
            step: environment steps made.
            mean_return: of the evaluation in which it was the best.
        """
        policy = self._policy(nets, lane, step)
        policy.about["return"] = mean_return
        self._write(lane, policy.to_bytes(best=True))

    def save_trained(self, state: Any, nets: Net, lanes: Sequence[int], step: int) -> None:
        """Write the files of lanes whose training ends at this step.

        Args:
            state: of the agent, lanes in front.
            nets: the policies' networks, lanes in front.
            lanes: which of them end.
            step: environment steps made.
        """
        self.save_policies(nets, lanes, step)
        critics = self.agent.critics(state)
        for lane in lanes:
            own, about = lane_of(critics, lane), self._about(lane, step)
            critic = Critic(own, self.spec, self.agent.critic_head, about)
            self._write(lane, critic.to_bytes())
            if self.runs[lane].compute.keep_replay:
                assert isinstance(self.agent, OffPolicyAgent)
                kept = replay_export.collect(self.agent, state, lane, step)
                self._write(lane, {REPLAY_FILE: safetensors.numpy.save(kept._asdict())})

    def keep_checkpoint(self, workdir: Path, lanes: Sequence[int], step: int) -> None:
        """Keep what runs that end at this step have in the checkpoint in `workdir`."""
        names = [self.runs[lane].name for lane in lanes]
        kept_checkpoints.keep(workdir, names, self.out, step)

    def keep_networks(
        self, workdir: Path, lanes: Sequence[int], step: int, state: Any, vector: VectorEnv
    ) -> None:
        """Keep what others can start from of runs that end at this step, but for their replay.

        Args:
            workdir: the work folder of the cohort.
            lanes: which of its lanes end.
            step: environment steps made.
            state: of the agent, lanes in front.
            vector: the environments of all lanes.
        """
        episodes = {lane: vector.episodes(lane) for lane in lanes}
        given = step, self.runs, state, episodes
        kept_checkpoints.keep_without_replay(workdir, self.out, *given)

    def _policy(self, nets: Net, lane: int, step: int) -> Policy:
        return Policy(lane_of(nets, lane), self.spec, self.agent.head, self._about(lane, step))

    def _about(self, lane: int, step: int) -> dict[str, Any]:
        run = self.runs[lane]
        backend = {"backend": self.backend} if run.env.backend == "auto" else {}
        return run.to_json() | {"step": step} | backend

    def _write(self, lane: int, contents: Mapping[str, bytes]) -> None:
        for name, content in contents.items():
            files.write(self.out / self.runs[lane].name / name, content)
