"""As much of S3 as Arrow asks for, in memory, on this machine: what is tested is how we use Arrow, not S3."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

XML = '<?xml version="1.0" encoding="UTF-8"?>'
WHEN = datetime(2026, 11, 21, tzinfo=UTC)


class Objects(ThreadingHTTPServer):
    """Objects by "bucket/key"; parts of those that are being uploaded by their upload."""

    daemon_threads = True

    def __init__(self, *buckets: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.buckets = buckets
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(*buckets: str) -> Iterator[Objects]:
    """A server with these buckets, empty."""
    with Objects(*buckets) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Objects

    def log_message(self, *said: object) -> None:
        pass

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        said = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return unquote(parts.path).strip("/"), said

    def _answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self, what: str) -> None:
        self._answer(404, f"{XML}<Error><Code>{what}</Code><Message>there is none</Message></Error>".encode())

    def _body(self) -> bytes:
        """What is sent, which may be in chunks twice: as HTTP has them, and in these as Amazon has them."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = _unchunked(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return _unchunked(io.BytesIO(body)) if self.headers.get("Content-Encoding") == "aws-chunked" else body

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, said = self._asked()
        bucket, _, key = path.partition("/")
        if bucket not in self.server.buckets:
            self._missing("NoSuchBucket")
        elif not key:
            self._answer(200, self._listed(bucket, said) if self.command == "GET" else b"")
        elif (found := self.server.objects.get(path)) is None:
            self._missing("NoSuchKey")
        else:
            same = {"Last_Modified": format_datetime(WHEN, usegmt=True), "ETag": f'"{hashlib.md5(found).hexdigest()}"'}
            span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if span is not None:
                first, last = int(span[1]), min(int(span[2]), len(found) - 1)
                of = f"bytes {first}-{last}/{len(found)}"
                self._answer(206, found[first : last + 1], Content_Range=of, **same)
            else:
                self._answer(200, found, Content_Length=str(len(found)), **same)

    def _listed(self, bucket: str, said: dict[str, str]) -> bytes:
        prefix, delimiter = said.get("prefix", ""), said.get("delimiter")
        keys = [path.partition("/")[2] for path in sorted(self.server.objects) if path.startswith(f"{bucket}/")]
        below: dict[str, None] = {}
        text = ""
        for key in (key for key in keys if key.startswith(prefix)):
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                below[f"{prefix}{head}{delimiter}"] = None
            else:
                size = len(self.server.objects[f"{bucket}/{key}"])
                text += f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                text += f"<LastModified>{WHEN:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
        text += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in below)
        many = text.count("<Key>") + len(below)
        head = f"<Name>{bucket}</Name><KeyCount>{many}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"{XML}<ListBucketResult>{head}{text}</ListBucketResult>".encode()

    def do_PUT(self) -> None:
        path, said = self._asked()
        body = self._body()
        if "uploadId" in said:
            self.server.parts[said["uploadId"]][int(said["partNumber"])] = body
        else:
            self.server.objects[path if not self.path.endswith("/") else f"{path}/"] = body
        self._answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')

    def do_POST(self) -> None:
        path, said = self._asked()
        body = self._body()
        if "uploads" in said:
            name = str(len(self.server.parts) + 1)
            self.server.parts[name] = {}
            told = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
        elif "uploadId" in said:
            parts = self.server.parts[said["uploadId"]]
            self.server.objects[path] = b"".join(parts[number] for number in sorted(parts))
            told = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
        else:  # several are deleted
            for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.server.objects.pop(f"{path}/{key}", None)
            told = "<DeleteResult></DeleteResult>"
        self._answer(200, f"{XML}{told}".encode())

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._asked()[0], None)
        self._answer(204)


def _unchunked(source: io.BufferedIOBase) -> bytes:
    body = b""
    while size := int(source.readline().split(b";")[0], 16):
        body += source.read(size)
        source.readline()
    while source.readline().strip():  # what trails, such as a checksum
        pass
    return body
