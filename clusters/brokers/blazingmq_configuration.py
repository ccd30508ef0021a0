"""The three kinds of file that configure a BlazingMQ broker, as plain data to be written as JSON.

After the schemas of 0.95: mqbcfg.xsd (broker and cluster) and mqbconfm.xsd (domains), and the vendor's own example in
its docker/cluster. What is not named here has the vendor's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.kernel.clock import MILLISECOND, SECOND
from clusters.reporters.blazingmq import CLUSTER, DOMAIN, PORT

LOGS = "/var/local/bmq/logs"
LOG = f"{LOGS}/bmqbrkr.log"
STORAGE = "/var/local/bmq/storage"
NEVER = 100  # supporters, which no cluster of ours has

FSM = "fsm"
STRONG = "strong"
FANOUT = "fanout"

_WATCH = SECOND  # how often a connection is looked at for a sign of life
_LONG = 10**12  # no limit that a run meets


def broker(options: Mapping[str, Any], node: str) -> dict[str, Any]:
    """bmqbrkrcfg.json of a node."""
    patience = max(1, round(options["peer_patience"] / _WATCH))
    threads = {
        "numProcessors": 2,
        "processorConfig": {"queueSize": 500000, "queueSizeLowWatermark": 100000, "queueSizeHighWatermark": 200000},
    }
    return {
        "taskConfig": {
            "allocatorType": "NEWDELETE",
            "allocationLimit": 1 << 35,
            "logController": {
                "fileName": LOG,
                "fileMaxAgeDays": 10,
                "rotationBytes": 1 << 28,
                "logfileFormat": "%d (%t) %s %F:%l %m\n",
                "consoleFormat": "%d (%t) %s %F:%l %m\n",
                "loggingVerbosity": "INFO",
                "consoleSeverityThreshold": "ERROR",
                # our own questions would be in it with their answers, ten times a second
                "categories": ["BMQ*:INFO:green", "MQB*:INFO:green", "MQBA.ADMINSESSION:WARN:gray"],
                "syslog": {"enabled": False, "appName": "BMQ", "logFormat": "", "verbosity": ""},
            },
        },
        "appConfig": {
            "brokerInstanceName": "default",
            "brokerVersion": 999999,
            "configVersion": 999999,
            "etcDir": "",
            "hostName": node,
            "hostTags": "",
            "hostDataCenter": "dc",
            "logsObserverMaxSize": 1000,
            "dispatcherConfig": {"sessions": threads, "queues": threads, "clusters": threads},
            "stats": {
                "snapshotInterval": 1,
                "plugins": [],
                "printer": {
                    "printInterval": 60,
                    "file": f"{LOGS}/stat.%T.%p",
                    "maxAgeDays": 3,
                    "rotateBytes": 1 << 28,
                    "rotateDays": 1,
                },
            },
            "networkInterfaces": {
                "heartbeats": {
                    "client": patience,
                    "downstreamBroker": patience,
                    "upstreamBroker": patience,
                    "clusterPeer": patience,
                },
                "tcpInterface": {
                    "name": "TCPInterface",
                    "port": PORT,
                    "ioThreads": 2,
                    "maxConnections": 10000,
                    "lowWatermark": 4 << 20,
                    "highWatermark": 1 << 30,
                    "nodeLowWatermark": 5 << 20,
                    "nodeHighWatermark": 10 << 20,
                    "heartbeatIntervalMs": _WATCH // MILLISECOND,
                },
            },
            "bmqconfConfig": {"cacheTTLSeconds": 30},
        },
    }


def clusters(
    options: Mapping[str, Any], node: str, nodes: Sequence[str], at: Callable[[str], str] = str
) -> dict[str, Any]:
    """clusters.json of a node; `at`: what a node's host is called. All nodes have the same but for the quorum, where
    only one node may lead."""
    fsm = options["workflow"] == FSM
    pinned = options["leader"]
    return {
        "myClusters": [
            {
                "name": CLUSTER,
                "clusterAttributes": {"isCSLModeEnabled": fsm, "isFSMWorkflow": fsm, "doesFSMwriteQLIST": fsm},
                "nodes": [
                    {
                        "id": number,
                        "name": name,
                        "dataCenter": "dc",
                        "transport": {"tcp": {"endpoint": f"tcp://{at(name)}:{PORT}"}},
                    }
                    for number, name in enumerate(nodes, 1)
                ],
                "partitionConfig": {
                    "numPartitions": options["partitions"],
                    "location": STORAGE,
                    "archiveLocation": f"{STORAGE}/archive",
                    "maxDataFileSize": 1 << 28,
                    "maxJournalFileSize": 1 << 26,
                    "maxQlistFileSize": 1 << 23,
                    "maxCSLFileSize": 1 << 23,
                    "preallocate": False,
                    "prefaultPages": False,
                    "flushAtShutdown": True,
                    "maxArchivedFileSets": 0,
                    "syncConfig": {
                        "startupRecoveryMaxDurationMs": 1200000,
                        "maxAttemptsStorageSync": 3,
                        "storageSyncReqTimeoutMs": 300000,
                        "masterSyncMaxDurationMs": 600000,
                        "partitionSyncStateReqTimeoutMs": 120000,
                        "partitionSyncDataReqTimeoutMs": 120000,
                        "startupWaitDurationMs": 0,
                        "fileChunkSize": 4 << 20,
                        "partitionSyncEventSize": 4 << 20,
                    },
                },
                "masterAssignment": "E_LEADER_IS_MASTER_ALL",
                "elector": {
                    "initialWaitTimeoutMs": options["initial_wait"] // MILLISECOND,
                    "maxRandomWaitTimeoutMs": options["random_wait"] // MILLISECOND,
                    "scoutingResultTimeoutMs": options["scouting_result"] // MILLISECOND,
                    "electionResultTimeoutMs": options["election_result"] // MILLISECOND,
                    "heartbeatBroadcastPeriodMs": options["heartbeat_broadcast"] // MILLISECOND,
                    "heartbeatCheckPeriodMs": options["heartbeat_check"] // MILLISECOND,
                    "heartbeatMissCount": options["heartbeat_miss_count"],
                    "quorum": NEVER if pinned not in (None, node) else options["quorum"],
                    "leaderSyncDelayMs": options["leader_sync_delay"] // MILLISECOND,
                },
                "queueOperations": {"keepaliveDurationMs": 12 * 3600 * 1000},  # a queue outlives a run, unused or not
            }
        ],
        "proxyClusters": [],
    }


def domain(options: Mapping[str, Any]) -> dict[str, Any]:
    """domains/splitbrain.json: the one domain, with all queues."""
    limits = {"messages": _LONG, "bytes": _LONG, "messagesWatermarkRatio": 0.8, "bytesWatermarkRatio": 0.8}
    return {
        "definition": {
            "location": CLUSTER,
            "parameters": {
                "name": DOMAIN,
                "mode": {FANOUT: {"appIDs": list(apps(options))}} if options["mode"] == FANOUT else {"priority": {}},
                "consistency": {options["consistency"]: {}},
                "storage": {"config": {"fileBacked": {}}, "domainLimits": limits, "queueLimits": limits},
                "maxConsumers": 0,
                "maxProducers": 0,
                "maxQueues": 0,
                "maxIdleTime": 0,
                "messageTtl": 24 * 3600,
                "maxDeliveryAttempts": options["delivery_limit"],
                "deduplicationTimeMs": 300000,
            },
        }
    }


def apps(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The applications that a fan-out queue serves; none in another mode."""
    return tuple(f"app{number}" for number in range(1, options["apps"] + 1)) if options["mode"] == FANOUT else ()
