"""A lint for code that a simulated run passes through: nothing there may order, draw or time by chance.

It reads source, and knows no types beyond what a file says itself: a set is recognised where it is built, annotated or
assigned. So it has no false alarms to speak of and may miss something; running a seed under two values of
PYTHONHASHSEED, which other tests do, is the other half.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

CLOCK = "reads or waits on the machine's clock: take the time from the run's clock"
CHANCE = "draws from a source that no seed controls: take a stream keyed by the seed"
THREAD = "runs where the operating system decides the order"
ADDRESS = "orders by memory address: asyncio keeps these tasks in a set"
HASH = "differs from process to process: order and name things by what they are"
SET = "takes elements in the order of their hashes: sort them, or keep a dict"

# Imports that are wrong in themselves.
MODULES = {
    "_thread": THREAD,
    "concurrent": THREAD,
    "multiprocessing": THREAD,
    "secrets": CHANCE,
    "threading": THREAD,
    "uuid": CHANCE,
}
# What is wrong to use, by its full name; a name that ends in "." stands for all that a module holds.
NAMES = {
    "asyncio.all_tasks": ADDRESS,
    "asyncio.as_completed": ADDRESS,
    "asyncio.TaskGroup": ADDRESS,
    "asyncio.to_thread": THREAD,
    "asyncio.wait": ADDRESS,
    "datetime.date.today": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "numpy.random.": CHANCE,
    "os.getrandom": CHANCE,
    "os.urandom": CHANCE,
    "random.": CHANCE,
    "time.": CLOCK,
    "weakref.WeakSet": ADDRESS,
}
# Of those, what is right when it is given a seed.
SEEDED = {
    "numpy.random.default_rng",
    "numpy.random.MT19937",
    "numpy.random.PCG64",
    "numpy.random.PCG64DXSM",
    "numpy.random.Philox",
    "numpy.random.RandomState",
    "numpy.random.SeedSequence",
    "numpy.random.SFC64",
    "random.Random",
}
HARMLESS = {"numpy.random.BitGenerator", "numpy.random.Generator", "time.struct_time"}

SET_TYPES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"}
SET_METHODS = {"copy", "difference", "intersection", "symmetric_difference", "union"}
# Calls whose result shows the order of what they are given, and those whose result does not.
ORDERED_CALLS = {"enumerate", "filter", "iter", "list", "map", "next", "repr", "reversed", "str", "tuple", "zip"}
ORDERED_METHODS = {"chain", "extend", "extendleft", "from_iterable", "fromkeys", "join", "writelines"}
UNORDERED_CALLS = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Finding(NamedTuple):
    """Something that chance could reach: where, what (a full name; "set" for the order of a set), and why not."""

    file: str
    line: int
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name} {self.why}"


def lint(sources: Mapping[str, str]) -> list[Finding]:
    """All findings in some files (path to source), by file and line. What one declares a set is one in all."""
    trees = {file: ast.parse(source, file) for file, source in sources.items()}
    sets: set[str] = set()
    others: set[str] = set()
    for tree in trees.values():
        for name, is_set in _declared_attributes(tree):
            (sets if is_set else others).add(name)
    found: list[Finding] = []
    for file, tree in trees.items():
        linter = _Linter(file, _imports(tree), frozenset(sets - others))
        linter.visit(tree)
        found += linter.found
    return sorted(found)


def _imports(tree: ast.Module) -> dict[str, str]:
    """What the names that a file imports stand for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                names[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _is_set_type(annotation: ast.expr | None) -> bool:
    """Whether an annotation says set: `set[int]`, `frozenset`, `AbstractSet[str] | None`, and the same in quotes."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _is_set_type(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _is_set_type(annotation.value)
    if isinstance(annotation, ast.Attribute):
        return annotation.attr in SET_TYPES
    return isinstance(annotation, ast.Name) and annotation.id in SET_TYPES


def _builds_set(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    )


def _declared_attributes(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Attributes as classes declare them, or methods first assign them on self: (name, whether it is a set)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield line.target.id, _is_set_type(line.annotation)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target.attr, _is_set_type(node.annotation)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and _builds_set(node.value):
                    yield target.attr, True


@dataclass
class _Scope:
    bound: set[str]
    sets: set[str]


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module or function, without those of the functions and classes inside it."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(node))


class _Linter(ast.NodeVisitor):
    def __init__(self, file: str, imports: Mapping[str, str], set_attributes: frozenset[str]) -> None:
        self.file = file
        self.imports = imports
        self.set_attributes = set_attributes
        self.scopes: list[_Scope] = []
        self.unordered: set[ast.AST] = set()  # comprehensions whose order nobody sees
        self.found: list[Finding] = []

    def report(self, node: ast.expr | ast.stmt, name: str, why: str) -> None:
        self.found.append(Finding(self.file, node.lineno, name, why))

    # Scopes: which names are bound where, and which of them are sets.

    def visit_Module(self, node: ast.Module) -> None:
        self.in_scope(node, [])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.function(node)

    def function(self, node: Function) -> None:
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        self.in_scope(node, [argument for argument in every if argument])

    def in_scope(self, node: ast.AST, arguments: Iterable[ast.arg]) -> None:
        scope = _Scope(set(), set())
        self.scopes.append(scope)
        for argument in arguments:
            scope.bound.add(argument.arg)
            if _is_set_type(argument.annotation):
                scope.sets.add(argument.arg)
        own = list(_own_nodes(node))
        values: dict[str, list[ast.expr]] = {}
        for child in own:
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                scope.bound.add(child.id)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scope.bound.add(child.name)
            if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                if _is_set_type(child.annotation):
                    scope.sets.add(child.target.id)
            elif isinstance(child, ast.Assign):
                for target in child.targets:
                    if isinstance(target, ast.Name):
                        values.setdefault(target.id, []).append(child.value)
        # A name is a set where all that is assigned to it is; what it is assigned may be such a name itself.
        growing = True
        while growing:
            more = {name for name, given in values.items() if all(map(self.is_set, given))} - scope.sets
            scope.sets |= more
            growing = bool(more)
        self.generic_visit(node)
        self.scopes.pop()

    def is_builtin(self, name: str) -> bool:
        return name not in self.imports and not any(name in scope.bound for scope in self.scopes)

    # Names.

    def full_name(self, node: ast.expr) -> str | None:
        """The full name of what an expression refers to through an import: `np.random.choice` is numpy's."""
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return f"{base}.{node.attr}" if base else None
        return self.imports.get(node.id) if isinstance(node, ast.Name) else None

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if why := MODULES.get(alias.name.split(".")[0]):
                self.report(node, alias.name, why)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level and (why := MODULES.get((node.module or "").split(".")[0])):
            self.report(node, node.module or "", why)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and node.id in ("hash", "id") and self.is_builtin(node.id):
            self.report(node, node.id, HASH)
        self.check_name(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "run_in_executor":
            self.report(node, node.attr, THREAD)
        if not self.check_name(node):
            self.visit(node.value)

    def check_name(self, node: ast.Name | ast.Attribute) -> bool:
        """Report a name that is wrong to use; whether it is one that the rules know at all."""
        name = self.full_name(node) or ""
        rules = [rule for rule in NAMES if name == rule or (rule.endswith(".") and f"{name}.".startswith(rule))]
        if not rules:
            return False
        # A class that takes a seed may be named, as in an annotation; visit_Call sees to how it is called.
        if name not in SEEDED and name not in HARMLESS and f"{name}." not in NAMES:
            self.report(node, name, NAMES[rules[0]])
        return True

    # Sets.

    def is_set(self, node: ast.expr | None) -> bool:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                return node.func.id in ("set", "frozenset") and self.is_builtin(node.func.id)
            return (
                isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS and self.is_set(node.func.value)
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub):
            return any(self.is_set(side) or _is_view(side) for side in (node.left, node.right))
        if isinstance(node, ast.IfExp):
            return self.is_set(node.body) or self.is_set(node.orelse)
        if isinstance(node, ast.NamedExpr):
            return self.is_set(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr in self.set_attributes and not self.full_name(node)
        if isinstance(node, ast.Name):
            scope = next((scope for scope in reversed(self.scopes) if node.id in scope.bound), None)
            return scope is not None and node.id in scope.sets
        return isinstance(node, ast.Set | ast.SetComp)

    def exposes(self, node: ast.expr) -> None:
        """Report an expression whose order is about to matter, if it is a set."""
        if self.is_set(node):
            self.report(node, "set", SET)

    def visit_For(self, node: ast.For) -> None:
        self.exposes(node.iter)
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.exposes(node.value)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        if node not in self.unordered:
            self.exposes(node.value)
        self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        self.exposes(node.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        several = (target for target in node.targets if isinstance(target, ast.Tuple | ast.List))
        if any(len(target.elts) > 1 for target in several):
            self.exposes(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self.unordered.update(node.elts)
        self.generic_visit(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self.comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node)

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        if node not in self.unordered:
            for part in node.generators:
                self.exposes(part.iter)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.full_name(node.func)
        if name in SEEDED and not node.args and not node.keywords:
            self.report(node, f"{name}()", CHANCE)
        if isinstance(node.func, ast.Name) and self.is_builtin(node.func.id):
            # With a key, those that compare equal stay in the order in which they came.
            key = any(keyword.arg == "key" for keyword in node.keywords)
            if node.func.id in ORDERED_CALLS or (node.func.id in ("sorted", "min", "max") and key):
                for argument in node.args:
                    self.exposes(argument)
            elif node.func.id in UNORDERED_CALLS:
                self.unordered.update(node.args)
        elif isinstance(node.func, ast.Attribute):
            if node.func.attr in ORDERED_METHODS:
                for argument in node.args:
                    self.exposes(argument)
            elif node.func.attr == "pop" and not node.args:
                self.exposes(node.func.value)
        self.generic_visit(node)


def _is_view(node: ast.expr) -> bool:
    """Whether an expression is the keys or items of a dict: with an operator between, they become a set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")
