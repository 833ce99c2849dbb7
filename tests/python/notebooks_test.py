"""Every notebook runs from its first cell to its last; notebooks are kept without outputs."""
import ast
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore::twinserve.RunWarning")
@pytest.mark.parametrize("path", sorted((ROOT / "apps/python/notebooks").glob("*.ipynb")),
                         ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 3
    names = {"__name__": "__main__"}
    values = []
    for number, cell in enumerate(cells):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        tree = ast.parse("".join(cell["source"]), f"{path.name}, code cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        if last is not None:
            values.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names))
    shown = [repr(value) for value in values]
    assert all(shown)
    if path.stem == "own_policy":
        assert values[-1] == (5, True)
        assert "I4" in capsys.readouterr().out
    else:
        assert values[-1]["value"].between(5, 60).all()
