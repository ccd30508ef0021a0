"""Porcupine from Python: `search(calls, model) -> Decision`, for any model there is in `models`.

`go/` is its worker, a program in Go around the published Porcupine; `build` finds or builds it, `process` keeps it,
`worker` asks it.
"""

from checkers.linearizability.porcupine.build import Unavailable
from checkers.linearizability.porcupine.models import MODELS, Model
from checkers.linearizability.porcupine.process import Died
from checkers.linearizability.porcupine.worker import Annotation, search, visualise

__all__ = ["MODELS", "Annotation", "Died", "Model", "Unavailable", "search", "visualise"]
