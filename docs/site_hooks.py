"""Puts the documents of the top level into the site, mends their links, and draws equations."""

import html
import os
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # The kernels that run the tour inherit it.
TOP = ("README.md", "BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md")
# An equation in a Markdown file, which an extension has marked, or in a notebook.
_MARKED = re.compile(r'<(div|span) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)
_DOLLARS = re.compile(r"(\$\$?)(?!\s)([^$]+?)(?<!\s)\1")
# Libraries and progress write there while a page is made.
_WITHOUT_LOG = "<style>[data-mime-type='application/vnd.jupyter.stderr'] {display: none}</style>"
_CODE = re.compile(
    "(" + "|".join(rf"<{name}\b.*?</{name}>" for name in ("pre", "code", "style", "script")) + ")",
    re.DOTALL,
)
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)([^)]*)\)")


def on_files(files, config):
    """Adds the documents of the top level."""
    for name in TOP:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Makes links lead to where documents are in the site; others become their text."""
    folder = ROOT if page.file.src_uri in TOP else (ROOT / "docs" / page.file.src_uri).parent

    def mended(match):
        sign, text, target, rest = match.groups()
        target = (folder / target).resolve()
        base = ROOT if target.parent == ROOT and target.name in TOP else ROOT / "docs"
        inside = target.relative_to(base).as_posix() if target.is_relative_to(base) else ""
        file = files.get_file_from_path(inside)
        if not (sign or (file and file.inclusion.is_included())):
            return text
        return f"{sign}[{text}]({'../' * page.file.src_uri.count('/')}{inside}{rest})"

    return _LINK.sub(mended, markdown)


def on_page_content(content, page, config, files):
    """Writes equations as MathML, which browsers draw without a script."""
    content = _MARKED.sub(lambda found: _mathml(found[2], found[1] == "div"), content)
    if not page.file.src_uri.startswith("tour/"):
        return content
    parts = _CODE.split(f"{_WITHOUT_LOG}{content}")
    parts[::2] = [_DOLLARS.sub(lambda m: _mathml(m[2], m[1] == "$$"), part) for part in parts[::2]]
    return "".join(parts)


def _mathml(equation, is_block):
    return convert(html.unescape(equation), display="block" if is_block else "inline")
