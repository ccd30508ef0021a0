"""What stands between a history and those who decide: break a rule in the source, and a test of its module fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from inspect import signature
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from checkers.linearizability.porcupine import build
from tests.checkers import test_linearizable
from tests.linearizability import test_from_history, test_planner, test_shrink, test_starts, test_units
from tests.linearizability.monitors.mutations import Mutant, all_pass, planted
from tests.linearizability.porcupine import test_build, test_visualise

PACKAGE = "checkers.linearizability"
# By module: who must notice.
TESTS = {
    f"{PACKAGE}.annotations": test_visualise,
    f"{PACKAGE}.from_history": test_from_history,
    f"{PACKAGE}.operations": test_from_history,
    f"{PACKAGE}.planner": test_planner,
    f"{PACKAGE}.shrink": test_shrink,
    f"{PACKAGE}.units": test_units,
    f"{PACKAGE}.starts": test_starts,
    f"{PACKAGE}.porcupine.build": test_build,
    "checkers.linearizable": test_linearizable,
}
MUTATIONS: dict[str, list[tuple[str, str]]] = {
    f"{PACKAGE}.annotations": [
        ("row(span.ops[-1]) if span.undone else last", "row(span.ops[-1])"),
        ("if span.bit is not False else", "if span.bit else"),
        ("int(np.searchsorted(history.index, op))", "op + 1"),
        ('side="right")) - 1', 'side="left")) - 1'),
        ("max(claim.row, int(", "min(claim.row, int("),
        ("if claim.key else", "if False else"),
        ('"" if claim.term is None else', '"" if True else'),
    ],
    f"{PACKAGE}.from_history": [
        # registers
        ("ops.is_(F.CAS) & ops.failed & ~ops.error()", "ops.is_(F.CAS) & ops.failed"),
        ("ops.is_(F.CAS) & ops.failed & ~ops.error()", "ops.failed & ~ops.error()"),
        ("    if refused_cas:", "    if True:"),
        ("= F.CAS_REFUSED, OK\n    ops.keep(~ops.failed & (", "= F.CAS_REFUSED, OK\n    ops.keep(("),
        ("FUSED, OK\n    ops.keep(~ops.failed & (ops.ok | ~ops.is_(F.READ)))", "FUSED, OK\n    ops.keep(~ops.failed)"),
        ('ops.first_bad(write & (ops.arg == NONE), "it writes nil")', "pass"),
        ("ops.out[read] = ops.numbers(ops.end[read])", "ops.out[read] = ops.numbers(ops.row[read])"),
        (" or pair[1] is None:", ":"),
        ("if not isinstance(pair, list) or len(pair) != 2", "if not isinstance(pair, list)"),
        ("        if ops.f[place] == F.CAS:\n", "        if True:\n"),
        ("ops.keep(~ops.is_(F.READ) | (ops.out != NONE))\n    write", "write"),
        ("(write & (ops.arg == start)) | (ops.is_(F.CAS) & (ops.out == start))).an", "write & (ops.arg == start)).an"),
        ("(write & (ops.arg == start)) | (ops.is_(F.CAS) & (ops.out == start))", "ops.is_(F.CAS) & (ops.out == start)"),
        ("column[column == start] = NONE", "pass"),
        ("models.MODELS[name](), {NONE: initial})", "models.MODELS[name]())"),
        # texts
        (
            "e(ops: Operations, name: str) -> Prepared:\n    ops.keep(~ops.failed & ",
            "e(ops: Operations, name: str) -> Prepared:\n    ops.keep(",
        ),
        ("Prepared:\n    ops.keep(~ops.failed & (ops.ok | ~ops.is_(F.READ)))", "Prepared:\n    ops.keep(~ops.failed)"),
        ("np.where(read, ops.end, ops.row))", "ops.row)"),
        ('NONE if read[place] and text == "" else', 'NONE if text == "" else'),
        ('NONE if read[place] and text == "" else', ""),
        ("{NONE: \"\"} | {number", "{number"),
        # transactions
        ("Mapping[str, Any] | None) -> Prepared:\n    ops.keep(~ops.failed)", "Mapping[str, Any] | None) -> Prepared:"),
        ("steps = got[place] if ok[place] and got[place] is not None else asked[place]", "steps = asked[place]"),
        ("steps = got[place] if ok[place] and got[place] is not None else asked[place]", "steps = got[place]"),
        ('r", register_, got[place]] if read[place] else ["w", register_, asked[place]', 'w", register_, asked[place]'),
        (" and len(step) == 3 else", " else"),
        ("(kind == \"write\" and step[2] is None)", "False"),
        ("if kind == \"write\" or (ok[place] and (step[2] is not None or initial is None)):", "if True:"),
        ("(step[2] is not None or initial is None)", "True"),
        ("ops.words.number(value)\n        for register, value", "NONE\n        for register, value"),
        ("np.where(ops.written(\"txn\"), ops.history.key.codes[ops.row], -1)", "ops.history.key.codes[ops.row]"),
        ("np.where(ops.written(\"txn\"), ops.history.key.codes[ops.row], -1)", "None"),
        # locks
        ("(ops.failed | np.array(", "(np.array("),
        ("answer is False for", "answer is None for"),
        ("ops.f[tried & ~refused] = F.ACQUIRE", "pass"),
        ("    ops.outcome[refused] = OK\n", ""),
        ("ops.outcome[refused] = OK\n    ops.keep(~ops.failed)", "ops.outcome[refused] = OK"),
        ("ops.out[held] = ops.history.value[ops.end[held]]", "pass"),
        # queues
        ("ops.failed & ops.error(*EMPTY)", "ops.failed"),
        ("ops.is_(F.TAKE) & ops.failed & ops.error(*EMPTY)", "ops.failed & ops.error(*EMPTY)"),
        ("ops.keep(empty | ~ops.failed)", "ops.keep(~ops.failed)"),
        ("    ops.outcome[empty] = OK\n", ""),
        ("ops.outcome[taken & ops.error(CORRUPT, FOREIGN)] = INFO", "pass"),
        ("ops.error(CORRUPT, FOREIGN)", "ops.error(CORRUPT)"),
        ("ops.error(CORRUPT, FOREIGN)", "ops.error(FOREIGN)"),
        ("ops.first_bad(put & (ops.arg == NONE), \"it puts no value\")", "pass"),
        ("    _published_once(ops)\n    drains", "    drains"),
        ("np.flatnonzero(ops.written(\"publish\"))", "np.flatnonzero(ops.is_(F.PUT))"),
        ("        if ops.outcome[place] != OK:\n", "        if False:\n"),
        ("[] if value is None else [value]", "[value]"),
        # sets
        ("ared:\n    ops.keep(~ops.failed & (ops.ok | ops.is_(F.ADD, F.REMOVE)))", "ared:\n    ops.keep(~ops.failed)"),
        ("ops.keep(~ops.failed & (ops.ok | ops.is_(F.ADD, F.REMOVE)))", "ops.keep(ops.ok | ops.is_(F.ADD, F.REMOVE))"),
        ("ops.keep(~ops.is_(F.READ) | np.array([value", "(~ops.is_(F.READ) | np.array([value"),
        ('ops.first_bad(~read & (ops.arg == NONE), "it names no member")', "pass"),
        ("        if not isinstance(answer, bool):\n", "        if False:\n"),
        ("ops.out[place] = int(answer)", "ops.out[place] = 1"),
        ("not isinstance(answer, list):\n            raise ops.bad(place,", "False:\n            raise ops.bad(place,"),
        ("tuple(sorted(ops.words", "tuple((ops.words"),
        # counters
        ("start = 0 if initial is None else initial", "start = 0"),
        ("initial is None else initial\n    ops.keep(~ops.failed & (", "initial is None else initial\n    ops.keep(("),
        ("ops.first_bad(np.isin(number, list(no_number))", "(np.isin(number, list(no_number))"),
        ("np.where(number[add] == NONE, 1, number[add])", "number[add]"),
        ('ops.arg[ops.written("decrement")] *= -1', "pass"),
        ("ops.keep(ops.is_(F.ADD) | (ops.out != NONE))", "pass"),
        # logs
        ("ops.keep(~ops.failed & (ops.ok | ops.is_(F.APPEND)))", "ops.keep(ops.ok | ops.is_(F.APPEND))"),
        ("ops.keep(~ops.failed & (ops.ok | ops.is_(F.APPEND)))", "ops.keep(~ops.failed)"),
        ('ops.first_bad(append & (ops.arg == NONE), "it appends no value")', "pass"),
        ("ops.history.value[ops.end[append]], NONE)", "ops.history.value[ops.row[append]], NONE)"),
        ("ops.out[~append] = ops.numbers(ops.end[~append])", "pass"),
        ("ops.arg[~append] = ops.history.value[ops.row[~append]]", "pass"),
        (" if append[place]:\n                ops.out[place] = answer[0]", " if append[place]:\n                pass"),
        ("ops.arg[place], ops.out[place] = answer[0], ops.words.number(answer[1])", "pass"),
        # others
        ("    if initial is not None:\n", "    if False:\n"),
        ("name = ALIASES.get(model, model)", "name = model"),
        ("{**ops.words.values, **(values or {})}", "{**(values or {})}"),
    ],
    f"{PACKAGE}.operations": [
        ("        if value is None:\n            return NONE\n", "        if value is None:\n            return 0\n"),
        ("sort_keys=True", "sort_keys=False"),
        ("elf.end >= 0, history.type[self.end], np.int8(INFO))", "elf.end >= 0, history.type[self.end], np.int8(OK))"),
        ("not texts or word.removeprefix", "word.removeprefix"),
        ('word.removeprefix(":") in texts', "word in texts"),
        ("((number == NONE) & (at >= 0)) | ", ""),
        (" | (number >= FIRST_WORD))", ")"),
        ("whole(value) and value < FIRST_WORD", "whole(value)"),
        ("known = self.ok & (end >= 0)", "known = end >= 0"),
        ("np.where(known | self.is_(F.CAS), self.out, NONE)", "np.where(known, self.out, NONE)"),
        ("np.where(known | self.is_(F.CAS), self.out, NONE)", "self.out"),
        ("ret=np.where(known, end, NEVER)", "ret=np.where(end >= 0, end, NEVER)"),
        ("key=np.searchsorted(different, codes)", "key=np.zeros(len(codes))"),
        ("coded(history.process[row], channel), -1)", "channel, -1)"),
        ("np.where(some, coded(history.process[row], channel), -1)", "coded(history.process[row], channel)"),
        ("type(value) is int and NONE < value < 2**63", "isinstance(value, int) and NONE < value < 2**63"),
        ("type(value) is int and NONE < value < 2**63", "type(value) is int"),
        ("NONE < value < 2**63", "NONE <= value < 2**63"),
        ("if len(values) > 1:", "if False:"),
        ("free = int(channel.max(initial=-1)) + 1", "free = 0"),
        ("np.minimum(new.ret, NEVER // room) * room + nth", "np.minimum(new.ret, NEVER // room) + nth"),
        ("new.call * room + nth", "new.call * room"),
        ("client = (history.process >= 0) & (history.type == INVOKE)", "client = (history.type == INVOKE)"),
        ("client = (history.process >= 0) & (history.type == INVOKE)", "client = (history.process >= 0)"),
        ("strange = client & ~known[codes] & ~aside[codes]", "strange = client & ~known[codes]"),
        ("    if strange.any():\n", "    if False:\n"),
        ("np.flatnonzero(client & known[codes])", "np.flatnonzero(client)"),
    ],
    f"{PACKAGE}.planner": [
        ("    if engine not in ENGINES:\n", "    if False:\n"),
        ("    if engine != PORCUPINE:\n", "    if True:\n"),
        ("        if engine == MONITOR:\n", "        if False:\n"),
        ("Decision(None, MONITOR, refused)", "Decision(None, MONITOR, '')"),
        ('asked.name == "register" and np.isin', "np.isin"),
        ('asked.name == "register" and np.isin(calls.f, (F.CAS, F.CAS_REFUSED)).any()', "False"),
        ("(F.CAS, F.CAS_REFUSED)", "(F.CAS,)"),
        ("timeout=timeout, memory=memory)", "timeout=2 * timeout, memory=memory)"),
        ("timeout=timeout, memory=memory)", "timeout=timeout, memory=2 * memory)"),
        ('"; ".join(filter(None, [refused, f"no search: {why}"]))', 'f"no search: {why}"'),
        ('if refused else found', "if False else found"),
        ('if model in ("key-value", "multi-register"):', "if False:"),
        ("    if model not in MODELS:\n", "    if False:\n"),
        ("        if asked.parameters != MODELS[model]().parameters:\n", "        if False:\n"),
        ("        if model == \"key-value\":\n", "        if False:\n"),
        ("    if len(blank):\n", "    if False:\n"),
        ("np.where(np.isin(calls.out, empty), NONE, calls.out)", "calls.out"),
        ("in_words(told.sentence, texts)", "told.sentence"),
    ],
    f"{PACKAGE}.shrink": [
        ("out=np.where(open_ & (early.f != F.CAS), NONE, early.out)", "out=np.where(open_, NONE, early.out)"),
        ("out=np.where(open_ & (early.f != F.CAS), NONE, early.out)", "out=early.out"),
        ("ret=np.where(open_, NEVER, early.ret)", "ret=early.ret"),
        ("end=np.where(open_, -1, early.end)", "end=early.end"),
        ("calls.call <= rank", "calls.call < rank"),
        ("early.ret > rank", "early.ret >= rank"),
        ("self._work -= len(decided)", "pass"),
        ("self._undecided -= answer is None", "pass"),
        ("self._work < 0 or self._tries < 0 or", "self._tries < 0 or"),
        ('self._model == "log" and len(gone)', "False"),
        ("not all(self._fail(one) for one in decided)", "not any(self._fail(one) for one in decided)"),
        ("shown = shown.select(np.flatnonzero(shown.ret > start))", "pass"),
        ("(left.call <= rank) & (left.ret > start)", "(left.ret > start)"),
        ("if len(near) and len(kept) and only(kept[:0]):", "if False:"),
        ("stays[unit[np.isin(rows, near)]] = True", "pass"),
        ("            self.excuse()\n", ""),
        ("for labels in (units, looks, units):", "for labels in (looks,):"),
        ("for labels in (units, looks, units):", "for labels in (units,):"),
        (" is None or len(left) == len(best.rows) or not self._fail(freed)", " is None or len(left) == len(best.rows)"),
        ("            if not len(near):\n                self.cut()\n", ""),
        ("elif until is None or not search.cut_at(until):", "elif until is None:"),
        ("if len(near) or len(search.best.rows) <= FEW or", "if len(near) or"),
        ("        later.begin()\n", ""),
    ],
    f"{PACKAGE}.units": [
        ("np.where(only, np.arange(len(calls)), KEPT)", "np.arange(len(calls))"),
        ("known, offset = _offsets(gone)\n", "known, offset = _offsets(calls)\n"),
        ("holes = np.unique(offset[known & (gone.key == key)])", "holes = np.unique(offset[known])"),
        ("(calls.f == f) & (calls.key == key) & (column != NONE)", "(calls.f == f) & (column != NONE)"),
        ("(calls.f == f) & (calls.key == key) & (column != NONE)", "(calls.f == f) & (calls.key == key)"),
        ("(calls.f == F.APPEND) & (calls.out != NONE)", "(calls.f == F.APPEND)"),
        ("lls.f == F.FETCH) & (calls.out != NONE) & (calls.ret != NEVER)", "lls.f == F.FETCH) & (calls.ret != NEVER)"),
        ("number, many = numbers(value[rows], objects(calls.key)[rows])", "number, many = numbers(value[rows])"),
        ("    if (calls.f == F.CAS_REFUSED).any():\n", "    if False:\n"),
        ('    if model == "key-value" and (', "    if False and ("),
        ("(calls.f == F.APPEND) | ((calls.f == F.READ) & (calls.out == NONE))).any()", "(calls.f == F.APPEND)).any()"),
        ("= F.APPEND) | ((calls.f == F.READ) & (calls.out == NONE))).any()", "= F.READ) & (calls.out == NONE)).any()"),
        ("    if not len(swaps):\n", "    if True:\n"),
        ("leads[max(a, b)] = min(a, b)", "pass"),
        ("np.where((calls.f == F.TAKE) & (calls.ret == NEVER), KEPT, label)", "label"),
        ("(same[1:] & (calls.ret[rows][:-1] > calls.call[rows][1:])).any() or ", ""),
        (" or (depth < 0).any():", ":"),
        ('ree = latest[np.searchsorted(calls.call, until, side="right")] < calls.call[acquire]', "ree = acquire >= 0"),
        ("= np.where(release >= 0, calls.ret[release], NEVER)", "= np.where(release >= 0, calls.call[release], NEVER)"),
        ("both = free & (release >= 0)", "both = free"),
        ("if (calls.f == F.READ).any():\n        return looks(calls, model)\n    return _labels(c", "return _labels(c"),
        ("(append & ~placed[label]) | ~once[label]", "~once[label]"),
        ("(append & ~placed[label]) | ~once[label]", "(append & ~placed[label])"),
        ("np.where((append & ~placed[label]) | ~once[label], KEPT, label)", "label"),
        ("calls = calls.select(np.flatnonzero(_log(calls, model) != KEPT))", "pass"),
        ("calls = _moved(calls, int(key), partial(_among, there))", "pass"),
        ("many = int(np.bincount(of, calls.f == F.PUT).max(initial=0)) + 1", "many = 0"),
        ('_spare_takes(calls) if model in ("fifo-queue", "bag") else None', "_spare_takes(calls)"),
    ],
    f"{PACKAGE}.starts": [
        ("calls.ret > rank", "calls.ret >= rank"),
        ("open_ = left.call <= rank", "open_ = left.call < rank"),
        ("np.where(open_ & (left.f != F.CAS), NONE, left.out)", "np.where(open_, NONE, left.out)"),
        ("np.where(open_ & (left.f != F.CAS), NONE, left.out)", "left.out"),
        ("np.where(open_, NEVER, left.ret)", "left.ret"),
        ("    if not len(left):\n", "    if False:\n"),
        ("[] if len(held) > MOST else", ""),
        ("left if number == NONE else", ""),
        ('F.ADD if model == "counter" else F.WRITE', "F.WRITE"),
        ("(left.f == F.READ) & (left.ret != NEVER)\n    swaps", "(left.f == F.READ)\n    swaps"),
        ("(left.f == F.CAS) | (left.f == F.CAS_REFUSED)", "(left.f == F.CAS)"),
        ("[*asked.tolist(), other + 1 if other < NEVER - 1 else -1]", "asked.tolist()"),
        ("left.arg.max(initial=0), left.out.max(initial=0)", "left.arg.max(initial=0)"),
        ("left.ret < left.call[first])", "left.ret < left.ret[first])"),
        ("(left.call <= left.ret[first])", "(left.call <= left.call[first])"),
        ("- int(maybe[maybe < 0].sum())", ""),
        ("highest - int(np.abs(maybe).sum())", "highest - int(maybe.sum())"),
        ("highest - int(np.abs(maybe).sum())", "highest"),
        ("else [0] * (MOST + 1)", "else [0]"),
    ],
    f"{PACKAGE}.porcupine.build": [
        ("model is None and os.access(SHIPPED, os.X_OK)", "model is None and os.access(SHIPPED, os.F_OK)"),
        ("        if kept:  # built while there was one\n", "        if False:\n"),
        ("    if not os.access(binary, os.X_OK):\n", "    if True:\n"),
        ("    if model is not None:\n        files.append", "    if False:\n        files.append"),
        ("        if version >= OLDEST:\n", "        if version > ():\n"),
        (' if not line.startswith("#")]', "]"),
        ('"CGO_ENABLED": "0", ', ""),
        ('"GOFLAGS": "", ', ""),
        ('"GOTOOLCHAIN": "local"', ""),
        ('            command.append(f"-overlay={overlay}")', "            pass"),
        ("        if done.returncode != 0:\n", "        if False:\n"),
    ],
    "checkers.linearizable": [
        ("turn Result(self.name, Verdict.UNKNOWN, str(why))\n", "turn Result(self.name, Verdict.INVALID, str(why))\n"),
        ("    if not len(calls):\n", "    if False:\n"),
        ("    if promise == AT_LEAST_ONCE:\n        odd", "    if False:\n        odd"),
        ("elif promise == AT_MOST_ONCE:", "elif False:"),
        ("if (strange := deliveries.unmarked(calls, marked)) is not None:", "if False:"),
        ("history.redelivered != 0)", "history.redelivered == 0)"),
        ("history.redelivered != 0)", "history.redelivered == 1)"),
        ("history.redelivered != 0)", "history.redelivered >= 0)"),
        ('{} if options["delivery_limit"] else drained', "drained"),
        ('engine=options["engine"]', "engine=planner.AUTO"),
        ('timeout=options["timeout"] / SECOND', "timeout=60.0"),
        ('memory=options["memory"]', "memory=2 << 30"),
        ("search_as=found.search_as", "search_as=None"),
        ("judged = replace(judged, shown=_anomaly(calls, shown, decision.engine))", "pass"),
        ("if decision.engine == planner.MONITOR else decide", ""),
        ("partial(decide, engine=planner.MONITOR) if decision.engine == planner.MONITOR else decide", "decide"),
        ("Verdict.INVALID if odd else VERDICTS[found.decision.valid]", "VERDICTS[found.decision.valid]"),
        ("    if told != AS_RECORDED:\n", "    if False:\n"),
        ("(history.redelivered >= 0).any()", "(history.redelivered > 0).any()"),
        ("else EXACTLY_ONCE\n\n\ndef _not_before", "else AT_MOST_ONCE\n\n\ndef _not_before"),
        ("        calls = _not_before(history, calls, stretch.before)\n", ""),
        ("    earlier = soonest < calls.call[seen]\n", "    earlier = soonest > calls.call[seen]\n"),
        ("    wide, known = len(history) + 1, calls.ret != NEVER\n", "    wide, known = 1, calls.ret != NEVER\n"),
        ("soonest[earlier] * wide + 1 + row[moved]", "soonest[earlier] * wide + 1"),
        ("soonest[earlier] * wide + 1 + row[moved]", "soonest[earlier] * wide + 1 + row[moved].max() - row[moved]"),
        ("rets[known] = np.searchsorted(ranks, ret)", "pass"),
        ("call=np.searchsorted(ranks, call), ret=rets).select(order)", "call=np.searchsorted(ranks, call), ret=rets)"),
        ("rows = rows[history.process[rows] == CONTROLLER]", "pass"),
        ("= F.PUT) & (calls.end >= 0) & (calls.end < done[queue])", "= F.PUT) & (calls.end >= 0) & (0 <= done[queue])"),
        (".PUT) & (calls.end >= 0) & (calls.end < done[queue])", ".PUT) & (calls.end >= 0) & (calls.end < done.max())"),
        ('history.rows("drain", OK)', 'history.rows("drain")'),
        ("(credit > done)", "(credit > -2)"),
        ("(credit > done)", "(took > done)"),
        (" & (published.home(at) == history.key.codes[took])", ""),
        ("late[:ANOMALIES_KEPT]", "late[:1]"),
        ("len(shown.window) <= SMALL", "True"),
        ("len(shown.window) <= SMALL", "False"),
        ("    if shown.stuck is not None:\n", "    if False:\n"),
        ("if op >= 0})", "})"),
        ("return json.loads(written)", "return written"),
        ("    except ValueError:\n        return written", "    except ValueError:\n        return None"),
    ],
}  # fmt: skip


def checks(tests: ModuleType) -> Iterator[Callable[[], None]]:
    """Calls of each test of a module, with each of its parameters; literal ones first."""
    found = [test for name, test in vars(tests).items() if name.startswith("test_") and not hasattr(test, "hypothesis")]
    found.sort(key=lambda test: hasattr(test, "pytestmark"))
    for test in found:
        rows = [_values(*mark.args) for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        for chosen in product(*rows):
            told = {name: value for row in chosen for name, value in row.items()}
            yield partial(_run, tests, test, told)


def _values(names: str | tuple[str, ...], values: Iterable[Any]) -> list[dict[str, Any]]:
    if isinstance(names, str):
        return [{names: value} for value in values]
    return [dict(zip(names, value, strict=True)) for value in values]


def _run(tests: ModuleType, test: Callable[..., None], told: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        fixtures: dict[str, Callable[[], Any]] = {
            "monkeypatch": lambda: patch,
            "searched": lambda: tests.searching(patch),
            "binary": build.worker,
            "machine": lambda: tests.Machine(Path(stack.enter_context(TemporaryDirectory())), patch),
            "tmp_path": lambda: Path(stack.enter_context(TemporaryDirectory())),
        }
        asked = [name for name in signature(test).parameters if name in fixtures]
        test(**told, **{name: fixtures[name]() for name in asked})


def passes(module: str) -> bool:
    return all_pass(module, list(checks(TESTS[module])))


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize("module", MUTATIONS)
def test_unmutated_they_pass(module: str) -> None:
    asked = list(checks(TESTS[module]))
    assert len(asked) > 4
    for check in asked:  # (so that the one that fails says why)
        check()


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize(
    "mutant",
    [Mutant(module, old, new, "") for module, changes in MUTATIONS.items() for old, new in changes],
    ids=str,
)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    with planted(mutant):
        assert not passes(mutant.module)
