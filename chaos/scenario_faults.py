"""Faults that a scenario lists one by one, as [[fault]] tables: what shrinking leaves, or what a person thought up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from chaos.model import registry
from chaos.model.errors import did_you_mean
from chaos.model.schedule import Fault
from chaos.model.settings import BadKey, Setting, choice, format_duration, integer, optional, resolve, text
from nemesis.base import Nemesis, View
from nemesis.targets import ROLES
from nemesis.timing import LOG_LINE, TRIGGERS, at_least, pattern

_NONE = TRIGGERS[0]

SETTINGS = (
    Setting("id", text, "", "what to call it; the nemesis and a number where nothing is said"),
    Setting("kind", text, "", "which of the nemesis's kinds, where it has several"),
    Setting("at", at_least(0), "0s", "how long after the work has begun, or after the trigger"),
    Setting("for", at_least(1), "5s", "how long it is in force"),
    Setting("target", text, "one", 'whom: a role, or nodes such as "n1+n3"'),
    Setting("trigger", choice(*TRIGGERS), _NONE, "begin the next time that this happens"),
    Setting("line", optional(pattern), None, f"{LOG_LINE}: the regular expression that a line of a node's log matches"),
    Setting("after", at_least(0), "0s", "with a trigger: from when on it is waited for"),
    Setting("draw", integer(low=0), 0, "the number from which a role that leaves a choice is resolved"),
)


def listed(parts: object, nodes: tuple[str, ...], span: int) -> Iterator[Fault]:
    """The faults in parsed [[fault]] tables (which are changed), for those nodes and `span` ns of work.

    Raises BadKey for one that cannot be carried out there.
    """
    if not isinstance(parts, list):
        raise BadKey("fault", "each fault is a table of its own; write [[fault]], with two brackets")
    met: Counter[str] = Counter()
    for number, part in enumerate(parts):
        where = f"fault[{number}]"
        if not isinstance(part, dict):
            raise BadKey(where, f"{part!r} is not a table; write [[fault]] and below it its keys")
        fault = _fault(part, where, met)
        if fault.trigger is None and fault.at >= span:
            at = format_duration(fault.at)
            raise BadKey(f"{where}.at", f"it begins {at} into the work, which is over after {format_duration(span)}")
        usable(fault, nodes, where)
        yield fault


def usable(fault: Fault, nodes: tuple[str, ...], where: str) -> None:
    """Raises BadKey, at `where` or a key of it, for a fault that cannot be carried out on these nodes."""
    for name in () if fault.target in ROLES else fault.target.split("+"):
        if name not in nodes:
            raise BadKey(f"{where}.target", f"there is no node {name!r}; the nodes are {', '.join(nodes)}")
    nemesis: Nemesis = registry.find(registry.NEMESES, fault.nemesis)()
    try:
        nemesis.verbs(fault.args)
        hurts = nemesis.resolve(fault, View(nodes, nodes[0], nodes[0]))
    except KeyError as error:
        raise BadKey(f"{where}.args", f"{fault.nemesis!r} needs {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise BadKey(where, f"{fault.nemesis!r} cannot carry it out: {error}") from None
    if not hurts:
        raise BadKey(f"{where}.target", f"{fault.target!r} is nobody among {', '.join(nodes)}")


def written(fault: Fault) -> dict[str, Any]:
    """A fault as a [[fault]] table says it, without what goes without saying."""
    args = {key: value for key, value in fault.args.items() if value is not None}
    told: dict[str, Any] = {
        "id": fault.id,
        "nemesis": fault.nemesis,
        "kind": fault.kind,
        "at": format_duration(fault.at),
        "for": format_duration(fault.duration),
        "target": fault.target,
    }
    if fault.trigger is not None:
        told |= {"trigger": fault.trigger, "after": format_duration(fault.after)}
        told |= {"line": fault.line} if fault.line is not None else {}
    if fault.draw:
        told["draw"] = fault.draw
    return told | ({"args": args} if args else {})


def _fault(part: dict[str, Any], where: str, met: Counter[str]) -> Fault:
    name = part.pop("nemesis", None)
    known = registry.names(registry.NEMESES)
    if name is None:
        raise BadKey(f"{where}.nemesis", f"missing: known: {', '.join(known)}")
    if name not in known:
        raise BadKey(f"{where}.nemesis", f"no {name!r} among the nemeses; {did_you_mean(str(name), known)}")
    args = part.pop("args", {})
    if not isinstance(args, dict):
        raise BadKey(f"{where}.args", f"{args!r} is not a table; write args = {{ key = value }}")
    values = resolve(SETTINGS, part, where)
    met[name] += 1
    triggered = values["trigger"] != _NONE
    if values["after"] and not triggered:
        raise BadKey(f"{where}.after", "only with a trigger; the time without one is `at`")
    if (values["trigger"] == LOG_LINE) != (values["line"] is not None):
        raise BadKey(f"{where}.line", f"with trigger = {LOG_LINE!r}, and only with that, it says what is waited for")
    return Fault(
        id=values["id"] or f"{name}-{met[name]}",
        nemesis=name,
        kind=_kind(name, values["kind"], where),
        at=int(values["at"]),
        duration=int(values["for"]),
        target=values["target"],
        trigger=values["trigger"] if triggered else None,
        after=int(values["after"]),
        line=values["line"],
        draw=values["draw"],
        args=args,
    )


def _kind(nemesis: str, said: str, where: str) -> str:
    """Its kind, where the nemesis has several; its name, where it has not."""
    kinds = next((one for one in registry.find(registry.NEMESES, nemesis).settings if one.name == "kinds"), None)
    if kinds is None:
        if said not in ("", nemesis):
            raise BadKey(f"{where}.kind", f"{nemesis!r} has no kinds; take it out")
        return nemesis
    if not said:
        raise BadKey(f"{where}.kind", f"missing: {nemesis!r} has {', '.join(kinds.convert(kinds.default))}")
    try:
        kinds.convert((said,))
    except ValueError as error:
        raise BadKey(f"{where}.kind", str(error)) from None
    return said
