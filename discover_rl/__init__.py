"""Exploration in continuous control: DISCOVER and its rivals, on every actor-critic.

    core         types, hyper-parameters, networks, equations, the replay buffer
    system       the machine and the code: hardware, compilation, provenance
    envs         tasks, and vectors of environments
    strategies   how an agent explores, one file per strategy
    algorithms   how an agent learns, one file per algorithm
    agents       an algorithm with a strategy, for all lanes of a cohort
    config       what a run is, and how a request becomes runs
    storage      records, checkpoints, policies: the files of a run
    training     the training loop, evaluation, engines, observers
    studies      grids of runs that one file declares
    report       statistics, figures, tables and a page of a study
    analysis     visited states, the paper's theory in tables, videos
    tuning       hyper-parameters chosen by Optuna
    api          what `import discover_rl` gives, with names from the packages above
    cli          the command `discover`

A package imports only itself and packages above it.
"""

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
