"""What only parts of the package need: modules of its extras, and its data."""
from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# The modules of each extra of pyproject.toml.
EXTRAS = {"tables": ("numpy", "pandas"), "plots": ("numpy", "pandas", "matplotlib"),
          "arrow": ("numpy", "pandas", "pyarrow"), "cluster": ("pyarrow", "ray")}

# experiments, traces and notebooks, in the folders of the source tree.
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def plotly_script() -> str:
    """Plotly's script, which a wheel holds beside the package."""
    import lzma
    with lzma.open(os.path.join(os.path.dirname(DATA), "plotly.min.js.xz"), "rt", encoding="utf-8") as script:
        return script.read()


def missing(what: str, module: str, extra: str) -> ImportError:
    """The error for `what`, which need a module of an extra that is not installed."""
    return ImportError(f'twinserve: {what} need {module}; allowed: pip install "twinserve[{extra}]"')


def pandas() -> ModuleType:
    """The module pandas. Raises ImportError."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise missing("tables", "pandas", "tables") from None
    return pandas


def pyarrow() -> ModuleType:
    """The module pyarrow. Raises ImportError."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise missing("Arrow tables", "pyarrow", "arrow") from None
    return pyarrow


def read_csv(source: Any, **options: Any) -> pd.DataFrame:
    """pandas.read_csv() with numbers as they were written; from pandas 3.1 on, that is the default."""
    module = pandas()
    if tuple(map(int, module.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"
    return module.read_csv(source, **options)
