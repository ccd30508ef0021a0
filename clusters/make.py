"""From a broker's name to a cluster of it."""

from __future__ import annotations

from chaos.model import registry
from clusters.base import Cluster, Setup

SIMULATED = "simulated"


def make(on: str, setup: Setup) -> Cluster:
    """The cluster of `setup.broker`, simulated or on a kind of host. Nothing is started yet.

    Raises BadInput for a broker that is not there on `on`.
    """
    group = registry.SIMULATIONS if on == SIMULATED else registry.BROKERS
    cluster: Cluster = registry.find(group, setup.broker).cluster(setup, on)
    return cluster
