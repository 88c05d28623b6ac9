import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from starlette.testclient import TestClient

from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.serve.schemas import MAX_TOP_K
from tests.serve.conftest import LIMITS

schemathesis = pytest.importorskip("schemathesis")


def resolve(document: Any, reference: dict[str, str]) -> Any:
    """Return what a ``$ref`` of the document refers to."""
    node = document
    for name in reference["$ref"].removeprefix("#/").split("/"):
        node = node[name]
    return node


def test_every_route_is_in_the_document_and_its_examples_work(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()

    assert set(schema["paths"]) == {"/predict", "/explain", "/healthz", "/readyz", "/metrics"}
    for path in ("/predict", "/explain"):
        operation = schema["paths"][path]["post"]
        content = operation["requestBody"]["content"]["application/json"]
        for reference in content["examples"].values():
            example = resolve(schema, reference)
            assert client.post(path, json=example["value"]).status_code == 200
        for status in ("400", "408", "413", "415", "422", "503"):
            response = resolve(schema, operation["responses"][status])
            assert "application/problem+json" in response["content"]


def test_the_document_states_the_limits_and_the_models(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]

    assert schemas["Text"]["maxLength"] == LIMITS.characters
    assert schemas["Texts"]["maxItems"] == LIMITS.texts
    assert schemas["TopK"]["maximum"] == MAX_TOP_K
    assert schemas["ModelName"]["enum"] == ["reviews", "plain"]


def test_the_document_names_the_api_key_if_the_server_requires_one(folder: Path) -> None:
    with TestClient(create_app(load_models([folder]), api_key="secret")) as client:
        schema = client.get("/openapi.json", headers={"x-api-key": "secret"}).json()

    assert set(schema["components"]["securitySchemes"]) == {"bearer", "key"}
    assert schema["paths"]["/predict"]["post"]["security"] == [{"bearer": []}, {"key": []}]
    assert "security" not in schema["paths"]["/healthz"]["get"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_schemathesis_finds_no_mismatch_between_document_and_server(folder: Path) -> None:
    app = create_app(load_models([folder]))
    refused = [400, 413, 415, 422]  # 413: an oversized body is refused before validation
    checks = {"negative_data_rejection": {"expected-statuses": refused}}
    config = schemathesis.Config.from_dict({"checks": checks})
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)

    with TestClient(app):
        for operation in schema.get_all_operations():
            for mode in schemathesis.GenerationMode:
                check_all(operation.ok(), mode)


def check_all(operation: Any, mode: Any) -> None:
    """Send requests that match the document, or violate it, and check the responses."""

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate()

    with suppress(Unsatisfiable):  # a route without parameters has no invalid requests
        check()


def test_the_documentation_page_lists_every_route_and_loads_nothing_from_elsewhere(
    client: TestClient,
) -> None:
    response = client.get("/docs")

    page = response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"{path}</code></h2>" in page
    assert "one of reviews, plain" in page
    assert f"characters: at most {LIMITS.characters}" in page
    assert "https://" not in page
    for link in re.findall(r'(?:src|href)="(static/[^"]+)"', page):
        assert client.get(f"/{link}").status_code == 200


def test_the_documentation_of_a_server_with_a_key_is_public_and_names_no_model(
    folder: Path,
) -> None:
    with TestClient(create_app(load_models([folder]), api_key="secret")) as client:
        page = client.get("/docs").text

    assert "This server requires an API key" in page
    assert "one of reviews" not in page
