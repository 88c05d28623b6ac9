"""The API documentation page of the server (``/docs``), rendered from its OpenAPI document."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from lamatext.views.html_templates import render_template

Document = Mapping[str, Any]

_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters: at most",
    "maxItems": "items: at most",
    "default": "default",
}


def api_docs_page(document: Document) -> str:
    """Render the API documentation page of the server as HTML."""
    return render_template(
        "api_docs.html",
        info=document["info"],
        operations=[
            _operation(document, path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ],
        secured="securitySchemes" in document["components"],
    )


def _operation(document: Document, path: str, method: str, operation: Any) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = [_resolve(document, entry) for entry in body.get("examples", {}).values()]
    success = _resolve(document, operation["responses"]["200"])
    content = success.get("content", {}).get("application/json", {})
    return {
        "path": path,
        "method": method.upper(),
        "summary": operation["summary"],
        "fields": [*_request_fields(document, body.get("schema", {}))],
        "answer": [*_fields(document, content.get("schema", {}))],
        "answer_example": _example(content.get("example")),
        "examples": [
            {"summary": entry["summary"], "body": _example(entry["value"])} for entry in examples
        ],
        "curl": _curl(path, examples[0]["value"]) if examples else _curl(path),
        "responses": [
            (status, _resolve(document, response)["description"])
            for status, response in operation["responses"].items()
        ],
    }


def _request_fields(document: Document, schema: Any) -> Iterator[tuple[str, str, str]]:
    seen: set[str] = set()
    for alternative in schema.get("oneOf", [schema]):
        for row in _fields(document, alternative):
            if row[0] not in seen:
                seen.add(row[0])
                yield row


def _fields(document: Document, schema: Any) -> Iterator[tuple[str, str, str]]:
    for name, reference in _resolve(document, schema).get("properties", {}).items():
        field = _resolve(document, reference)
        limits = [f"{text} {field[key]}" for key, text in _LIMITS.items() if key in field]
        choices = [f"one of {', '.join(map(str, field['enum']))}"] if field.get("enum") else []
        description = [field["description"].rstrip(".")] if "description" in field else []
        yield name, _type_of(document, field), "; ".join([*description, *choices, *limits])


def _type_of(document: Document, field: Any) -> str:
    if field.get("type") == "array":
        return f"list of {_type_of(document, _resolve(document, field['items']))}"
    kinds = field.get("type", "string")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _resolve(document: Document, node: Any) -> Any:
    """Return an OpenAPI node with its ``$ref``, if it has one, replaced by the referenced node."""
    if "$ref" not in node:
        return node
    target: Any = document
    for name in node["$ref"].removeprefix("#/").split("/"):
        target = target[name]
    return _resolve(document, {**target, **{k: v for k, v in node.items() if k != "$ref"}})


def _example(value: object) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _curl(path: str, body: object = None) -> str:
    data = "" if body is None else f" --json {shlex.quote(json.dumps(body, ensure_ascii=False))}"
    return f"curl localhost:8000{path}{data}"
