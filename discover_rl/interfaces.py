"""What a strategy and an algorithm are.

A *strategy* touches a policy in few places: in its parameters, at its input, on its output. What it
does there at one moment is a `Nudge`. An *algorithm* shows a strategy a `View` of itself
and nothing else. Both are NamedTuples of pure functions over a state; a variant replaces a
function, and "no exploration" is `Strategy()`, whose every function is the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from discover_rl.types import Action, Actor, Array, Batch, Form, Losses, Net, Nudge, Turn, Update


class Blueprint(NamedTuple):
    """How an algorithm builds its actor's network, so that a strategy can own one just like it."""

    init: Callable[[Any, int], Net]  # (key, outputs) → parameters
    # (parameters, observations) → outputs before any squashing
    apply: Callable[[Net, Array], Array]
    outputs: int  # of the actor's own network
    density: bool = False  # whether the policy has one, so that `spread` means something
    # Whether it learns from rollouts of its present policy. Then a direction of exploration goes
    # beside the observation, not on top of the action, and learning asks how likely actions were.
    on_policy: bool = False
    warmup: int = 0  # steps of uniform actions before the policy acts


def _not_here(*_: Any) -> Any:
    raise TypeError("this view belongs to acting: it has no error to ask for")


class View(NamedTuple):
    """All that an algorithm shows a strategy."""

    params: Actor  # the actor in question: online or target
    policy: Callable[[Nudge, Array], Array]  # (nudge, obs) → mean action, shifted, not clipped
    features: Callable[[Nudge, Array], Array]  # (nudge, obs) → inputs of the actor's last layer
    optimiser: Any  # the actor's, learning rate included; None where there is only acting
    error: Callable[[Nudge, Batch], Array] = _not_here  # → (n,) squared TD error, if nudged so
    critic: Net | None = None  # on-policy, while learning: the value network
    student: Any = ()  # all that learning moves, as `turn` may save it and give it back


class Strategy(NamedTuple):
    """How an agent explores, as pure functions over a state of the strategy's own.

    Every default is the identity. The state is what a run learns; a memory is what an environment's
    episode leaves with the strategy, made by `begin` and carried along by `behave`.

    `behave` and `greedy` are written for NumPy and JAX alike and draw no random numbers: these come
    in as `noise`, made by `draw`. The other functions run under JAX only.
    """

    # (key, hyper, view) → state
    init: Callable[..., Any] = lambda key, hyper, view: ()
    # (key, hyper, net, critic) → parameters that the actor's loss and optimiser train with the
    # actor; critic is the value network, off-policy None
    joint: Callable[..., Any] = lambda key, hyper, net, critic: {}
    # (state, view, key) → memory; an episode starts: what is remembered for as long as it lasts
    begin: Callable[..., Any] = lambda state, view, key: ()
    # On-policy, when memories begin: with each "episode", each "rollout", or both.
    renews: tuple[str, ...] = ("episode",)
    # On-policy, (memory) → what `behave` is given in its place. Such memories stay as they are and
    # are kept with every action, so that learning can ask `behave` how the policy was nudged then,
    # with () as noise.
    recall: Callable[[Any], Any] | None = None
    # (key) → the random numbers that one call of behave takes
    draw: Callable[..., Any] = lambda key: ()
    # (state, memory, view, obs, noise, warmup) → (memory, nudge); acting, obs is (1, observation).
    # On-policy all may have environments in front; numbers of the state are then (…, 1, 1)
    behave: Callable[..., tuple[Any, Nudge]] = lambda state, memory, view, obs, noise, warmup: (
        memory,
        Nudge(view.params["net"]),
    )
    # (state, view, obs, key, role) → nudge; learning, obs is a batch; differentiable
    expect: Callable[..., Nudge] = lambda state, view, obs, key, role: Nudge(view.params["net"])
    # (state, params) → nudge; evaluating
    greedy: Callable[..., Nudge] = lambda state, params: Nudge(params["net"])
    # (state, view, batch, key) → (state, loss); the strategy's own step
    learn: Callable[..., tuple[Any, Any]] = lambda state, view, batch, key: (state, 0.0)
    # (state, follow) → state; follow(online, target) → target is the algorithm's own rule
    track: Callable[..., Any] = lambda state, follow: state
    # (state, view, batch) → {name: number} to be written beside evaluations
    report: Callable[..., dict[str, Any]] = lambda state, view, batch: {}
    # (state, memory, seen) → state; what the environment answered to the action that left `memory`
    hears: Callable[..., Any] | None = None
    # (step, due) → what to do once `step` steps have been made (unless the strategy hears rewards,
    # while the last of them is being made); due(step) are the updates that the algorithm would do;
    # runs on the host
    plan: Callable[..., tuple[Update | Turn, ...]] = lambda step, due: due(step)
    # (state, view, name) → (state, student); a Turn of its plan: it may put back another student
    turn: Callable[..., tuple[Any, Any]] = lambda state, view, name: (state, view.student)
    # (step) → whether episodes that are running after `step` steps are cut off; runs on the host
    cuts: Callable[[int], bool] = lambda step: False
    # When learn is called: after each step of the actor, of the critic, or (on-policy) with all of
    # a rollout, after its last step.
    cadence: Literal["actor", "critic", "rollout"] = "actor"
    # Steps between two calls at least, of those that `cadence` names; rollouts count their updates.
    every: int = 1
    # On-policy, for actions that depend on each other: (state, view, belief, piece) → ((L,) log π
    # of each action given those before it, belief after the last). A piece is L steps of one
    # environment in a row. None: every action has the density that its nudge gives it.
    likelihood: Callable[..., tuple[Array, Any]] | None = None
    belief: Any = ()  # what `likelihood` knows of an episode that starts
    piece: int = 64  # the longest piece
    # True: the strategy moves the target action itself, so the algorithm adds no smoothing noise.
    smooths: bool = False
    # How many numbers it appends to the observation.
    context_size: int = 0
    # Whether the actor's hidden layers are normalised before their nonlinearity.
    layer_norm: bool = False


class Algorithm(NamedTuple):
    """How an agent learns, as pure functions over one state, with a strategy wedded in.

    `act` is written for NumPy and JAX alike; its random numbers come from `draw`.
    """

    # (key, hyper, strategy's hyper) → state
    init: Callable[..., Any]
    # (state, key) → the strategy's memory; an episode starts
    begin: Callable[..., Any]
    # (key) → the random numbers that one call of act takes
    draw: Callable[..., Any]
    # (state, memory, obs, noise, step) → (state, memory, action); step counts the environment steps
    # made so far
    act: Callable[..., tuple[Any, Any, Action]]
    # (state, batch, key, update, progress) → (state, losses); one gradient update. `update` is
    # static; progress is the share of the run that lies behind, for what decays
    learn: Callable[..., tuple[Any, Losses]]
    # (state, batch, key) → {name: number}, for the record; changes nothing
    report: Callable[..., dict[str, Any]]
    # (state, batch, key) → (n,) |y − Q(s, ã)|, mean over critics, with the target that critics
    # learn from; changes nothing
    errors: Callable[..., Array]
    # (state) → the network that evaluation uses
    greedy: Callable[..., Nudge]
    # (step) → the updates to do once `step` environment steps have been made; runs on the host
    due: Callable[[int], tuple[Update, ...]]
    form: Form
    # (state, name) → state; the strategy's turn
    turn: Callable[..., Any]
    # (state, memory, seen) → state; None: the strategy does not listen
    hears: Callable[..., Any] | None = None
    # Whether `act` changes the state.
    observes: bool = False


class OnPolicy(NamedTuple):
    """An algorithm that learns from whole rollouts of its present policy, and then drops them.

    What `acting` gives runs on the host, in NumPy, while parameters stand still.
    """

    # (key, hyper, strategy's hyper) → state
    init: Callable[..., Any]
    # (state, key) → the strategy's memory; an episode starts
    begin: Callable[..., Any]
    # (key) → the random numbers that one call of act takes
    draw: Callable[..., Any]
    # (state) → (memory, obs, noise) → (memory, nudge, own action); obs is (1, observation). All may
    # have environments in front, as for `behave`
    acting: Callable[..., Callable[..., tuple[Any, Nudge, Array]]]
    # (state, belief, rollout, key, progress) → (state, belief, losses, {name: number} for the
    # record); beliefs are one per environment, what the strategy's likelihood knows of each
    learn: Callable[..., tuple[Any, Any, Losses, dict[str, Any]]]
    # (state) → the network that evaluation uses
    greedy: Callable[..., Nudge]
    form: Form
