import asyncio
import json
import logging
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from lamatext import Predictor
from lamatext.errors import ConfigError
from lamatext.serve.app import create_app
from lamatext.serve.middleware import allowed_hosts
from lamatext.serve.registry import load_models
from lamatext.serve.schemas import Limits
from tests.serve.conftest import LIMITS
from tests.serve.saved import save

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format-1"

TEXTS = ["", " ", "a good film", "東京 好!", "👍🏽🇩🇪", "<script>alert(1)</script>", "x\x00y\u2028z"]


def check_problem(response: Any, status: int, detail: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert detail in body["detail"]
    assert set(body) == {"type", "title", "status", "detail"}


def test_predict_returns_the_label_that_the_library_predicts(
    client: TestClient, folder: Path
) -> None:
    expected = Predictor.load(folder).predict_proba(["a good film"])[0]

    body = client.post("/predict", json={"text": "a good film"}).json()

    label = ["bad", "good", "<b>so</b>"][int(expected.argmax())]
    assert body["model"] == "reviews"
    assert body["predictions"] == [
        {"label": label, "probability": pytest.approx(float(expected.max()), abs=1e-6)}
    ]


def test_an_empty_text_is_flagged_in_the_response(client: TestClient) -> None:
    request = {"texts": ["a good film", " \n"]}

    predictions = client.post("/predict", json=request).json()["predictions"]
    explanations = client.post("/explain", json=request).json()["explanations"]

    for full, empty in (predictions, explanations):
        assert "empty" not in full
        assert empty["empty"] is True


def test_predictions_keep_the_order_of_the_texts(client: TestClient, folder: Path) -> None:
    expected = Predictor.load(folder).predict_proba(TEXTS)

    body = client.post("/predict", json={"texts": TEXTS, "proba": True, "top_k": 2}).json()

    probabilities = [list(one["probabilities"].values()) for one in body["predictions"]]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    for one, row in zip(body["predictions"], expected, strict=True):
        best = np.argsort(-row)[:2]
        assert [top["label"] for top in one["top"]] == [
            ["bad", "good", "<b>so</b>"][c] for c in best
        ]


def test_explain_returns_the_explanations_of_the_library(client: TestClient, folder: Path) -> None:
    predictor = Predictor.load(folder)

    body = client.post("/explain", json={"texts": TEXTS}).json()

    for one, text in zip(body["explanations"], TEXTS, strict=True):
        flag = {} if text.strip() else {"empty": True}
        assert one == json.loads(predictor.explain(text).to_json()) | flag


def test_a_request_can_name_the_second_model_whose_labels_are_integers(
    client: TestClient,
) -> None:
    request = {"text": "a good film", "model": "plain", "proba": True}

    prediction = client.post("/predict", json=request).json()["predictions"][0]
    explanation = client.post("/explain", json={"text": "a film", "model": "plain"}).json()

    assert prediction["label"] in (3, 7)
    assert set(prediction["probabilities"]) == {"3", "7"}
    assert explanation["explanations"][0]["method"] == "occlusion"


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"{", 400, "not JSON"),
        (b"", 400, "not JSON"),
        (b'{"text": "\xff"}', 400, "not JSON"),
        (rb'{"text": "\ud800"}', 400, "not JSON"),
        (b"[" * 10_000, 400, "not JSON"),
        (b'["a"]', 422, 'the body is not a JSON object. Send {"text": "…"} or'),
        (b"{}", 422, 'Send {"text"'),
        (b'{"text": "a", "texts": ["b"]}', 422, 'either "text"'),
        (b'{"text": null}', 422, 'Send {"text"'),
        (b'{"text": 3}', 422, "text: input should be a valid string"),
        (b'{"text": "a", "texts": null}', 422, "Leave it out"),
        (b'{"text": "a", "label": "b"}', 422, "unknown field 'label'. Known: text, texts, model, "),
        (b'{"txt": "a"}', 422, "unknown field 'txt'. Did you mean text? Known: text, texts, mod"),
        (b'{"' + b"x" * 99 + b'": 1}', 422, f"unknown field '{'x' * 60}'. Known"),
        (b'{"texts": []}', 422, "expected 1 to 8"),
        (b'{"texts": ["a", 3]}', 422, "texts.1: input should be a valid string"),
        (b'{"text": "a", "top_k": 0}', 422, "top_k: expected a whole number"),
        (b'{"text": "a", "top_k": 1.5}', 422, "top_k: expected a whole number"),
        (b'{"text": "a", "top_k": "1"}', 422, "top_k"),
        (b'{"text": "a", "proba": 1}', 422, "proba: input should be a valid boolean"),
        (b'{"text": "a", "model": "x"}', 422, "It has reviews, plain."),
    ],
)
def test_an_invalid_body_gets_an_error_that_names_the_mistake(
    client: TestClient, body: bytes, status: int, detail: str
) -> None:
    response = client.post("/predict", content=body, headers={"content-type": "application/json"})

    check_problem(response, status, detail)


def test_requests_beyond_the_limits_are_refused(client: TestClient) -> None:
    long = "a" * (LIMITS.characters + 1)

    check_problem(client.post("/predict", json={"text": long}), 422, "text 0 has 1,001 characters")
    check_problem(client.post("/predict", json={"texts": ["a"] * 9}), 422, "texts has 9")
    check_problem(client.post("/predict", json={"text": long * 20}), 413, "20,000 bytes")
    check_problem(
        client.post("/explain", json={"texts": ["a" * 600] * 2}), 413, "1,200 characters together"
    )


def test_a_body_without_content_length_is_cut_off_at_the_limit(client: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"text": "'
        for _ in range(100):
            yield b"a" * 1000

    headers = {"content-type": "application/json"}

    check_problem(client.post("/predict", content=endless(), headers=headers), 413, "20,000 bytes")


def test_a_body_that_never_arrives_times_out(folder: Path) -> None:
    app = create_app(load_models([folder]), limits=Limits(body_seconds=0.05))
    messages: list[MutableMapping[str, Any]] = []

    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers}
    asyncio.run(app({**scope, "query_string": b"", "http_version": "1.1"}, never, send))

    assert messages[0]["status"] == 408
    assert b"the body did not arrive in 0.05 s" in messages[1]["body"]


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_other_media_types_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    response = client.post("/predict", content=b'{"text": "a"}', headers=headers)

    check_problem(response, 415, "send")


def test_unknown_paths_and_methods_get_problem_responses(client: TestClient) -> None:
    check_problem(client.get("/nothing"), 404, "/openapi.json")
    check_problem(client.get("/static/../app.py"), 404, "")
    check_problem(client.get("/static/none.js"), 404, "no such file")
    check_problem(client.get("/models/none"), 404, "It has reviews, plain.")
    response = client.put("/predict")
    check_problem(response, 405, "method")
    assert response.headers["allow"] == "POST"


def test_every_response_has_the_security_headers(client: TestClient) -> None:
    for response in (client.get("/"), client.get("/nothing"), client.post("/predict")):
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "unsafe" not in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"


def test_metrics_count_requests_texts_and_batches(folder: Path) -> None:
    with TestClient(create_app(load_models([folder]))) as client:
        client.post("/predict", json={"texts": ["a", "b"]})
        client.post("/explain", json={"text": "a"})
        client.get("/some/path")

        response = client.get("/metrics")

    lines = response.text.splitlines()
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'lamatext_requests_total{route="/predict",method="POST",status="200"} 1' in lines
    assert 'lamatext_requests_total{route="other",method="GET",status="404"} 1' in lines
    assert 'lamatext_texts_total{route="/predict"} 2' in lines
    assert 'lamatext_texts_total{route="/explain"} 1' in lines
    assert 'lamatext_request_seconds_count{route="/predict"} 1' in lines
    assert "lamatext_batch_texts_sum 2.000000" in lines
    assert 'lamatext_batch_texts_bucket{le="+Inf"} 1' in lines


def test_readyz_answers_503_before_start_and_while_draining(folder: Path) -> None:
    app = create_app(load_models([folder]))
    client = TestClient(app)
    check_problem(client.get("/readyz"), 503, "starting or stopping")

    with client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.head("/healthz").status_code == 200
        assert client.get("/readyz").json() == {"status": "ready"}
        app.state.server.draining = True
        check_problem(client.get("/readyz"), 503, "starting or stopping")
        response = client.post("/predict", json={"text": "a late request"})
        assert response.status_code == 200
        assert response.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "wrong"}, 401),
        ({"x-api-key": "schlüssel".encode()}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "bearer secret"}, 200),
        ({"x-api-key": "secret"}, 200),
    ],
)
def test_a_server_with_an_api_key_requires_it_except_on_public_paths(
    folder: Path, headers: dict[str, Any], status: int
) -> None:
    with TestClient(create_app(load_models([folder]), api_key="secret")) as client:
        response = client.post("/predict", json={"text": "a"}, headers=headers)
        weights = client.get("/models/reviews/weights", headers=headers)
        page = client.get("/")
        alive = client.get("/healthz")

    assert response.status_code == weights.status_code == status
    assert page.status_code == alive.status_code == 200
    if status == 401:
        check_problem(response, 401, "Authorization: Bearer KEY")


HOSTS = ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost."]


@pytest.mark.parametrize("port", ["", ":8000", ":65535"])
def test_a_server_on_loopback_accepts_only_loopback_names(folder: Path, port: str) -> None:
    app = create_app(load_models([folder]), hosts=allowed_hosts("127.0.0.1", ["Reviews.example"]))
    with TestClient(app) as client:
        for host in (*HOSTS, "reviews.example"):
            assert client.get("/models", headers={"host": host + port}).status_code == 200
        for host in ("evil.example", "localhost.evil.example", "10.0.0.1", "x127.0.0.1"):
            for path in ("/", "/healthz", "/models/reviews/weights"):
                response = client.get(path, headers={"host": host + port})
                check_problem(response, 421, "--allow-host")
        for host in ("", "localhost:8000@evil.example", "[::1", "localhost:x", "a b", "ä"):
            response = client.get("/", headers={b"host": host.encode("latin-1")})
            check_problem(response, 400, "one Host header")
        two = [("host", "localhost"), ("host", "evil.example")]
        check_problem(client.get("/", headers=two), 400, "one Host header")


def test_the_address_to_listen_on_determines_the_allowed_hosts() -> None:
    assert allowed_hosts("0.0.0.0") is None
    assert allowed_hosts("::") is None
    assert allowed_hosts("127.0.0.1", ["*"]) is None
    assert allowed_hosts("192.168.1.5") == frozenset(HOSTS[:3]) | {"192.168.1.5"}
    assert allowed_hosts("fe80::1") == frozenset(HOSTS[:3]) | {"[fe80::1]"}
    assert allowed_hosts("0.0.0.0", ["a.example."]) == frozenset(HOSTS[:3]) | {"a.example"}
    for name in ("http://a.example", "a.example:8000", "", "[::1]:80"):
        with pytest.raises(ConfigError, match="--allow-host"):
            allowed_hosts("127.0.0.1", [name])


MEGABYTE_BODIES = {
    "numbers": b'{"texts": [' + b"1," * 500_000 + b"1]}",
    "fields": b"{" + b",".join(b'"k%d":1' % index for index in range(90_000)) + b"}",
    "objects": b'{"text": [' + b"{}," * 330_000 + b"{}]}",
    "empty texts": b'{"texts": [' + b'"",' * 330_000 + b'""]}',
}


@pytest.mark.parametrize("name", list(MEGABYTE_BODIES))
def test_a_large_body_of_small_values_is_refused_quickly(folder: Path, name: str) -> None:
    headers = {"content-type": "application/json"}
    with TestClient(create_app(load_models([folder]))) as client:
        start = process_time()
        response = client.post("/predict", content=MEGABYTE_BODIES[name], headers=headers)
        seconds = process_time() - start

    check_problem(response, 422, "")
    assert seconds < 0.06  # the shortest took 0.09 s before, the longest 2 s


def test_a_large_body_of_texts_with_quotes_and_backslashes_is_accepted(folder: Path) -> None:
    texts = ['a "good" film \\ [1, 2] {"x": 3}, ' * 100] * 200
    with TestClient(create_app(load_models([folder]))) as client:
        response = client.post(
            "/predict",
            content=json.dumps({"texts": texts}, indent=8),
            headers={"content-type": "application/json"},
        )

    assert response.status_code == 200
    assert len(response.json()["predictions"]) == 200


def test_a_model_that_takes_too_long_gets_503(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from time import sleep

    def slow(_: Predictor, texts: list[str]) -> Any:
        sleep(0.3 if texts == ["slow"] else 0)
        return np.full((len(texts), 3), 1 / 3, np.float32)

    monkeypatch.setattr(Predictor, "predict_proba", slow)
    with TestClient(create_app(load_models([folder]), limits=Limits(seconds=0.05))) as client:
        check_problem(client.post("/predict", json={"text": "slow"}), 503, "no result within 0.05")


def test_an_unexpected_error_gets_500_and_its_log_entry_has_no_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Predictor, texts: list[str]) -> Any:
        raise RuntimeError(f"cannot read {texts}")

    with TestClient(create_app(load_models([folder]))) as client:
        monkeypatch.setattr(Predictor, "predict_proba", broken)
        with caplog.at_level(logging.DEBUG):
            response = client.post("/predict", json={"text": "a secret text"})

    check_problem(response, 500, "its log has the details")
    assert "RuntimeError at " in caplog.text
    assert "secret text" not in caplog.text


def test_the_web_page_can_be_disabled(folder: Path) -> None:
    with TestClient(create_app(load_models([folder]), page=False)) as client:
        check_problem(client.get("/"), 404, "does not exist")


def test_two_models_with_the_same_name_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="two models are called reviews"):
        load_models([folder, folder])


def test_the_web_page_can_fetch_a_model(client: TestClient, folder: Path) -> None:
    description = client.get("/models/reviews").json()
    weights = client.get("/models/reviews/weights")

    assert client.get("/models").json()[0]["name"] == "reviews"
    assert description["settings"]["name"] == "lama-ctx"
    assert description["words"][:2] == ["<pad>", "<unk>"]
    assert weights.content == (folder / "model.safetensors").read_bytes()


def test_the_web_page_can_fetch_the_ngrams_of_a_model_in_format_1() -> None:
    with TestClient(create_app(load_models([FORMAT_1]))) as client:
        description = client.get("/models/format-1").json()
        ngrams = client.get("/models/format-1/ngrams")

    assert description["ngrams"]
    assert ngrams.content == (FORMAT_1 / "wide.safetensors").read_bytes()


def test_a_model_without_ngrams_has_no_ngram_tensors_to_fetch(client: TestClient) -> None:
    check_problem(client.get("/models/reviews/ngrams"), 404, "no such tensors")
    check_problem(client.get("/models/reviews/config.json"), 404, "no such tensors")


def test_a_model_that_does_not_run_in_a_page_is_refused_with_advice(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = save(tmp_path / "te", "te", heads=2, transformer_positions=64, text={"max_words": 64})
    with TestClient(create_app(load_models([folder]))) as client:
        assert client.get("/models").json()[0]["runs_in_page"] is False
        check_problem(client.get("/models/te"), 409, "te is too large")
