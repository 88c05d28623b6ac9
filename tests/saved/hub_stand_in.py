"""A stand-in for the Hugging Face Hub: an HTTP server with the routes that models need."""

import base64
import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

TOKEN = "hf_test"


class HubStandIn(BaseHTTPRequestHandler):
    """Repositories in memory: create, commit (files inline), list and download."""

    protocol_version = "HTTP/1.1"
    repositories: ClassVar[dict[str, dict[str, bytes]]] = {}
    private: ClassVar[dict[str, bool]] = {}

    def log_message(self, *arguments: Any) -> None:
        print(self.command, self.path, *arguments[2:3], file=sys.stderr)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value: object, status: int = 200) -> None:
        self.answer(json.dumps(value).encode(), status, Content_Type="application/json")

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_POST(self) -> None:
        body, path = self.body(), urlsplit(self.path).path
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer_json({"error": "Invalid username or password."}, 401)
        elif path == "/api/repos/create":
            request = json.loads(body)
            name = "/".join(filter(None, (request.get("organization"), request["name"])))
            self.repositories.setdefault(name, {})
            is_private = request.get("private") or request.get("visibility") == "private"
            self.private.setdefault(name, bool(is_private))
            self.answer_json({"url": f"{self.address()}/{name}", "name": name})
        elif path == "/api/validate-yaml":
            self.answer_json({"errors": [], "warnings": []})
        elif path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self.answer_json({"files": files})
        elif match := re.fullmatch(r"/api/models/(.+)/commit/main", path):
            self.change_files(self.repositories[match[1]], body)
            url = f"{self.address()}/{match[1]}/commit/{self.commit(match[1])}"
            self.answer_json({"commitUrl": url, "commitOid": self.commit(match[1])})
        else:
            self.answer_json({"error": f"no route {path}"}, 404)

    def change_files(self, files: dict[str, bytes], body: bytes) -> None:
        for entry in map(json.loads, body.splitlines()):
            if entry["key"] == "file":
                files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            elif entry["key"] == "deletedFile":
                del files[entry["value"]["path"]]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/main)?", path):
            if match[1] not in self.repositories:
                return self.answer_json({"error": "Repository not found"}, 404)
            files = [{"rfilename": name} for name in self.repositories[match[1]]]
            return self.answer_json(
                {"id": match[1], "modelId": match[1], "sha": self.commit(match[1]),
                 "private": False, "siblings": files, "tags": [], "downloads": 0}
            )  # fmt: skip
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+", path):
            entries = [
                {"type": "file", "path": name, "size": len(content), "oid": self.etag(content)}
                for name, content in self.repositories[match[1]].items()
            ]
            return self.answer_json(entries)
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            content = self.repositories.get(match[1], {}).get(match[2])
            if content is None:
                return self.answer(b"", 404, X_Error_Code="EntryNotFound")
            commit = self.commit(match[1])
            return self.answer(content, ETag=f'"{self.etag(content)}"', X_Repo_Commit=commit)
        return self.answer_json({"error": f"no route {path}"}, 404)

    do_HEAD = do_GET  # noqa: N815 - the base class names it

    def address(self) -> str:
        return f"http://{self.headers['Host']}"

    def commit(self, name: str) -> str:
        files = sorted(self.repositories[name].items())
        return hashlib.sha1(repr(files).encode(), usedforsecurity=False).hexdigest()

    def etag(self, content: bytes) -> str:
        return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def start() -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", 0), HubStandIn)
