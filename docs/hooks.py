"""MkDocs hook: make links from the documentation pages to other files of the repository work.

On GitHub a page can link to ``../paper/README.md``. The site contains only ``docs/``: images from
elsewhere are copied into the site, and links to other files become plain text.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
IMAGE = re.compile(r"(!\[[^]]*\]\()\.\./([^)]+)\)")
LINK = re.compile(r"(?<!!)\[([^]]+)\]\(\.\./([^)]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the images outside of docs/ that the documentation pages show to the site's files."""
    for page in files.documentation_pages():
        for _, path in IMAGE.findall(page.content_string):
            image = File.generated(config, f"images/{Path(path).name}", abs_src_path=ROOT / path)
            if files.get_file_from_path(image.src_uri) is None:
                files.append(image)
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Point a page's images to their copies and turn links out of docs/ into text."""
    markdown = IMAGE.sub(lambda match: f"{match[1]}images/{Path(match[2]).name})", markdown)
    return LINK.sub(lambda match: f"{match[1]} (`{match[2]}`)", markdown)
