"""What the tables hold: a schema a table, the same for whoever writes and whoever reads.

Times within a run are ns since it began, on the controller's clock. `day` (UTC, of the run's creation) and `scenario`
(its name) are columns of every table, and the folders of its files. A run is in the tables wholly or not at all.

==========  ============================================================================================
runs        a row a run: what it was, what became of it, and what was counted
ops         a row an operation: the invocation joined with its completion; and the rows that stand alone
messages    a row a publish attempt, with what became of its message
faults      a row a fault that was injected, or was to be: when, on whom, and whether it bit
leaders     a row a claim to lead: from when to when a node held a role, and its term
verdicts    a row a checker a run
latency     a row an operation, a phase and a window: how many, and how long they took
seeds       a row a seed of an exploration, whether its run was kept or not
rejected    a row a run that could not be read, and why
==========  ============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

SCHEMA_VERSION = 2  # 1: without `seeds`
PARTITIONS = ("day", "scenario")


def _table(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    of_all = [("run", pa.string()), ("day", pa.string()), ("scenario", pa.string())]
    return pa.schema([pa.field(name, type_) for name, type_ in (*of_all, *fields)])


_text, _int, _flag, _real = pa.string(), pa.int64(), pa.bool_(), pa.float64()

RUNS = _table(
    ("suite_run", _text),  # the id of the suite's run that it was part of; null for a run by itself
    ("cell", _text),  # which of the suite's cells: "row [label]"; the seed is apart
    ("attempt", pa.int32()),  # from 1: a run that was tried again has a higher one
    ("seed", _int),
    ("broker", _text),  # "rabbitmq-quorum"
    ("version", _text),  # of the broker, as it was asked: "4.0.5"; of a simulated one that whose rules it follows
    ("on", _text),  # simulated, docker, ssh
    ("created", pa.timestamp("us", tz="UTC")),
    ("status", _text),  # running, done, failed
    ("problem", _text),  # why it failed
    ("cut", _text),  # why its history is not whole
    ("splitbrain", _text),
    ("commit", _text),
    ("python", _text),
    ("digest", _text),  # of the history
    ("ops", _int),  # rows of the history
    ("length", _int),  # ns, from the first row to the last
    ("verdict", _text),  # valid, invalid, unknown: merged from `verdicts`
    ("published", _int),  # publish attempts
    ("confirmed", _int),
    ("failed", _int),
    ("unknown", _int),
    ("confirmed_under_faults", _int),  # invoked and confirmed while a fault was surely in force
    ("delivered", _int),  # deliveries
    ("lost", _int),  # messages, as the checker `messages` counts them; null where the run does not ask it
    ("duplicated", _int),
    ("faults", _int),  # that took place
    ("bitten", _int),  # of those, how many were seen to bite
    ("outage", _int),  # ns, the longest time without a confirm while work was asked; null where nothing was confirmed
    ("recovery", _int),  # ns, the longest from the undoing of a fault to a new confirm; null where nobody can tell
    ("failover", _int),  # ns, the longest from the end of one claim to lead to the next; null where there was no next
    ("fingerprint", _text),  # of the files that it was read from: whether they have changed since
    ("schema", pa.int32()),  # of these tables, when the run was read
)

OPS = _table(
    ("op", _int),  # index of the invocation; of the row itself where it stands alone
    ("end", _int),  # index of the completion; null where there was none; of a row that stands alone: its own
    ("process", pa.int32()),
    ("f", _text),
    ("key", _text),
    ("value", _int),  # the completion's where it has one, else the invocation's
    ("node", _text),
    ("outcome", _text),  # ok, fail, info; of an invocation that never completed: info
    ("invoked", _int),
    ("completed", _int),  # null where it never was
    ("latency", _int),  # ns; null where it never completed, and of a row that stands alone
    ("error", _text),
    ("detail", _text),  # JSON, of the invocation, or of the row that stands alone
    ("answer", _text),  # JSON, of the completion
    ("channel", pa.int32()),
    ("redelivered", _flag),
    ("term", _int),
    ("incarnation", _int),
)

MESSAGES = _table(
    ("key", _text),
    ("id", _int),
    ("process", pa.int32()),
    ("node", _text),
    ("outcome", _text),  # of its publish: ok, fail, info
    ("published", _int),  # the invocation
    ("confirmed", _int),  # the completion, where it is ok
    ("deliveries", _int),
    ("acks", _int),  # known to have taken effect
    ("first", _int),  # delivery
    ("last", _int),
    ("lost", _flag),  # as the checker `messages` has it; null where the run does not ask it (of a log it means nothing)
    ("duplicated", _flag),  # delivered more than once; null likewise
)

FAULTS = _table(
    ("fault", _text),
    ("nemesis", _text),
    ("kind", _text),
    ("target", _text),  # the role that was meant: "leader"
    ("nodes", pa.list_(_text)),  # whom it resolved to
    ("injected", _int),  # when that began; before it, it surely was not in force
    ("in_force", _int),  # when it was on the last of its nodes; null where it could not be injected
    ("undoing", _int),  # when that began: from `in_force` until then it surely was in force; null where it never did
    ("undone", _int),  # when that was complete: after it, it surely was not; null where it never was
    ("bit", _flag),  # null: nobody could tell
    ("error", _text),  # why it could not be injected or undone
)

LEADERS = _table(
    ("scope", _text),  # the queue, or the cluster
    ("node", _text),
    ("role", _text),
    ("term", _int),
    ("incarnation", _int),
    ("began", _int),
    ("ended", _int),  # the last moment at which it was seen, or exactly when it ceased
    ("exact", _flag),  # by events, not samples
)

VERDICTS = _table(
    ("checker", _text),
    ("verdict", _text),  # valid, invalid, unknown, not applicable
    ("reason", _text),
    ("counts", pa.map_(_text, _int)),
    ("anomalies", _text),  # JSON: the first of each kind
    ("kinds", pa.map_(_text, _int)),  # how many of each kind are among `anomalies`
    ("metrics", _text),  # JSON
)

LATENCY = _table(
    ("f", _text),  # an operation; or "delivery": from a publish to the first delivery of its message
    ("phase", _text),  # all; quiet, or faulted: whether a fault was in force at some moment between
    ("began", _int),  # of the window; null for the phase as a whole
    ("width", _int),  # of the window, ns
    ("ops", _int),
    ("ok", _int),
    ("p50", _real),  # ns, of those that were ok, by the nearest rank (to 1 in 10,000 of the ranks)
    ("p90", _real),
    ("p99", _real),
    ("p999", _real),
    ("max", _int),
)

SEEDS = _table(  # `run`: the exploration, whose id begins with when it was begun
    ("seed", _int),
    ("kept", _text),  # the run that it is kept as; null where it is not
    ("created", pa.timestamp("us", tz="UTC")),  # of the exploration
    ("broker", _text),  # simulated
    ("version", _text),
    ("swarm", _flag),  # whether each seed drew some of the faults
    ("verdict", _text),  # valid, invalid, unknown: merged from `verdicts`; of a run that failed: unknown
    ("verdicts", pa.map_(_text, _text)),  # of each checker
    ("kinds", pa.list_(_text)),  # of anomalies that were found: "messages.lost"
    ("failures", _text),  # JSON: of each kind the first, with the faults around it
    ("why", pa.map_(_text, _text)),  # of an unknown seed: of each checker that could not say, the reason
    ("faults", _int),  # that took place
    ("leader_changes", _int),
    ("digest", _text),  # of the history
    ("published", _int),  # this and the following as in `runs`, by the checkers that the scenario asks; null without
    ("confirmed", _int),
    ("lost", _int),
    ("duplicated", _int),
    ("confirmed_under_faults", _int),
    ("outage", _int),
    ("recovery", _int),
    ("failover", _int),
    ("splitbrain", _text),
    ("commit", _text),
    ("python", _text),
    ("fingerprint", _text),
    ("schema", pa.int32()),
)

REJECTED = _table(
    ("path", _text),
    ("reason", _text),
    ("fingerprint", _text),
)

TABLES: Mapping[str, pa.Schema] = {
    "runs": RUNS,
    "ops": OPS,
    "messages": MESSAGES,
    "faults": FAULTS,
    "leaders": LEADERS,
    "verdicts": VERDICTS,
    "latency": LATENCY,
    "seeds": SEEDS,
    "rejected": REJECTED,
}
