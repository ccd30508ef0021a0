"""The protocols that can be explored, by the names that their brokers have everywhere."""

from __future__ import annotations

from chaos.search.prove.model import Model
from chaos.search.prove.raft import RaftModel
from chaos.search.prove.scouting import ScoutingModel

PROTOCOLS: dict[str, type[Model]] = {model.name: model for model in (ScoutingModel, RaftModel)}
