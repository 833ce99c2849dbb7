"""Builds the site of mkdocs.yml and checks its pages, links and anchors. Fetches nothing: links to
other sites are listed. Skipped (exit code 5) without the packages of `tools/setup site`.

Usage: site_test.py SOURCE_ROOT
"""
import html.parser
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

if importlib.util.find_spec("material") is None or importlib.util.find_spec("mkdocs") is None:
    print("skipped: mkdocs is not installed; tools/setup site installs it")
    sys.exit(5)
ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
REPOSITORY = "https://example.org/owner/twinserve"
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


class Page(html.parser.HTMLParser):
    """The ids of a page, the addresses that it loads, and those that it links to."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.loads, self.links = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        if LOADED.get(tag) in values:
            self.loads.append(values[LOADED[tag]])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])


def build(out, repository):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)], cwd=ROOT,
        env={**os.environ, "TWINSERVE_REPOSITORY": repository, "NO_MKDOCS_2_WARNING": "1",
             "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True)


def anchors_of(markdown):
    """The anchors of headings as hosts of repositories make them."""
    titles = re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = pathlib.Path(folder.name)
        cls.built = build(cls.out, REPOSITORY)
        cls.pages = {path: Page(path.read_text(encoding="utf-8"))
                     for path in cls.out.rglob("*.html")}

    def links(self):
        """(page, parts of the address) of every link."""
        for path, page in self.pages.items():
            for link in page.links:
                yield path, link, urllib.parse.urlsplit(link)

    def test_builds_without_a_warning(self):
        self.assertEqual(self.built.returncode, 0, self.built.stderr)
        self.assertNotIn("WARNING", self.built.stderr)

    def test_has_a_page_for_each_page_of_docs_and_each_notebook(self):
        sources = [path.relative_to(ROOT / "docs").with_suffix("").as_posix()
                   for path in (ROOT / "docs").rglob("*.md") if "examples" not in path.parts]
        sources += [f"notebooks/{path.stem}"
                    for path in (ROOT / "apps/python/notebooks").glob("*.ipynb")]
        for name in [*sources, "changelog"]:
            page = self.out / name.removesuffix("/README") / "index.html"
            self.assertTrue(page.is_file(), name)

    def test_loads_nothing_from_elsewhere(self):
        for path, page in self.pages.items():
            for address in page.loads:
                self.assertEqual(urllib.parse.urlsplit(address)[:2], ("", ""), path)
        for path in self.out.rglob("*.css"):
            self.assertNotRegex(path.read_text(encoding="utf-8"), r"url\(['\"]?(https?:)?//")

    def test_links_within_the_site_lead_to_pages_and_anchors(self):
        for path, link, parts in self.links():
            if parts.scheme or path.name == "404.html":
                continue
            target = path.parent / urllib.parse.unquote(parts.path) if parts.path else path
            target = (target / "index.html" if target.is_dir() else target).resolve()
            self.assertTrue(target.is_file(), f"{path.relative_to(self.out)}: {link}")
            if parts.fragment and target.suffix == ".html":
                self.assertIn(urllib.parse.unquote(parts.fragment), self.pages[target].ids,
                              f"{path.relative_to(self.out)}: {link}")

    def test_links_to_the_repository_lead_to_files_and_headings(self):
        found = 0
        for path, link, parts in self.links():
            if not link.startswith(f"{REPOSITORY}/blob/HEAD/"):
                continue
            found += 1
            target = ROOT / link.removeprefix(f"{REPOSITORY}/blob/HEAD/").split("#")[0]
            self.assertTrue(target.exists(), f"{path.relative_to(self.out)}: {link}")
            if parts.fragment:
                self.assertIn(parts.fragment, anchors_of(target.read_text(encoding="utf-8")), link)
        self.assertGreater(found, 20)

    def test_links_to_other_sites_are_listed(self):
        others = sorted({link for _, link, parts in self.links()
                         if parts.scheme and not link.startswith(REPOSITORY)})
        print("links to other sites, not fetched:", *others, sep="\n  ")
        for link in others:
            self.assertRegex(link, r"^(https://|mailto:)")

    def test_without_a_repository_links_to_files_become_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            done = build(folder, "")
            self.assertEqual(done.returncode, 0, done.stderr)
            page = (pathlib.Path(folder) / "errors/index.html").read_text(encoding="utf-8")
        self.assertIn("checks/fidelity (<code>checks/fidelity/README.md</code>)", page)
        self.assertNotIn("blob/HEAD", page)


if __name__ == "__main__":
    unittest.main()
