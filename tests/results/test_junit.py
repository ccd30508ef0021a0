from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from chaos.model.verdict import Anomaly, Result, Verdict
from results.junit import junit

WHEN = datetime(2026, 11, 20, 23, 59, 59, tzinfo=UTC)


def test_a_testcase_a_checker() -> None:
    results = [
        Result("messages", Verdict.INVALID, "1 lost", {"lost": 1}, (Anomaly("lost", "message 7 <gone>"),)),
        Result("earned", Verdict.UNKNOWN, "pause-1 did not bite"),
        Result("leaders", Verdict.NOT_APPLICABLE, "no terms"),
        Result("latency", Verdict.VALID, "no limit", {"confirms": 12}),
    ]
    assert junit("quorum", results, created=WHEN, seconds=61.5) == (
        """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="quorum" tests="4" failures="1" errors="1" skipped="1" timestamp="2026-11-20T23:59:59+00:00" \
time="61.500">
    <testcase classname="splitbrain.quorum" name="messages">
      <failure message="1 lost" type="messages.lost">lost: message 7 &lt;gone&gt;</failure>
      <system-out>lost: 1</system-out>
    </testcase>
    <testcase classname="splitbrain.quorum" name="earned">
      <error message="pause-1 did not bite" type="unknown" />
    </testcase>
    <testcase classname="splitbrain.quorum" name="leaders">
      <skipped message="no terms" />
    </testcase>
    <testcase classname="splitbrain.quorum" name="latency">
      <system-out>confirms: 12</system-out>
    </testcase>
  </testsuite>
</testsuites>
"""
    )


@given(st.text(), st.text(), st.text())
def test_whatever_a_broker_said_it_is_xml(name: str, reason: str, message: str) -> None:
    result = Result(name, Verdict.INVALID, reason, {message: 1}, (Anomaly("x", message),))
    case = ET.fromstring(junit(name, [result], created=WHEN, seconds=0).encode()).find(".//testcase")
    assert case is not None
    assert [child.tag for child in case] == ["failure", "system-out"]
