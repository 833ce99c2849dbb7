"""The Python packages that figures need. Programs import them from here: if one is missing, the
program ends and names the command that installs it."""
import pathlib
import sys

try:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd
except ModuleNotFoundError as error:
    if "twinserve.plots" in sys.modules:
        sys.exit(f'twinserve: plots need {error.name}; allowed: pip install "twinserve[plots]"')
    program = pathlib.Path(sys.argv[0])
    sys.exit(f"{program.stem}: the Python package {error.name} is missing. `tools/setup python` "
             f"installs it into build/venv; then use build/venv/bin/python {program}")

try:
    import twinserve
except ModuleNotFoundError:  # figures of studies do without
    twinserve = None

__all__ = ["matplotlib", "np", "pd", "plt", "twinserve"]
