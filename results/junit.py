"""A run's results as JUnit XML, which CI systems show: a testcase a checker."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import datetime

from chaos.model.verdict import Result, Verdict

# What XML 1.0 cannot hold, not even escaped (https://www.w3.org/TR/xml/#charsets).
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(name: str, results: Sequence[Result], *, created: datetime, seconds: float) -> str:
    """The document. An invalid result is a failure, an unknown one an error, one that is not applicable is skipped.

    `seconds` is the length of the run on its own clock.
    """
    suite = ET.Element(
        "testsuite",
        name=clean(name),
        tests=str(len(results)),
        failures=str(sum(result.verdict is Verdict.INVALID for result in results)),
        errors=str(sum(result.verdict is Verdict.UNKNOWN for result in results)),
        skipped=str(sum(result.verdict is Verdict.NOT_APPLICABLE for result in results)),
        timestamp=created.isoformat(timespec="seconds"),
        time=f"{seconds:.3f}",
    )
    for result in results:
        testcase = ET.SubElement(suite, "testcase", classname=f"splitbrain.{clean(name)}", name=clean(result.checker))
        evidence = "\n".join(f"{anomaly.kind}: {anomaly.message}" for anomaly in result.anomalies)
        match result.verdict:
            case Verdict.INVALID:
                kind = result.anomalies[0].kind if result.anomalies else "invalid"
                failure = ET.SubElement(
                    testcase, "failure", message=clean(result.reason), type=clean(f"{result.checker}.{kind}")
                )
                failure.text = clean(evidence)
            case Verdict.UNKNOWN:
                error = ET.SubElement(testcase, "error", message=clean(result.reason), type="unknown")
                error.text = clean(evidence)
            case Verdict.NOT_APPLICABLE:
                ET.SubElement(testcase, "skipped", message=clean(result.reason))
        if result.counts:
            counts = "\n".join(f"{key}: {value}" for key, value in result.counts.items())
            ET.SubElement(testcase, "system-out").text = clean(counts)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def clean(text: str) -> str:
    """Without what XML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)
