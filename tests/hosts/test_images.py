"""Images: when one is rebuilt, where its packages come from, and what is said when there can be none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from chaos.model.errors import SplitbrainError
from clusters.images import build


def test_what_goes_in_decides_whether_it_is_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    first = build.digest(tmp_path, "debian:trixie-slim")
    assert build.digest(tmp_path, "debian:trixie-slim") == first
    assert build.digest(tmp_path, "debian:bookworm-slim") != first
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    assert build.digest(tmp_path, "debian:trixie-slim") != first


@pytest.mark.parametrize(
    ("files", "address"),
    [
        ({}, "http://deb.debian.org/debian"),
        ({"sources.list": "# deb http://old/debian x\ndeb [arch=amd64] http://a.example/debian sid main"}, "http://a.example/debian"),
        (
            {
                "sources.list.d/a.sources": "Types: deb\nURIs: https://vendor.example/apt\nSuites: x\n",
                "sources.list.d/b.sources": "Types: deb\nURIs: http://b.example/debian-security\n\n"
                "Types: deb\nURIs: http://b.example/mirror/debian/\n",
            },
            "http://b.example/mirror/debian/",
        ),
        ({"sources.list": "deb http://archive.ubuntu.com/ubuntu noble main"}, "http://deb.debian.org/debian"),
    ],
)  # fmt: skip
def test_the_mirror_is_this_machines_own_where_it_has_debian(
    tmp_path: Path, files: dict[str, str], address: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert build.mirror(tmp_path) == address


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Locks of real builds are none of ours."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


class Engine:
    """An engine with these images, whose registry does not answer and whose build says these messages."""

    def __init__(self, images: dict[str, dict[str, str]], messages: list[dict[str, str]]) -> None:
        self.images, self.messages = images, messages
        self.built: dict[str, Any] | None = None
        self.api = self

    def inspect_image(self, name: str) -> dict[str, Any]:
        if name not in self.images:
            raise ImageNotFound(f"no such image: {name}")
        return {"Id": f"sha256:{name}", "Config": {"Labels": self.images[name]}}

    def pull(self, name: str) -> None:
        raise APIError(f"no route to the registry of {name}")

    def build(self, **options: Any) -> Iterator[dict[str, str]]:
        self.built = options
        self.images[options["tag"]] = options["labels"]
        yield from self.messages


def ensure(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> str:
    monkeypatch.setattr(build, "engine", lambda timeout=60: engine)
    monkeypatch.setattr("shutil.which", lambda name: None)
    return build.ensure("rabbitmq", "splitbrain/rabbitmq:4.0", "debian:trixie-slim", lambda line: None)


def test_an_image_is_built_once_on_the_base_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"splitbrain/debian:trixie": {}}, [{"stream": "Step 1/9"}])
    assert ensure(monkeypatch, engine) == "sha256:splitbrain/rabbitmq:4.0"
    assert engine.built is not None
    assert engine.built["buildargs"]["BASE"] == "splitbrain/debian:trixie"
    engine.built = None
    ensure(monkeypatch, engine)
    assert engine.built is None
    engine.images["splitbrain/rabbitmq:4.0"] = {build.HASH: "of an older Dockerfile"}
    ensure(monkeypatch, engine)
    assert engine.built is not None


def test_of_two_that_lack_an_image_one_builds_it_and_the_other_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"debian:trixie-slim": {}}, [])
    first, looked = threading.Event(), threading.Event()
    built: list[str] = []

    class Slow(Engine):
        def inspect_image(self, name: str) -> dict[str, Any]:
            looked.set()
            return engine.inspect_image(name)

        def build(self, **options: Any) -> Iterator[dict[str, str]]:
            built.append(threading.current_thread().name)
            first.set()
            looked.clear()
            assert looked.wait(60), "the other came meanwhile"
            yield from engine.build(**options)

    monkeypatch.setattr(build, "engine", lambda timeout=60: Slow({}, []))
    monkeypatch.setattr("shutil.which", lambda name: None)
    ids: list[str] = []

    def lacks() -> None:
        ids.append(build.ensure("rabbitmq", "splitbrain/rabbitmq:4.0", "debian:trixie-slim", lambda line: None))

    threads = [threading.Thread(target=lacks) for _ in range(2)]
    threads[0].start()
    assert first.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert (ids, len(built)) == (["sha256:splitbrain/rabbitmq:4.0"] * 2, 1)


def test_a_vendors_image_that_no_registry_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "engine", lambda timeout=60: Engine({}, []))
    with pytest.raises(SplitbrainError) as raised:
        build.ensure("blazingmq", "splitbrain/blazingmq:1", "ghcr.io/acme/broker:v1", print)
    assert str(raised.value) == (
        "no base image ghcr.io/acme/broker:v1: it is not here, and no registry gives it (no route to the registry of "
        "ghcr.io/acme/broker:v1); docker load it, or name an image of your own with --image"
    )


def test_no_base_and_nothing_to_make_one_with(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SplitbrainError) as raised:
        ensure(monkeypatch, Engine({}, []))
    assert str(raised.value) == (
        "no base image debian:trixie-slim: no registry answers (no route to the registry of debian:trixie-slim), and "
        "there is no mmdebstrap to make one with; apt-get install mmdebstrap (as root), or docker load an image "
        "debian:trixie-slim"
    )


def test_a_build_that_is_given_up_ends_at_its_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [{"stream": f"line {number}\n"} for number in range(50)]
    engine = Engine({"debian:trixie-slim": {}}, messages)
    asked = iter([False, False, True])
    monkeypatch.setattr(build, "engine", lambda timeout=60: engine)
    with pytest.raises(SplitbrainError, match="given up") as raised:
        build.ensure("rabbitmq", "splitbrain/rabbitmq:4.0", "debian:trixie-slim", print, lambda: next(asked))
    assert raised.value.tail == ()


def test_a_command_that_is_given_up_is_terminated_and_one_that_fails_says_why(tmp_path: Path) -> None:
    said = build._run(
        ["sh", "-c", "trap 'echo cleaned up; exit 1' TERM; sleep 60 & wait"], tmp_path / "log", lambda: True
    )
    assert said == ["cleaned up"]
    assert build._run(["sh", "-c", "echo no; exit 3"], tmp_path / "log", lambda: False) == ["no"]
    assert build._run(["true"], tmp_path / "log", lambda: False) is None


def test_a_build_that_fails_shows_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [{"stream": f"line {number}\n"} for number in range(50)] + [{"error": "apt-get returned 100"}]
    with pytest.raises(SplitbrainError) as raised:
        ensure(monkeypatch, Engine({"debian:trixie-slim": {}}, messages))
    assert str(raised.value) == "image splitbrain/rabbitmq:4.0 could not be built: apt-get returned 100"
    assert raised.value.tail[-2:] == ("line 49", "apt-get returned 100")
    assert len(raised.value.tail) == 30
