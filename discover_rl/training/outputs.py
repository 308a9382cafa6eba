"""What a run leaves beside its record: its policy, the best one, its critic, its replay."""

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
from discover_rl.storage import files, replay_export
from discover_rl.storage.critics import Critic
from discover_rl.storage.policies import Policy
from discover_rl.storage.records import REPLAY_FILE


class Outputs:
    """Writes the files of a cohort's runs. Each is whole or not there."""

    def __init__(self, runs: Sequence[Run], out: Path, spec: Spec, agent: Agent, backend: str):
        """Take what the files are made from.

        Args:
            runs: of the cohort.
            out: the folder that their folders are in.
            spec: the spaces of their task.
            agent: what trains them.
            backend: what steps their environments.
        """
        self.runs, self.out, self.spec, self.agent = runs, out, spec, agent
        self.backend = backend

    def save_policies(self, nets: Net, lanes: Sequence[int], step: int) -> None:
        """Write the policies of some lanes at this step; `nets` has lanes in front."""
        for lane in lanes:
            self._write(lane, self._policy(nets, lane, step).to_bytes())

    def save_best(self, nets: Net, lane: int, step: int, mean_return: float) -> None:
        """Write a lane's policy of this step as its best so far, by this mean return."""
        policy = self._policy(nets, lane, step)
        policy.about["return"] = mean_return
        self._write(lane, policy.to_bytes(best=True))

    def save_trained(self, state: Any, nets: Net, lanes: Sequence[int], step: int) -> None:
        """Write all that is kept of lanes whose training ends at this step."""
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

    def _policy(self, nets: Net, lane: int, step: int) -> Policy:
        return Policy(lane_of(nets, lane), self.spec, self.agent.head, self._about(lane, step))

    def _about(self, lane: int, step: int) -> dict[str, Any]:
        run = self.runs[lane]
        backend = {"backend": self.backend} if run.env.backend == "auto" else {}
        return run.to_json() | {"step": step} | backend

    def _write(self, lane: int, contents: Mapping[str, bytes]) -> None:
        for name, content in contents.items():
            files.write(self.out / self.runs[lane].name / name, content)
