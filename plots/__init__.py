"""The figures as modules: python -m twinserve.plots.latency_cdf RUN_DIR..."""
import pathlib
import sys

# Scripts import what they share by its plain name, as they do where they lie in the source tree.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
