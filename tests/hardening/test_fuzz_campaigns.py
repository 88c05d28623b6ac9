"""Short fuzzing campaigns: hostile inputs are accepted or rejected with a named error."""

import shutil

import pytest

from hardening import fuzz_driver
from hardening.fuzz_driver import FuzzResult, run_fuzz_target
from hardening.fuzz_target import CAMPAIGNS, TARGETS
from hardening.fuzz_worker import Job

WITHOUT_FINDINGS = (
    *("csv", "tsv", "jsonl", "parquet", "fasttext", "lines", "compressed", "label_folders"),
    *("excel", "suspects", "probabilities", "tokenizer", "text_encoder", "ngrams", "settings"),
)
SLOW_WITHOUT_FINDINGS = ("http", "http_json", "model_folder", "web_model", "bert_folder")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call only a very long run a hang: the machine that runs the tests may be busy."""
    monkeypatch.setattr(fuzz_driver, "HANG_SECONDS", 60.0)


def fuzz(target: str, count: int) -> FuzzResult:
    if target in ("tokenizer", "ngrams", "web_model") and shutil.which("node") is None:
        pytest.skip("node is not installed: apt install nodejs")
    if target == "excel":
        pytest.importorskip("openpyxl")
    if target == "bert_folder":
        pytest.importorskip("transformers", reason="needs the extra bert")
    result = run_fuzz_target(Job(target, seed=1, first=0, count=count, folder=""))
    assert result.inputs == count
    assert result.accepted > 0
    return result


def test_every_target_has_a_campaign_and_a_test() -> None:
    tested = (*WITHOUT_FINDINGS, *SLOW_WITHOUT_FINDINGS)

    assert sorted(tested) == sorted(TARGETS)
    assert sorted(name for names in CAMPAIGNS.values() for name in names) == sorted(TARGETS)


@pytest.mark.parametrize("target", WITHOUT_FINDINGS)
def test_a_target_has_no_findings(target: str) -> None:
    result = fuzz(target, 400)

    assert result.signatures == {}


@pytest.mark.slow
@pytest.mark.parametrize("target", SLOW_WITHOUT_FINDINGS)
def test_server_and_model_folders_have_no_findings(target: str) -> None:
    result = fuzz(target, 100 if target == "bert_folder" else 300)

    assert result.signatures == {}
