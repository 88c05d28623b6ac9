"""The code examples of CONTRIBUTING.md are the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"<!-- from: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("path", "code"), EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_an_example_is_in_the_file_it_is_from(path: str, code: str) -> None:
    assert code in (ROOT / path).read_text(encoding="utf-8"), f"{path}: update CONTRIBUTING.md"
