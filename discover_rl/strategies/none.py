"""No exploration of the strategy's own: what the policy does by itself, its mean or a sample."""

from __future__ import annotations

from discover_rl.core.hyperparameters import hyper
from discover_rl.core.types import Spec
from discover_rl.strategies.interface import Blueprint, Strategy


@hyper
class Hyper:
    """No hyper-parameters."""


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """The strategy that changes nothing."""
    del spec, settings, blueprint
    return Strategy()
