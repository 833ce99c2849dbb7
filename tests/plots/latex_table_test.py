"""A table of `compare --format latex` compiles in the plain article class, whatever its runs are
called. Needs the program (TWINSERVE) and LaTeX with booktabs."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = "texlive-latex-base texlive-latex-recommended"
# Markup of LaTeX, the beginning of an argument or of a starred command, and letters of Latin 1.
NAMES = ["a_1 50% & #x $y {z} ~^\\ <b>|\"c\" `d'", "[x] *\u00e9 \u00b1 \u00d7 \u00b5s --e"]
DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
\begin{table}
\centering
\input{table}
\caption{Runs.}
\end{table}
\end{document}
"""


def run(*words, **more):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                          timeout=120, **more)


def needs_latex():
    if not shutil.which("pdflatex"):
        pytest.skip(f"no LaTeX: pdflatex is not installed; apt-get install {PACKAGES}")
    if run("kpsewhich", "booktabs.sty").returncode != 0:
        pytest.skip(f"no LaTeX: it lacks booktabs.sty; apt-get install {PACKAGES}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run directories of two small simulations."""
    program = os.environ.get("TWINSERVE")
    if not program:
        pytest.skip("no program: the environment sets no TWINSERVE")
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(NAMES, 1):
        done = run(program, "run", ROOT / "experiments/quickstart/vllm_v1.textproto", "--set",
                   f"seed={seed}", "--set", "workload.requests=200", "--out", folder / name)
        assert done.returncode == 0, done.stderr
    return [folder / name for name in NAMES]


@pytest.mark.parametrize("more", [[], ["--metrics", "all"], ["--draws", "20"]],
                         ids=["compare", "all", "draws"])
def test_a_table_compiles_in_the_article_class(tmp_path, runs, more):
    needs_latex()
    made = run(os.environ["TWINSERVE"], "compare", *runs, "--format", "latex", *more)
    assert made.returncode == 0, made.stderr
    (tmp_path / "table.tex").write_text(made.stdout, encoding="utf-8")
    (tmp_path / "paper.tex").write_text(DOCUMENT, encoding="utf-8")
    done = run("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper", cwd=tmp_path,
               errors="replace")
    errors = [line for line in done.stdout.splitlines() if line.startswith("!")]
    assert (done.returncode, errors) == (0, [])
    log = (tmp_path / "paper.log").read_text(errors="replace")
    assert "Missing character" not in log
    assert (tmp_path / "paper.pdf").stat().st_size > 0
