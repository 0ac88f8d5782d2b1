# SPDX-License-Identifier: Apache-2.0
"""Relative links and anchors of the Markdown pages lead somewhere."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
# Folders of a checkout that are not in the repository.
OUTSIDE = (".git", ".venv", "build", "fcdp-gpu")


def pages() -> list[Path]:
    tops = [path for path in ROOT.iterdir() if not path.name.startswith(OUTSIDE)]
    found = [page for top in tops if top.is_dir() for page in top.rglob("*.md")]
    return sorted(found + [path for path in tops if path.suffix == ".md"])


def parse(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page, and those that the page names itself."""
    text = page.read_text()
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    seen: Counter[str] = Counter()
    tokens = parse(page)
    for opening, heading in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        words = "".join(part.content for part in heading.children or [] if part.type in ("text", "code_inline"))
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: Path) -> Iterator[str]:
    for block in parse(page):
        for part in block.children or []:
            if part.type == "link_open":
                yield str(part.attrs["href"])
            elif part.type == "image":
                yield str(part.attrs["src"])
        if block.type == "html_block":
            yield from re.findall(r'(?:src|srcset|href)="([^"]+)"', block.content)


def broken(page: Path) -> Iterator[str]:
    """Yields a message for each broken link of a page."""
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page}: '{link}': expected a file or folder, found none at {target}"
        elif anchor and anchor not in anchors(target):
            yield f"{page}: '{link}': expected a heading '#{anchor}' in {target}, which has {sorted(anchors(target))}"


def test_links_and_anchors_resolve() -> None:
    assert len(pages()) > 40 and sum(1 for page in pages() for _ in links(page)) > 300
    assert not [fault for page in pages() for fault in broken(page)]


def test_the_index_has_each_page_and_each_benchmark() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    expected = {*index.parent.glob("*.md"), *ROOT.glob("benchmarks/*/run.py")} - {index}
    missing = sorted(str(path.relative_to(ROOT)) for path in expected - linked)
    assert not missing, f"expected a link in docs/README.md to each of {missing}"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("# A `b` c!\n[x](#a-b-c)", 0),
        ("# A\n# A\n[x](page.md#a-1)", 0),
        ("[x](gone.md)", 1),
        ("# A\n[x](page.md#b)", 1),
        ("![x](gone.svg)", 1),
        ('<picture>\n<source srcset="gone.svg">\n</picture>', 1),
        ("| a |\n|---|\n| [x](gone.md) |", 1),
        ("[x](https://example.org/gone)", 0),
        ("    [x](gone.md)", 0),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, text: str, faults: int) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert len(list(broken(page))) == faults
