"""Exploration in continuous control: DISCOVER and its rivals, on every actor-critic."""

from discover_rl._version import __version__
from discover_rl.algorithms import ALGORITHMS, register_algorithm
from discover_rl.api import train
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs.sparse import register_with_gymnasium
from discover_rl.storage.critics import Critic
from discover_rl.storage.policies import Policy, load_policy
from discover_rl.storage.results import Result, load_run
from discover_rl.strategies import STRATEGIES, register_strategy
from discover_rl.training.observers import Observer
from discover_rl.tuning import tune
from discover_rl.tuning.trials import Trial, Tuning

__all__ = [
    "ALGORITHMS",
    "STRATEGIES",
    "Critic",
    "Observer",
    "Policy",
    "Result",
    "Stopped",
    "Trial",
    "Tuning",
    "UserError",
    "__version__",
    "load_policy",
    "load_run",
    "register_algorithm",
    "register_strategy",
    "train",
    "tune",
]

register_with_gymnasium()
