"""What a strategy is: how an agent explores.

A strategy changes what a policy does at a few moments: when the agent acts, when it learns, when it
asks how likely an action was. What it changes at one moment is a `Nudge`. What it can see of the
algorithm is a `View`.

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
from typing import Any, Literal, NamedTuple

from discover_rl.core.hyperparameters import with_hyper_of
from discover_rl.core.types import (
    Actor,
    Array,
    Batch,
    Key,
    Net,
    Nudge,
    Optimiser,
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
    Memory,
    OnEvent,
    OnTransition,
    Report,
    SequenceLogProb,
    Step,
    Truncate,
    Updates,
    UpdateTargets,
)


class Blueprint(NamedTuple):
    """What a strategy may know of an algorithm before there is any state."""

    init: Callable[[Key, int], Net]
    """(key, outputs) → parameters of a network with the actor's architecture."""
    apply: Callable[[Net, Array], Array]
    """(parameters, observations) → (n, outputs), before any squashing."""
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


class View(NamedTuple):
    """All that an algorithm shows a strategy.

    Everything here may be differentiated with respect to a strategy's own parameters; nothing of
    the algorithm's is moved by that.
    """

    params: Actor
    """The actor in question, online or target: {"net", "joint"}."""
    policy: Callable[[Nudge, Array], Array]
    """(nudge, obs) → (n, action), the mean action with the nudge's shift, not clipped."""
    features: Callable[[Nudge, Array], Array]
    """(nudge, obs) → (n, width), the inputs of the actor's last layer."""
    distribution: Callable[[Nudge, Array], tuple[Array, Array | None]] = _unavailable
    """(nudge, obs) → mean and standard deviation, (n, action) each, before squashing; the latter
    is None where the policy is deterministic."""
    optimiser: Optimiser | Any = None
    """The actor's, with the learning rate of this moment; None on-policy while acting."""
    q: Callable[[Array, Array], Array] = _unavailable
    """Off-policy: (obs, action) → (critics, n), the value of every critic."""
    error: Callable[[Nudge, Batch], Array] = _unavailable
    """While learning: (nudge, batch) → (n,), the squared TD error at the bare action with the
    nudge's shift (off-policy, summed over critics) or of the value at its context (on-policy)."""
    td_error: Callable[[Batch], Array] = _unavailable
    """While learning: (batch) → (n,), the absolute TD error at the executed action, mean over
    critics."""
    critic: Net | None = None
    """On-policy, while learning: the value network."""
    progress: Any = 0.0
    """The share of the run that lies behind; on-policy, when the rollout began."""
    gamma: Any = None
    """The algorithm's discount; None on-policy while acting."""
    reward_scale: Any = 1.0
    """Factor on rewards in the critics' target."""
    entropy_weight: Callable[[], Any] = lambda: 0.0
    """() → α, the weight of −log π in the critics' target; 0 for algorithms without it."""
    actor_moved: bool = True
    """Off-policy, in `Learning.step`: whether this update was one of the actor, too."""
    learned: Any = ()
    """Off-policy, in `init` and `on_event`: all that updates move, to be saved and put back."""

    @property
    def net(self) -> Net:
        """The actor's network."""
        return self.params["net"]

    @property
    def joint(self) -> Any:
        """What the strategy trains together with the actor (`Learning.joint`)."""
        return self.params["joint"]


class Acting(NamedTuple):
    """What the strategy does while the agent acts and while it is evaluated."""

    begin: Begin = lambda state, view, key: ()
    draw: Draw = lambda key: ()
    behave: Behave = lambda state, memory, view, obs, noise, warmup: (memory, Nudge(view.net))
    greedy: Greedy = lambda state, params: Nudge(params["net"])
    resample_on: tuple[str, ...] = ("episode",)
    """On-policy, when memories begin: with each "episode", each "rollout", or both."""


class Learning(NamedTuple):
    """What the strategy does while the agent learns."""

    joint: Joint = lambda key, hyper, net, critic: {}
    expect: Expect = lambda state, view, obs, key, role: Nudge(view.net)
    step: Step = lambda state, view, batch, key: (state, 0.0)
    update_targets: UpdateTargets = lambda state, follow: state
    cadence: Literal["actor", "critic", "rollout"] = "actor"
    """When `step` is called. Off-policy: after each update of the actor, or of the critics.
    On-policy: before each minibatch's update, whichever of these two it is; with "rollout", with a
    whole rollout, after its last update."""
    every: int = 1
    """Call `step` at every so many updates. On-policy it counts with "rollout" alone: then `step`
    is called after the rollout in which so many minibatches have been learned from."""
    replaces_smoothing: bool = False
    """Whether `expect` moves the target action in place of the algorithm's smoothing noise."""


class Density(NamedTuple):
    """On-policy: how likely were the actions of a rollout, at any parameters?

    By default each action by itself, under the policy at the context that was stored. `nudge` adds
    what else the policy was told. `recall` is for noise that lasts: memories are stored with every
    action, and learning asks `behave` how the policy was nudged then. `log_prob` is for actions
    that depend on each other.
    """

    nudge: DensityNudge | None = None
    recall: Callable[[Memory], Any] | None = None
    """(memory) → what `behave` is given in its place, with () as noise. Such a memory must not
    change during its episode."""
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
    """If given, everything waits for it: nothing is learned while the environments move."""


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
    """By default a run that starts from another takes all of its state but the hyper-parameters."""
