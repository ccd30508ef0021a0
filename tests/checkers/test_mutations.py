"""Each rule of each checker is guarded: break it in the source, and one of the checker's literal tests fails.

A mutation is (module, text as it stands, broken text). Those of a helper are tried with the checkers that use it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from chaos.model.registry import CHECKERS, find
from tests.checkers import (
    test_availability,
    test_counter,
    test_earned,
    test_exceptions,
    test_latency,
    test_leaders,
    test_messages,
    test_order,
    test_replicas,
    test_set,
    test_set_full,
    test_single_active,
    test_streams,
    test_total_queue,
    test_unique_ids,
)
from tests.linearizability.monitors.mutations import all_pass

TESTS: dict[str, ModuleType] = {
    "availability": test_availability,
    "counter": test_counter,
    "earned": test_earned,
    "exceptions": test_exceptions,
    "latency": test_latency,
    "leaders": test_leaders,
    "messages": test_messages,
    "order": test_order,
    "replicas": test_replicas,
    "set": test_set,
    "set-full": test_set_full,
    "single-active": test_single_active,
    "streams": test_streams,
    "total-queue": test_total_queue,
    "unique-ids": test_unique_ids,
}
MUTATIONS = [
    # messages
    ("messages", "unseen = confirmed & (times == 0)", "unseen = (times == 0)"),
    ("messages", "unseen = confirmed & (times == 0)", "unseen = confirmed & (times < 0)"),
    ("messages", "(published.end < drained[published.key])", "(0 <= drained[published.key])"),
    ("messages", "(published.end < drained[published.key])", "(drained.max() >= 0)"),
    ("messages", " & (history.cut is None)", ""),
    ("messages", 'history.rows("drain", OK)', 'history.rows("drain")'),
    ("messages", "if cut is not None:", "if False:"),
    ("messages", "    if undrained:", "    if False:"),
    ("messages", '    if counts["missing"]:', "    if False:"),
    ("messages", '_stray(history, took) | ((at', '((at'),
    ("messages", "| ((at >= 0) & (history.key.codes[took] != published.home(at)))", ""),
    ("messages", "took[(at < 0) & ~stray]", "took[at < -1]"),
    ("messages", "mine[published.outcome[of] == FAIL]", "mine[published.outcome[of] > 9]"),
    ("messages", "published.outcome == INFO) & (times > 0)", "published.outcome == INFO) & (times > 1)"),
    ("messages", "granted(history, mine) > acked_at[of]", "mine > acked_at[of]"),
    ("messages", "granted(history, mine) > acked_at[of]", "mine < 0"),
    ("columns", 'history.rows("ack", OK)', 'history.rows("ack")'),
    ("columns", "(at >= 0) & (published.home(at) == history.key.codes[rows])", "at >= 0"),
    ("messages", 'AT_LEAST_ONCE: {"duplicated"}', "AT_LEAST_ONCE: set()"),
    ("messages", "EXACTLY_ONCE: set[str]()", 'EXACTLY_ONCE: {"duplicated"}'),
    ("messages", 'AT_MOST_ONCE: {"lost"}', "AT_MOST_ONCE: set()"),
    ("messages", "lost = whole & ~dropped", "lost = whole"),
    ("messages", ">= limit", ">= limit - 1"),
    ("messages", "ends = np.sort(last[history.key.codes[last] == code])", "ends = np.sort(last)"),
    ("messages", "np.searchsorted(ends, published.row[of_queue])", "0"),
    ("messages", "coded(history.key.codes[rows], history.process[rows], history.channel[rows])", "rows"),
    # columns
    ("columns", "~history.error.is_(CORRUPT)[rows] & ", ""),
    ("columns", " & ~history.error.is_(FOREIGN)[rows]", ""),
    ("columns", "(history.value[rows] != NONE) & ", ""),
    ("columns", "history.type[end], np.int8(INFO))", "history.type[end], np.int8(OK))"),
    ("columns", "return np.where(row >= 0, row, rows)", "return rows"),
    # order
    ("order", "published.outcome[at] != FAIL", "published.outcome[at] > -1"),
    ("order", "coded(history.process[sent], history.channel[sent])", "coded(history.channel[sent])"),
    ("order", "history.process[sent], history.channel[sent])", "history.process[sent])"),
    ("order", "coded(producer, history.process[took], history.channel[took])", "producer"),
    ("order", "coded(producer, history.process[took], history.channel[took])", "coded(took)"),
    ("order", "history.redelivered[took[firsts]] != 0", "history.redelivered[took[firsts]] > 0"),
    ("order", "history.redelivered[took[firsts]] != 0", "history.redelivered[took[firsts]] > 1"),
    ("order", "in_all.newest(producer[late], credit,", "in_all.newest(producer[late], credit - len(history),"),
    ("order", "_Taken(lane, took, sent),", "_Taken(lane[firsts], took[firsts], sent[firsts]),"),
    ("order", "before[place]:", "before[place] + len(history):"),
    ("order", "bisect_left(free, (seen[place], -1)) - 1", "len(free) - 1"),
    ("order", "free.pop(best)[1]", "free[best][1]"),
    ("order", "[OK, FAIL])", "[OK])"),
    ("order", "else closed.get(_channel(history, row))", "else None"),
    ("order", """if not counts["pairs"]:""", "if False:"),
    # leaders
    ("leaders", "if len(nodes) > 1:", "if False:"),
    ("leaders", "lambda view: (view.key, view.term))", "lambda view: view.term)"),
    ("leaders", "if one[0].life is not None]", "]"),
    ("leaders", "while seen[place].answered < view.asked:", "while seen[place].answered < view.answered:"),
    ("leaders", "highest = view  # one", "pass  # one"),
    ("leaders", "lambda one: (one[0].life, one[1])", "lambda one: (one[0].node, one[1])"),
    ("leaders", "lambda one: (one[0].life, one[1])", "lambda one: one[0].life"),
    ("leaders", "max(run[0].answered, run[-1].asked)", "run[-1].answered"),
    ("leaders", "begun.answered, end,", "begun.asked, end,"),
    ("leaders", "sure = exact or begun.term is not None", "sure = True"),
    ("leaders", "(LEADER, run[0].term, run[0].life, run[0].reign)", "(LEADER, run[0].term, view.life, run[0].reign)"),
    ("leaders", "(LEADER, run[0].term, run[0].life, run[0].reign)", "(LEADER, view.term, run[0].life, run[0].reign)"),
    ("leaders", "(LEADER, run[0].term, run[0].life, run[0].reign)", "(LEADER, run[0].term, run[0].life, view.reign)"),
    ("leaders", "sorted([*of_node, *exits[of_node[0].node]]", "sorted([*of_node]"),
    ("leaders", "end = last if after is None else after.answered", "end = last"),
    ("leaders", 'np.searchsorted(begun, start, side="right")', "0"),
    ("leaders", "np.flatnonzero(done[low:high] < end)", "np.flatnonzero(done[low:high] < end + 10**12)"),
    ("leaders", "history.key.is_(claim.key)[rows] & ", ""),
    ("leaders", " & history.node.is_(claim.node)[rows]", ""),
    ("leaders", "confirmed = published.confirmed", "confirmed = published.end >= 0"),
    ("leaders", "if by_one and by_other:", "if by_one or by_other:"),
    ("leaders", "if by_one and by_other:", "if False:"),
    ("leaders", "        if not terms:", "        if False:"),
    ("leaders", "        if led[place].node != node:", "        if False:"),
    ("leaders", "            if place == len(led):", "            if place >= len(led) - 1:"),
    ("leaders", "if not place or claim.node != of_key[place - 1].node", "if True"),
    ("leaders", "max(longest, claim.start - until)", "longest"),
    ("leaders", "until = max(until, claim.end)", "until = until"),
    ("leaders", 'if "role" not in said:', "if False:"),
    ("leaders", "view.life != before.life and ", ""),
    # earned
    ("earned", "elif span.bit is False:", "elif not span.bit:"),
    ("earned", "elif span.bit is False:", "elif False:"),
    ("earned", "if not span.undone:", "if False:"),
    ("earned", "    if not spans:", "    if False:"),
    ("earned", "    if expected == NONE:", "    if False:"),
    ("earned", "    if expected == ANY:", "    if False:"),
    ("earned", 'if options["progress"] != ANY and not', "if not"),
    ("earned", "and not ok.any():", "and False:"),
    ("earned", 'if options["progress"] == FORBIDDEN:', "if False:"),
    ("earned", 'if options["progress"] == FORBIDDEN:', "if True:"),
    ("earned", '(span.start + options["grace"], span.undoing)', "(span.start, span.undoing)"),
    ("earned", '(span.start + options["grace"], span.undoing)', '(span.start + options["grace"], span.end + 10**9)'),
    ("earned", "ok & inside(barred, begun, ended)", "inside(barred, begun, ended)"),
    ("earned", "ok & inside(barred, begun, ended)", "ok & inside(barred, begun, begun)"),
    ("earned", "ok & inside(barred, begun, ended)", "ok & inside(barred, ended, ended)"),
    ("earned", "if not inside(barred, begun, begun).any() and", "if False and"),
    ("earned", " and not inside(barred, refused, refused).any():", ":"),
    ("earned", "if history.cut is not None:", "if False:"),
    ("earned", 'history.rows("serve", INFO)', 'history.rows("serve", OK)'),
    ("earned", 'history.f.is_("error")', 'history.f.is_("errors")'),
    # faults
    ("faults", 'history.rows("inject", OK)', 'history.rows("inject", OK, INFO)'),
    ("faults", 'history.rows("undo", OK)', 'history.rows("undo", OK, INFO)'),
    ("faults", "max(said.get", "min(said.get"),
    ("faults", "bit=None if healed is None else", "bit=True if healed is None else"),
    # replicas
    ("replicas", "for row in rows}) > 1", "for row in rows}) > 2"),
    ("replicas", 'history.detail(row)["digest"]', "history.value[row]"),
    ("replicas", """if counts["replicas"] == counts["queues"]:""", """if not counts["queues"]:"""),
    ("replicas", ">= most - fewest", ">= 10**9"),
    # single-active
    ("single_active", "took[history.redelivered[took] <= 0]", "took"),
    ("single_active", "if noisy:", "if False:"),
    ("single_active", 'span.end + options["settle"]', "span.end"),
    ("single_active", "if since != after or _channel", "if _channel"),
    ("single_active", "_channel(history, before), row) >= row", "_channel(history, before), row) < row"),
    ("single_active", "queue, channel = int(history.key.codes[row])", "queue, channel = 0"),
    # exceptions
    ("exceptions", 'if not history.detail(row).get("asked")', ""),
    ("exceptions", 'for kind in options["fail_on"] if', "for kind in KINDS if"),
    ("exceptions", "if _life(history, row) in served]", "]"),
    ("exceptions", "if _life(history, row) not in served]", "]"),
    ("exceptions", 'if "role" in history.detail(row)', ""),
    ("exceptions", "if EXCEPTION.match(word)]", "]"),
    ("exceptions", "kind != NOTHING and ", ""),
    # availability
    ("availability", "spans)\n    counted = inside(under,", "spans)\n    counted = touches(under,"),
    ("availability", " & ~touches(late, begins, begins + window)", ""),
    ("availability", "self.lengths > limit", "self.lengths >= limit"),
    ("availability", "if found.ns > limit:", "if found.ns >= limit:"),
    ("availability", 'rate < options["min_rate"]', "False"),
    ("availability", 'progress < options["min_progress"] * windows', "False"),
    ("availability", "if not miss.stalled)", ")"),
    ("availability", "    if not limits:", "    if False:"),
    ("availability", "(history.time[begun] > span.end) & ", ""),
    ("availability", " & (history.time[ended] <= quiet)", ""),
    ("availability", "any(other.asked <= span.end < other.end for", "any(False for"),
    ("availability", "if other.asked > span.end)", "if False)"),
    ("availability", "opens[opens < over[0]]", "opens"),
    # latency
    ("latency", "percent + 99) // 100 - 1", "percent) // 100 - 1"),
    ("latency", "QUIET: ~self.faulted", "QUIET: self.faulted | True"),
    ("latency", "return_index=True)\n", "return_index=True)\n    place = place[::-1]\n"),
    ("latency", "sure = part & ~sample.stalled", "sure = part"),
    ("latency", "np.lexsort((sample.ns, place))", "np.lexsort((place, sample.ns))"),
    # objects
    ("objects", "if len(some) == 1:", "if True:"),
    ("objects", "& (history.process >= 0))", ")"),
    ("objects", "if len(other):", "if False:"),
    ("objects", "    if strange:", "    if False:"),
    ("objects", "    if strange and not any(", "    if not any("),
    # total-queue
    ("total_queue", "if value is not None:", "if True:"),
    ("total_queue", "enqueues - dequeues", "attempts - dequeues"),
    ("total_queue", "enqueues - dequeues", "enqueues - ok - ok"),
    ("total_queue", "if one not in attempts", "if one not in enqueues"),
    ("total_queue", "dequeues - attempts - unexpected", "dequeues - attempts"),
    ("total_queue", "dequeues - attempts - unexpected", "dequeues - enqueues - unexpected"),
    ("total_queue", "ok - enqueues", "dequeues - enqueues"),
    ("total_queue", "taken[element(value)].append(row)", "pass"),
    ("total_queue", "if ops.cut is not None:", "if False:"),
    ("total_queue", "(end < 0) | ", ""),
    ("total_queue", " & (ops.type[end] != FAIL)", ""),
    ("total_queue", "elif not enqueues and not dequeues:", "elif False:"),
    # set
    ("set", "if answer is not None:", "if final < 0:"),
    ("set", "if answer is not None:", "if True:"),
    ("set", "if row < begun]", "]"),
    ("set", "if one not in attempts]", "if one not in acked]"),
    ("set", "if one in attempts and one not in acked]", "if one in attempts]"),
    ("set", 'elif found["unread"]:', "elif False:"),
    ("set", "elif final < 0:", "elif False:"),
    # set-full
    ("set_full", "self.absent > self.present and self.absent > self.known", "self.absent > self.present"),
    ("set_full", "self.absent > self.present and self.absent > self.known", "self.absent > self.known"),
    ("set_full", "self.stable and self.absent > self.known", "self.stable and self.absent >= 0"),
    ("set_full", "it.known = min(it.known, read.end)", "pass"),
    ("set_full", "if end >= 0 and ops.type[end] == OK:", "if end >= 0:"),
    ("set_full", "if times > 1}", "if times < 1}"),
    ("set_full", "if one not in added or added[one].add > read.end:", "if one not in added:"),
    ("set_full", "if one not in added or added[one].add > read.end:", "if added[one].add > read.end:"),
    ("set_full", "read.end > it.add and one not in", "one not in"),
    ("set_full", "            if last < it.add:", "            if read.begun < it.add:"),
    ("set_full", "key=lambda read: -read.begun", "key=lambda read: -read.end"),
    ("set_full", '["stale"] * options["linearizable"]', '["stale"]'),
    ("set_full", '["stale"] * options["linearizable"]', "[]"),
    ("set_full", "elif not stable:", "elif False:"),
    ("set_full", "+ 1 - ops.time[known]", "- ops.time[known]"),
    # counter
    ("counter", "some, sure = happened != FAIL,", "some, sure = happened > 9,"),
    ("counter", "some, sure = happened != FAIL,", "some, sure = happened > -1,"),
    ("counter", "happened == OK", "happened != FAIL"),
    ("counter", "[int(lower[start])", "[int(lower[row])"),
    ("counter", "int(upper[row])]", "int(upper[start])]"),
    ("counter", "np.add.at(lower, rows[some], np.minimum(by[some], 0))", "pass"),
    ("counter", "np.add.at(upper, end[sure], np.minimum(by[sure], 0))", "pass"),
    ("counter", "if value is not None", "if True"),
    ("counter", "        return 1\n", "        return 0\n"),
    ("counter", "elif not within:", "elif False:"),
    # unique-ids
    ("unique_ids", "if len(ends[one]) > 1]", "if len(ends[one]) > 2]"),
    ("unique_ids", 'ops.rows("generate", OK)', 'ops.rows("generate")'),
    ("unique_ids", "elif not len(rows):", "elif False:"),
    # streams
    ("streams", "elif faults and sure:", "elif faults:"),
    ("streams", "TO_SUBSCRIBERS * subscribed", "TO_SUBSCRIBERS"),
    ("streams", "TO_SUBSCRIBERS * subscribed", "()"),
    ("streams", 'WITH_WW * options["ww_deps"]', "()"),
    ("streams", 'WITH_WW * options["ww_deps"]', "WITH_WW"),
    ("streams", '"int-send-skip", "G0", "G0-realtime")', '"G0", "G0-realtime")'),
    ("streams", '"int-send-skip", "G0", "G0-realtime")', '"int-send-skip", "G0")'),
    ("streams", "history.cut is None or any(", "any("),
    ("streams", "history.cut is None or any(", "True or any("),
    ("streams", "worst.lag <= limit", "worst.lag < limit"),
    ("streams", 'elif not counts["polled"]:', "elif False:"),
    ("streams", "limit is not None and worst.lag > limit:", "limit is not None and worst.lag < limit:"),
    ("streams", 'anomaly.kind != "unseen" for', "anomaly for"),
    ("logs.entries", "if log.drain is None or not log.drain[2]:", "if log.drain is None:"),
    ("logs.entries", "sure = log.confirmed | ((places != NONE) & (places <= upto))", "sure = log.confirmed"),
    ("logs.entries", "sure = log.confirmed | ((places != NONE) & (places <= upto))", "sure = places <= upto"),
    ("logs.entries", "(places != NONE) & (places <= upto)", "(places != NONE)"),
    ("logs.entries", "within = (log.row > begun) & (log.row < ended)", "within = log.row < ended"),
    ("logs.entries", "sure & ~np.isin(log.ids, values)", "log.confirmed & ~np.isin(log.ids, log.value)"),
    ("logs.entries", "self.confirmed & (self.first_read == NEVER)", "self.first_read == NEVER"),
    ("logs.entries", "(log.value == NONE) | (log.find(log.value) < 0)", "log.find(log.value) < -1"),
    ("logs.entries", "(log.value == NONE) | (log.find(log.value) < 0)", "log.value == NONE"),
    ("logs.entries", "ours = value != NONE", "ours = value != 0"),
    ("logs.entries", "[self.value, self.ids[confirmed]]", "[self.value, -self.ids[confirmed]]"),
    ("logs.entries", "(offset[1:] != offset[:-1]) | (value[1:] != value[:-1])", "offset[1:] != offset[:-1]"),
    ("logs.entries", "(offset[1:] != offset[:-1]) | (value[1:] != value[:-1])", "True"),
    ("logs.entries", "(log.outcome == FAIL) & (log.first_read != NEVER)", "log.outcome == FAIL"),
    ("logs.entries", "(log.outcome == FAIL) & (log.first_read != NEVER)", "(log.outcome == 9)"),
    ("logs.entries", "& ~way.last[:-1]", ""),
    ("logs.entries", "& (way.goes_on[:-1] >= 0)", ""),
    ("logs.entries", "skips = np.flatnonzero(place > due)", "skips = np.flatnonzero(offset > after)"),
    ("logs.entries", "back = np.flatnonzero(offset < after)", "back = np.flatnonzero(offset < after - 1)"),
    ("logs.entries", "np.where(begun >= 0, begun, log.seeks)]", "log.seeks]"),
    ("logs.entries", "once = first[count == 1]", "once = first"),
    ("logs.entries", "(process[1:] == process[:-1]) & (places[1:] < places[:-1])", "places[1:] < places[:-1]"),
    ("logs.entries", "order = np.lexsort((asked, process))", "order = np.lexsort((places, process))"),
    ("logs.entries", "until[way.last] = _ends(log, way.process[way.last])", "pass"),
    ("logs.entries", "moved[1:] |= goes_on[1:] != goes_on[:-1]", "moved[1:] = True"),
    ("logs.entries", "sure = np.append(log.confirmed, False)[at]", "sure = at < -1"),
    ("logs.entries", "np.minimum.accumulate(since[::-1])[::-1]", "since"),
    ("logs.entries", "confirmed = log.confirmed & (log.first_read > log.ended)", "confirmed = log.confirmed"),
    ("logs.transactions", "value[0][:1] in ([SEND], [POLL])", "True"),
    ("logs.transactions", "isinstance(value, list) and ", "True or "),
    ("logs.transactions", "[*ends.tolist(), *open_.tolist()]", "ends.tolist()"),
    ("logs.transactions", "rebalanced=moved", "rebalanced=()"),
    ("logs.transactions", "or offset < 0", ""),
    ("logs.versions", "return one.ok or (", "return True or ("),
    ("logs.versions", "one.type is INFO and any(", "any("),
    ("logs.versions", "if sent or kind == POLL else ()", "if sent else ()"),
    ("logs.versions", "if sent or kind == POLL else ()", ""),
    ("logs.versions", "if offsets[value] == 1", "if offsets[value] > 1"),
    ("logs.versions", "if len(values) > 1:", "if len(values) > 2:"),
    ("logs.versions", "if len(at) > 1:", "if len(at) > 2:"),
    ("logs.versions", "        if one.ok:\n", "        if True:\n"),
    ("logs.positions", "if verb == POLL and key in one.rebalanced:", "if False:"),
    ("logs.positions", "if one.type is not FAIL:", "if True:"),
    ("logs.positions", "if one.ok:  # what", "if True:  # what"),
    ("logs.positions", "for key, pairs in one.polls.items() if pairs}", "for key in one.polls}"),
    ("logs.positions", "if not (one.ok or one.type is INFO):", "if False:"),
    ("logs.positions", "if not (one.ok or one.type is INFO):", "if not one.ok:"),
    ("logs.positions", "for key, one in at.items() if key in assignment.keys}", "for key, one in at.items()}"),
    ("logs.positions", "for key, one in at.items() if key in assignment.keys}", "for key, one in ()}"),
    ("logs.positions", "order.by_value[before] + 1 :", "order.by_value[before] :"),
    ("logs.visibility", "if one.type is not FAIL or value not in found[key]:", "if True:"),
    ("logs.visibility", "if one.type is not FAIL or value not in found[key]:", "if one.type is not FAIL:"),
    ("logs.visibility", "for key, value in _polled(one) if one.ok else ():", "for key, value in _polled(one):"),
    ("logs.visibility", "not committed(writer, seen)", "False"),
    ("logs.visibility", "lasts[value] > bound", "False"),
    ("logs.visibility", "if value not in sent.get(key, {}) and", "if"),
    ("logs.visibility", "waiting.get(key, {}).pop(value, None)", "pass"),
    ("logs.visibility", "for _, value in pairs if value not in polled[key]}", "for _, value in pairs}"),
    ("logs.visibility", "if not one.ok or one.f", "if one.f"),
    ("logs.lag", "            continue\n", "            pass\n"),
    ("logs.lag", 'if one.f == "assign" else ()', ""),
    ("logs.lag", "before.get(key, -1)", "-1"),
    ("logs.lag", "max(mine.get(key, -1), offset)", "offset"),
    ("logs.lag", "bisect_left(offsets, offset + 1)", "bisect_left(offsets, offset)"),
    ("logs.lag", "if one.type is not FAIL:", "if True:"),
    ("logs.cycles", '("G0-realtime", ww, [ww, time]),', ""),
    ("logs.cycles", '("G1c-realtime", wr, [ww, wr, time]),', ""),
    ("logs.cycles", '("G1c", wr, [ww, wr]),', ""),
    ("logs.cycles", "if ww_deps else [{} for _ in nodes]", ""),
    ("logs.cycles", "orders if ww_deps else {}", "orders"),
    ("logs.cycles", "        elif nodes[at].ok:", "        else:"),
    ("logs.cycles", "best.index(max(best))", "best.index(min(best))"),
]  # fmt: skip
OBJECTS = ("counter", "set", "set-full", "total-queue", "unique-ids")
LOGS = tuple(
    f"logs.{part}" for part in ("transactions", "versions", "positions", "visibility", "lag", "cycles", "entries")
)
HELPERS = ("columns", "faults", "objects", *LOGS)
USERS = {"columns": ("messages", "order"), "faults": ("earned", "availability"), "objects": OBJECTS}
USERS |= dict.fromkeys(LOGS, ("streams",))


@cache
def compiled(source: str, module: str) -> CodeType:
    """Of a mutant's chain all modules but one are as in every other."""
    return compile(source, f"<mutant of {module}>", "exec")


def mutant(name: str, module: str, old: str, new: str) -> Any:
    """The class of the checker `name`, with a text replaced in the source of a module of `checkers`."""
    checker = find(CHECKERS, name)
    chain = [*(f"checkers.{helper}" for helper in HELPERS), checker.__module__]
    saved = {part: importlib.import_module(part) for part in chain}
    try:
        for part in chain:
            source = inspect.getsource(saved[part])
            if part == f"checkers.{module}":
                assert old in source, f"{module} has no {old!r} any more"
                source = source.replace(old, new)
            changed = ModuleType(part)
            sys.modules[part] = changed
            exec(compiled(source, part), changed.__dict__)
        return getattr(sys.modules[checker.__module__], checker.__name__)
    finally:
        sys.modules.update(saved)


def literal_tests(tests: ModuleType) -> Iterator[Any]:
    """Calls of each literal test of a module, with each of its parameters."""
    for name, test in list(vars(tests).items()):
        if name.startswith("test_") and not hasattr(test, "hypothesis") and "worth_something" not in name:
            marks = getattr(test, "pytestmark", [])
            if not marks:
                yield test
            for mark in marks:
                names, values = mark.args
                for value in values:
                    yield lambda test=test, names=names, value=value: test(
                        **({names: value} if isinstance(names, str) else dict(zip(names, value, strict=True)))
                    )


def passes(name: str, checker: Any) -> bool:
    with patch.object(TESTS[name], checker.__name__, checker):
        return all_pass(name, list(literal_tests(TESTS[name])))


@pytest.mark.parametrize("name", TESTS)
def test_unmutated_they_pass(name: str) -> None:
    assert len(list(literal_tests(TESTS[name]))) > 4
    assert passes(name, mutant(name, "none", "", ""))


@pytest.mark.parametrize(("module", "old", "new"), MUTATIONS)
def test_a_broken_rule_is_noticed(module: str, old: str, new: str) -> None:
    # every mutant is made, so that none is "noticed" only because its text is gone
    mutants = {name: mutant(name, module, old, new) for name in USERS.get(module, (module.replace("_", "-"),))}
    assert not all(passes(name, checker) for name, checker in mutants.items())
