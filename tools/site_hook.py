"""Pages of the site that lie outside docs/, and links from pages to files outside it (mkdocs.yml)."""
import json
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = {f"notebooks/{path.stem}.md": path.relative_to(ROOT).as_posix()
             for path in sorted((ROOT / "apps/python/notebooks").glob("*.ipynb"))}
OUTSIDE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", **NOTEBOOKS}  # page: its source
LINK = re.compile(r"\[([^][]*)\]\((?!\w+:|[#/])([^)\s#]+)(#[^)\s]*)?\)")
WORDS_OF_A_FENCE = re.compile(r"^```(\w+) [\w-]+$", re.MULTILINE)  # marks for tests/docs/run_page.py


def pages_of(folder):
    """All pages of a folder; an entry of the navigation that ends in / stands for them."""
    pages = [f"{folder}{path.name}" for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
    pages += [page for page in NOTEBOOKS if page.startswith(folder)]
    return sorted(pages, key=lambda page: not page.endswith("README.md"))


def with_folders(nav):
    if isinstance(nav, list):
        return [with_folders(entry) for entry in nav]
    if isinstance(nav, dict):
        return {name: with_folders(entry) for name, entry in nav.items()}
    return pages_of(nav) if nav.endswith("/") else nav


def markdown_of(notebook, name):
    """The cells of a notebook, without results."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        text = "".join(cell["source"]).strip()
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join([*parts, f"`twinserve examples FOLDER` copies this notebook, `{name}`.\n"])


def linked(match, page, files, repository):
    """A link to a page, as it is between pages; to another file, as a link to the repository."""
    text, target, anchor = match[1], match[2], match[3] or ""
    source = OUTSIDE.get(page, f"docs/{page}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    site = next((name for name, outside in OUTSIDE.items() if outside == path),
                path.removeprefix("docs/"))
    for name in (site, f"{site}/README.md"):
        file = files.get_file_from_path(name)
        if file is not None and file.inclusion.is_included():
            return f"[{text}]({posixpath.relpath(name, posixpath.dirname(page) or '.')}{anchor})"
    if not (ROOT / path).exists():
        return match[0]  # mkdocs build --strict names it
    if not repository:
        return f"{text} (`{path}`)" if path not in text else text
    return f"[{text}]({repository.rstrip('/')}/blob/HEAD/{path}{anchor})"


def on_config(config):
    config.nav = with_folders(config.nav)


def on_files(files, config):
    for page, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source in NOTEBOOKS.values():
            text = markdown_of(text, posixpath.basename(source))
        files.append(File.generated(config, page, content=text))


def on_page_markdown(markdown, page, config, files):
    markdown = WORDS_OF_A_FENCE.sub(r"```\1", markdown)
    return LINK.sub(lambda match: linked(match, page.file.src_uri, files, config.repo_url), markdown)
