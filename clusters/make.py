"""From a broker's name to a cluster of it."""

from __future__ import annotations

from typing import Any

from chaos.model import registry
from clusters.base import Cluster, Setup

SIMULATED = "simulated"


def make(on: str, setup: Setup) -> Cluster:
    """The cluster of `setup.broker`, simulated or on a kind of host. Nothing is started yet.

    Raises BadInput for a broker, or a kind of host, that there is not.
    """
    if on == SIMULATED:
        return _simulated(setup, registry.find(registry.SIMULATIONS, setup.broker))
    cluster: Cluster = registry.find(registry.BROKERS, setup.broker).cluster(setup, on)
    return cluster


def _simulated(setup: Setup, found: type[Any]) -> Cluster:
    """A protocol runs on simulated nodes; what is a cluster by itself is made as it is."""
    from clusters.simulated.cluster import SimulatedCluster
    from clusters.simulated.protocol import Protocol

    if issubclass(found, Protocol):
        return SimulatedCluster(setup, found)
    cluster: Cluster = found(setup)
    return cluster
