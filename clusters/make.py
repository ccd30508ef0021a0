"""From a broker's name to a cluster of it."""

from __future__ import annotations

from chaos.model import registry
from clusters.base import Cluster, Setup
from clusters.simulated.cluster import SimulatedCluster
from clusters.simulated.protocol import Protocol

SIMULATED = "simulated"


def make(on: str, setup: Setup) -> Cluster:
    """The cluster of `setup.broker`, simulated or on a kind of host. Nothing is started yet.

    Raises BadInput for a broker, or a kind of host, that there is not.
    """
    group = registry.SIMULATIONS if on == SIMULATED else registry.BROKERS
    found = registry.find(group, setup.broker)
    if issubclass(found, Protocol):
        return (found.cluster or SimulatedCluster)(setup, found)
    cluster: Cluster = found.cluster(setup, on)
    return cluster
