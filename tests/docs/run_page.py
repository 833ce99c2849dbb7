"""Runs every command of a page of docs/, in order, in one shell in a scratch folder.

Usage: run_page.py SOURCE_ROOT PAGE BINARY [PYTHON]

Blocks that begin with ```sh are run and must succeed. ```sh not-tested is what builds the program
(tests/fresh_machine runs it), ```sh plots needs PYTHON, the interpreter of build/venv.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```sh(?: (?P<mark>[\w-]+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page, with_plots):
    """The text of all blocks to run."""
    found = list(BLOCK.finditer(page))
    marks = {match["mark"] for match in found}
    if not found or not marks <= {None, "not-tested", "plots"}:
        sys.exit(f"run_page: unexpected marks of blocks: {marks}")
    if page.count("```") != 2 * len(found):
        sys.exit("run_page: a block is neither sh, sh plots nor sh not-tested")
    wanted = [None, "plots"] if with_plots else [None]
    return [match["text"] for match in found if match["mark"] in wanted]


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    root, page, binary = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    python = pathlib.Path(sys.argv[4]) if len(sys.argv) == 5 else None
    blocks = commands((root / "docs" / page).read_text(encoding="utf-8"), python is not None)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for shared in ("checks", "experiments", "plots", "sim", "traces"):
            (folder / shared).symlink_to(root / shared)
        (folder / "build/release/apps").mkdir(parents=True)
        (folder / "build/release/apps/twinserve").symlink_to(binary)
        if python is not None:
            (folder / "build/venv/bin").mkdir(parents=True)
            # Not a link: an environment's interpreter finds its packages from where it lies.
            wrapper = folder / "build/venv/bin/python"
            wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n', encoding="utf-8")
            wrapper.chmod(0o755)
        script = "shopt -s expand_aliases\nset -euxo pipefail\n" + "\n".join(blocks)
        done = subprocess.run(["bash", "-c", script], cwd=folder, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
