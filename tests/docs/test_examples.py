"""The examples of the documentation run as they stand."""

import subprocess
import sys
from pathlib import Path
from re import DOTALL, findall

DOCS = Path(__file__).parents[2] / "docs"


def python_blocks(page: str) -> list[str]:
    return findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), DOTALL)


def test_the_attention_example_runs_and_is_ten_lines() -> None:
    (block,) = python_blocks("attention.md")

    exec(compile(block, "docs/attention.md", "exec"), {})

    assert len([line for line in block.splitlines() if line]) == 10


def test_the_layer_needs_torch_and_nothing_of_the_training_stack() -> None:
    heavy = ["numba", "gensim", "sklearn", "pyarrow", "pydantic", "transformers", "onnxruntime"]
    program = (
        "import sys; from lamatext.nn import LowRankAttention\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stderr == ""
    assert run.stdout.strip() == "[]"


def test_every_system_and_setting_of_the_model_page_exists() -> None:
    from lamatext.settings import MODEL_NAMES, setting_names

    page = (DOCS / "model.md").read_text(encoding="utf-8")

    systems = page.split("## The systems")[1].split("## Options")[0]
    assert set(findall(r"\n\| `([a-z][a-z-]+)` \|", systems)) == set(MODEL_NAMES)
    assert set(findall(r"`(model\.\w+)`", page)) <= set(setting_names())


def test_links_between_the_pages_hold() -> None:
    for page in DOCS.glob("*.md"):
        for target in findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
