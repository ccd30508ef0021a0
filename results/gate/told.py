"""What a gate said, for a terminal, a CI system, a comment under a change, and programs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from results.gate.rules import Finding, Status, conclude
from results.junit import clean

GLYPHS = {Status.OPEN: "✓", Status.SHUT: "✗", Status.UNDECIDED: "?"}


def head(run: str, findings: Sequence[Finding]) -> str:
    """In a line: "SHUT: nightly-12: 2 of 14 rules"."""
    status = conclude(findings)
    number = sum(one.status is status for one in findings)
    return f"{status.upper()}: {run}: {number} of {len(findings)} rules {status}"


def as_json(run: str, findings: Sequence[Finding]) -> dict[str, Any]:
    rules = [{"rule": one.rule, "status": str(one.status), "says": one.says} for one in findings]
    return {"suite_run": run, "status": str(conclude(findings)), "rules": rules}


def markdown(run: str, findings: Sequence[Finding]) -> str:
    """A heading and a table, those first that are not open."""
    worst_first = sorted(findings, key=lambda one: [Status.SHUT, Status.UNDECIDED, Status.OPEN].index(one.status))
    rows = [f"| {GLYPHS[one.status]} | {_cell(one.rule)} | {_cell(one.says)} |" for one in worst_first]
    return "\n".join([f"### {_cell(head(run, findings))}", "", "|  | rule | why |", "|---|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def junit(run: str, findings: Sequence[Finding], now: datetime) -> str:
    """A testcase a rule: a shut one is a failure, an undecided one an error."""
    suite = ET.Element(
        "testsuite",
        name=clean(f"gate {run}"),
        tests=str(len(findings)),
        failures=str(sum(one.status is Status.SHUT for one in findings)),
        errors=str(sum(one.status is Status.UNDECIDED for one in findings)),
        timestamp=now.isoformat(timespec="seconds"),
    )
    for one in findings:
        case = ET.SubElement(suite, "testcase", classname="splitbrain.gate", name=clean(one.rule))
        if one.status is Status.OPEN:
            ET.SubElement(case, "system-out").text = clean(one.says)
        else:
            kind = "failure" if one.status is Status.SHUT else "error"
            ET.SubElement(case, kind, message=clean(one.says), type=str(one.status))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"
