"""Puts the documents of the top level into the site, mends links, draws equations.

If REPOSITORY is owner/name of a public repository at GitHub, whose branch gh-pages gets the site,
then pages of the tour have a badge that opens them in Colab.
"""

import html
import os
import re
from pathlib import Path
from urllib.parse import urljoin

import jupytext
import nbformat
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # The kernels that run the tour inherit it.
TOP = ("README.md", "BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md")
# An equation in a Markdown file, which an extension has marked, or in a notebook.
_MARKED = re.compile(r'<(div|span) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)
_DOLLARS = re.compile(r"(\$\$?)(?!\s)([^$]+?)(?<!\s)\1")
_CODE = re.compile(
    "(" + "|".join(rf"<{name}\b.*?</{name}>" for name in ("pre", "code", "style", "script")) + ")",
    re.DOTALL,
)
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)([^)]*)\)")


def on_config(config):
    """Checks the name of the repository."""
    repository = config.extra["repository"]
    if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise PluginError(f"REPOSITORY must be owner/name of a GitHub repository: {repository!r}")


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
        if target.suffix == ".ipynb":  # A stored notebook is a page of the site.
            target = target.with_suffix(".py")
        base = ROOT if target.parent == ROOT and target.name in TOP else ROOT / "docs"
        inside = target.relative_to(base).as_posix() if target.is_relative_to(base) else ""
        file = files.get_file_from_path(inside)
        if not (sign or (file and file.inclusion.is_included())):
            return text
        return f"{sign}[{text}]({'../' * page.file.src_uri.count('/')}{inside}{rest})"

    return _LINK.sub(mended, markdown)


def on_page_content(content, page, config, files):
    """Adds the badge, and writes equations as MathML, which browsers draw without a script."""
    content = _MARKED.sub(lambda found: _mathml(found[2], found[1] == "div"), content)
    if not page.file.src_uri.startswith("tour/"):
        return content
    parts = _CODE.split(f"{_badge(page, config)}{content}")
    parts[::2] = [_DOLLARS.sub(lambda m: _mathml(m[2], m[1] == "$$"), part) for part in parts[::2]]
    return "".join(parts)


def on_post_build(config):
    """Writes the pages of the tour as notebooks that install the project, for Colab."""
    if not (repository := config.extra["repository"]):
        return
    owner, name = repository.split("/")
    address = f"https://{owner}.github.io/{name}/tour/"
    install = f'%pip install --quiet "nmt-zoo[extra] @ git+https://github.com/{repository}"'
    for path in (ROOT / "docs" / "tour").glob("*.py"):
        notebook = jupytext.read(path)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _LINK.sub(lambda link: _published(link, address), cell.source)
        notebook.cells.insert(1, nbformat.v4.new_code_cell(install))
        jupytext.write(notebook, Path(config.site_dir, "tour", f"{path.stem}.ipynb"))


def _published(link, address):
    sign, text, target, rest = link.groups()
    target = re.sub(r"\.(py|md)$", ".html", target)
    return f"{sign}[{text}]({urljoin(address, target)}{rest})"


def _badge(page, config):
    repository, path = config.extra["repository"], Path(page.file.src_uri)
    if not repository or path.suffix != ".py":
        return ""
    notebook = f"github/{repository}/blob/gh-pages/{path.with_suffix('.ipynb')}"
    link = f"https://colab.research.google.com/{notebook}"
    return f'<p class="badge"><a class="md-button" href="{link}">Open in Colab</a></p>'


def _mathml(equation, is_block):
    return convert(html.unescape(equation), display="block" if is_block else "inline")
