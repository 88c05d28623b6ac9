from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from starlette.testclient import TestClient

from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models

schemathesis = pytest.importorskip("schemathesis")


def test_every_route_is_described_with_examples(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()

    assert set(schema["paths"]) == {"/predict", "/explain", "/healthz", "/readyz", "/metrics"}
    for path in ("/predict", "/explain"):
        operation = schema["paths"][path]["post"]
        content = operation["requestBody"]["content"]["application/json"]
        for example in content["examples"].values():
            assert client.post(path, json=example["value"]).status_code == 200
        for status in ("400", "408", "413", "415", "422", "503"):
            assert "application/problem+json" in operation["responses"][status]["content"]


def test_a_wanted_key_is_in_the_description(folder: Path) -> None:
    with TestClient(create_app(load_models([folder]), api_key="secret")) as client:
        schema = client.get("/openapi.json", headers={"x-api-key": "secret"}).json()

    assert set(schema["components"]["securitySchemes"]) == {"bearer", "key"}
    assert schema["paths"]["/predict"]["post"]["security"] == [{"bearer": []}, {"key": []}]
    assert "security" not in schema["paths"]["/healthz"]["get"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_schemathesis_finds_nothing(folder: Path) -> None:
    app = create_app(load_models([folder]))
    refused = [400, 413, 415, 422]  # a body that is too large is refused as such, unread
    checks = {"negative_data_rejection": {"expected-statuses": refused}}
    config = schemathesis.Config.from_dict({"checks": checks})
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)

    with TestClient(app):
        for operation in schema.get_all_operations():
            for mode in schemathesis.GenerationMode:
                check_all(operation.ok(), mode)


def check_all(operation: Any, mode: Any) -> None:
    """Requests that fit the description, or that do not, are answered as it says."""

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate()

    with suppress(Unsatisfiable):  # a route without parameters cannot be asked wrongly
        check()
