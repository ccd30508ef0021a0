"""What faults that reach into RabbitMQ must know of it: what else it starts, where its data are, what files it has."""

from __future__ import annotations

from clusters.brokers.base import Anatomy, Daemon

HOME = "/var/lib/rabbitmq"
# Erlang's names service: a node that finds none on its machine starts it, and nobody ends it. Without it a node that
# runs goes on, and nobody that looks for it anew finds it.
EPMD_DAEMON = Daemon("epmd", ("/usr/bin/epmd", "-daemon"), {"HOME": HOME}, "rabbitmq", ports=(4369,))
BEAM = Daemon("beam.smp", (), {}, "rabbitmq", ports=(5672,))
FILES = {
    "wal": "*/quorum/*/*.wal",  # of all Raft members of the node, until they have it in segments
    "segments": "*/quorum/*/*/*.segment",
    "snapshots": "*/quorum/*/*/snapshot/*/*",
    "messages": "*/msg_stores/vhosts/**/*.[iqr]d[xq]",  # of classic queues
    "streams": "*/stream/*/*.segment",
}
ANATOMY = Anatomy({"epmd": EPMD_DAEMON}, f"{HOME}/mnesia", "rabbitmq", FILES, BEAM)
