"""tests/conftest.py, run on small suites of its own."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import docker  # noqa: F401 - imported before the suites below run in this process, which import it for themselves
import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

SUITE = """
import pytest

@pytest.mark.docker
def test_container():
    pass

@pytest.mark.docker
def test_no_image():
    pytest.skip("no image")

def test_plain():
    pass

def test_elsewhere():
    pytest.skip("not a container test")

@pytest.mark.docker
@pytest.mark.xfail
def test_known_to_fail():
    assert False
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini("[pytest]\nmarkers =\n    docker: needs an engine\n")
    pytester.makepyfile(test_suite=SUITE)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    monkeypatch.delenv("SPLITBRAIN_REQUIRE", raising=False)
    return pytester


@pytest.fixture
def engine(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine that answers what the client asks of it at first, and nothing else."""

    class Engine(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"OK" if self.path.endswith("/_ping") else b'{"ApiVersion": "1.41"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


def test_without_an_engine_container_tests_are_skipped_and_listed(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess()
    assert result.ret == 0
    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines(
        [
            "*= tests left out: 3 =*",
            "docker: test_suite.py::test_container: no Docker engine answers (*",
            "docker: test_suite.py::test_no_image: no Docker engine answers (*",
            "docker: test_suite.py::test_known_to_fail: no Docker engine answers (*",
        ]
    )
    result.stdout.no_fnmatch_line("*test_elsewhere: *")


def test_where_docker_is_required_a_skip_fails_the_session(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBRAIN_REQUIRE", "docker")
    result = suite.runpytest_inprocess()
    assert result.ret == 1
    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines(["SPLITBRAIN_REQUIRE=docker: a skip is a failure"])


@pytest.mark.usefixtures("engine")
def test_with_an_engine_container_tests_run(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess()
    assert result.ret == 0
    result.assert_outcomes(passed=2, skipped=2, xfailed=1)
    result.stdout.fnmatch_lines(["*= tests left out: 1 =*", "docker: test_suite.py::test_no_image: no image"])


@pytest.mark.usefixtures("engine")
def test_where_docker_is_required_a_skip_for_another_reason_fails_too(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBRAIN_REQUIRE", "docker")
    assert suite.runpytest_inprocess().ret == 1


@pytest.mark.usefixtures("engine")
def test_where_docker_is_required_and_nothing_skipped_all_is_well(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBRAIN_REQUIRE", "docker")
    result = suite.runpytest_inprocess("-k", "test_container or test_known_to_fail or test_elsewhere")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*tests left out*")


def test_a_session_without_container_tests_lists_nothing(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBRAIN_REQUIRE", "docker")
    result = suite.runpytest_inprocess("-m", "not docker")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*tests left out*")


def test_a_folder_called_docker_marks_nothing(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITBRAIN_REQUIRE", "docker")
    folder = suite.mkpydir("docker")
    (folder / "test_pure.py").write_text("import pytest\n\ndef test_pure():\n    pytest.skip('another reason')\n")
    result = suite.runpytest_inprocess("docker", "--import-mode=importlib")
    assert result.ret == 0


def test_a_requirement_that_does_not_exist_is_refused(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITBRAIN_REQUIRE", "dokcer")
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*SPLITBRAIN_REQUIRE: dokcer is none of docker, spark"])
