"""The interface of strategies: how an agent explores.

A strategy changes what a policy does at a few moments: when the agent acts, when it learns, when it
asks how likely an action was. A `Nudge` is the change at one moment. A `View` is what a strategy
can see of the algorithm.

A `Strategy` is a NamedTuple of groups of pure functions, one group for each moment; `hooks.py` says
what each function takes and returns. Every function has a default that changes nothing. So a
strategy fills in the groups it needs, and `Strategy()` is the one that does not explore.

    group      fill it in for
    --------   -----------------------------------------------------------------------------------
    acting     noise on actions, in the policy's own sampling or on parameters; directions
    learning   networks or parameters that are trained; an influence on targets and losses
    bonus      a reward of the strategy's own
    density    on-policy: actions whose probability the policy alone does not give
    schedule   updates at other times than the algorithm's; episodes cut short; each transition
    network    numbers appended to the observation; layer normalisation

A strategy has a *state*, which is what a run learns: only `learning`, `on_transition` and
`on_event` move it. It has a *memory*, which lasts an episode: `begin` makes it and `behave` carries
it along. Each environment of a run has a memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from discover_rl.core.hyperparameters import with_hyper_of
from discover_rl.core.types import (
    Actor,
    Array,
    Key,
    Net,
    Nudge,
    Optimiser,
    Spec,
)
from discover_rl.strategies.hooks import (
    Begin,
    Behave,
    Bonus,
    DensityNudge,
    Draw,
    Expect,
    Greedy,
    Inherit,
    Init,
    Joint,
    OnEvent,
    OnTransition,
    Recall,
    Report,
    SequenceLogProb,
    Step,
    Truncate,
    Updates,
    UpdateTargets,
)


class InitNet(Protocol):
    """Makes a network with the actor's architecture."""

    def __call__(self, key: Key, outputs: int, /) -> Net:
        """Return the parameters, for observations as input and this many outputs."""
        ...


class ApplyNet(Protocol):
    """Applies such a network, without any squashing."""

    def __call__(self, net: Net, obs: Array, /) -> Array:
        """`obs`: (n, observation). Return (n, outputs)."""
        ...


class Blueprint(NamedTuple):
    """What a strategy may know about an algorithm when it is made, before there is any state."""

    init: InitNet
    apply: ApplyNet
    outputs: int
    """Outputs of the actor's own network."""
    hidden: tuple[int, ...] = ()
    """Widths of its hidden layers."""
    density: bool = False
    """Whether the policy has a standard deviation of its own."""
    samples: bool = False
    """Whether it draws standard normal numbers while it acts, which `Nudge.noise` replaces."""
    on_policy: bool = False
    """Whether the algorithm learns from rollouts of its present policy."""
    warmup: int = 0
    """Steps of uniform actions before the policy acts."""


def _unavailable(*_: Any) -> Any:
    raise TypeError("this view does not have it: see the fields of View for where each is given")


class MeanAction(Protocol):
    """The policy's mean action with the nudge's shift, not clipped."""

    def __call__(self, nudge: Nudge, obs: Array, /) -> Array:
        """`obs`: (n, observation). Return (n, action)."""
        ...


class Features(Protocol):
    """The inputs of the actor's last layer."""

    def __call__(self, nudge: Nudge, obs: Array, /) -> Array:
        """`obs`: (n, observation). Return (n, width)."""
        ...


class Distribution(Protocol):
    """Mean and standard deviation of the policy, before squashing."""

    def __call__(self, nudge: Nudge, obs: Array, /) -> tuple[Array, Array | None]:
        """`obs`: (n, observation). Return two of (n, action); the second is None where the policy
        is deterministic."""
        ...


class QValues(Protocol):
    """The value of every critic."""

    def __call__(self, obs: Array, action: Array, /) -> Array:
        """`obs`: (n, observation); `action`: (n, action). Return (critics, n)."""
        ...


class NudgedError(Protocol):
    """The squared TD error under a nudge."""

    def __call__(self, nudge: Nudge, batch: Any, /) -> Array:
        """Return (n,): off-policy, at the bare action with the nudge's shift, summed over critics;
        on-policy, of the value at the nudge's context. `batch` is that of `Learning.step`."""
        ...


class TDError(Protocol):
    """The absolute TD error at the executed action."""

    def __call__(self, batch: Any, /) -> Array:
        """Return (n,), the mean over critics. `batch` is that of `Learning.step`."""
        ...


class View(NamedTuple):
    """Everything that an algorithm shows a strategy.

    All functions here may be differentiated with respect to a strategy's own parameters. That never
    moves the algorithm's own parameters.
    """

    params: Actor
    """The parameters of the actor, online or target: {"net", "joint"}."""
    policy: MeanAction
    features: Features
    distribution: Distribution = _unavailable
    optimiser: Optimiser | Any = None
    """The actor's optimiser, with its present learning rate; None on-policy while acting."""
    q: QValues = _unavailable
    """Off-policy, while acting and while learning."""
    error: NudgedError = _unavailable
    """While learning."""
    td_error: TDError = _unavailable
    """While learning."""
    critic: Net | None = None
    """On-policy, while learning: the value network."""
    progress: Any = 0.0
    """The share of the run that is done; on-policy, that at the start of the rollout."""
    gamma: Any = None
    """The algorithm's discount; None on-policy while acting."""
    reward_scale: Any = 1.0
    """Factor on rewards in the critics' target."""
    entropy_weight: Callable[[], Any] = lambda: 0.0
    """() → α, the weight of −log π in the critics' target; 0 for algorithms without it."""
    actor_moved: bool = True
    """Off-policy, in `Learning.step`: whether this update also updated the actor."""
    learned: Any = ()
    """Off-policy, in `init` and `on_event`: everything that updates change. A strategy may save it
    and return it later (`Schedule.on_event`)."""

    @property
    def net(self) -> Net:
        """The actor's network."""
        return self.params["net"]

    @property
    def joint(self) -> Any:
        """The parameters that the strategy trains together with the actor (`Learning.joint`)."""
        return self.params["joint"]


class Acting(NamedTuple):
    """What the strategy does while the agent acts and while it is evaluated."""

    begin: Begin = lambda state, view, key: ()
    draw: Draw = lambda key: ()
    behave: Behave = lambda state, memory, view, obs, noise, warmup: (memory, Nudge(view.net))
    greedy: Greedy = lambda state, params: Nudge(params["net"])
    resample_on: tuple[str, ...] = ("episode",)
    """On-policy, when a new memory begins: with each "episode", each "rollout", or both."""


class Learning(NamedTuple):
    """What the strategy does while the agent learns."""

    joint: Joint = lambda key, hyper, net, critic: {}
    expect: Expect = lambda state, view, obs, key, role: Nudge(view.net)
    step: Step = lambda state, view, batch, key: (state, 0.0)
    update_targets: UpdateTargets = lambda state, follow: state
    cadence: Literal["actor", "critic", "rollout"] = "actor"
    """When `step` is called. Off-policy: after each update of the actor, or after each update of
    the critics. On-policy, "actor" and "critic" both mean before the update by each minibatch, and
    "rollout" means once with the whole rollout, after its last update."""
    every: int = 1
    """Call `step` only at every `every`-th update. On-policy this holds only for "rollout": then
    `step` is called after a rollout as soon as `every` more minibatches have been learned from."""
    replaces_smoothing: bool = False
    """Whether `expect` moves the target action in place of the algorithm's smoothing noise."""


class Density(NamedTuple):
    """On-policy: how likely the actions of a rollout are, at any parameters.

    By default, each action has the policy's density, with the context that was stored. `nudge` adds
    other fields of the nudge. `recall` is for noise that lasts: memories are stored with every
    action, and learning calls `behave` again for the nudge of that time. `log_prob` is for actions
    that depend on each other.
    """

    nudge: DensityNudge | None = None
    recall: Recall | None = None
    """Such a memory must not change during its episode."""
    log_prob: SequenceLogProb | None = None
    initial_belief: Any = ()
    """What `log_prob` knows of an episode that starts."""
    max_piece: int = 64
    """The longest piece given to `log_prob`."""


class Schedule(NamedTuple):
    """When updates are made, and what happens between them. The first two run on the host."""

    updates: Updates = lambda step, due: due(step)
    truncate: Truncate = lambda step: False
    on_event: OnEvent = lambda state, view, name: (state, view.learned)
    on_transition: OnTransition | None = None
    """With it, learning waits for the environments instead of going on while they move."""


class NetworkSpec(NamedTuple):
    """What the strategy asks of the actor's network."""

    context_size: int = 0
    """Numbers appended to the observation (`Nudge.context`)."""
    layer_norm: bool = False
    """Normalise hidden layers before their nonlinearity."""


class Strategy(NamedTuple):
    """How an agent explores; `Strategy()` does not.

    Construct it by keyword: `Strategy(acting=Acting(draw=draw, behave=behave))`.
    """

    init: Init = lambda key, hyper, view: hyper
    """By default the state is the strategy's hyper-parameters."""
    acting: Acting = Acting()
    learning: Learning = Learning()
    bonus: Bonus | None = None
    density: Density = Density()
    schedule: Schedule = Schedule()
    network: NetworkSpec = NetworkSpec()
    report: Report = lambda state, view, batch: {}
    inherit: Inherit = with_hyper_of
    """By default, a run that starts from another takes over all of its strategy's state except the
    hyper-parameters."""


class StrategyModule(Protocol):
    """What a strategy's file has, and any other object that is registered as a strategy."""

    Hyper: Any
    """The class of its hyper-parameters, made by `core.hyperparameters.hyper`. If it has the class
    variable `one_environment = True`, runs with this strategy have one environment each."""

    def make(self, spec: Spec, settings: Any, blueprint: Blueprint, /) -> Strategy:
        """Build the strategy for the runs of a cohort.

        Args:
            spec: the spaces of their task.
            settings: the hyper-parameters of one of the runs. Only integers, switches and words
                may be read here, which all runs share. Floats differ from run to run: the
                functions of the strategy get them as arrays, in `Init`'s `hyper`.
            blueprint: what is known of their algorithm.
        """
        ...
