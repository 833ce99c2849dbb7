"""Predictions that others committed: imported/predictions.csv, sources in imported/sources.csv.

They are means over all requests of a run.
"""
import csv
import functools
import pathlib

from prediction import METRICS, NotCovered, Prediction

FOLDER = pathlib.Path(__file__).resolve().parent / "imported"


@functools.cache
def rows():
    with (FOLDER / "predictions.csv").open(newline="") as file:
        return {(row["simulator"], row["data_set"], row["run"]): row
                for row in csv.DictReader(file)}


def identity():
    """Predictions are void when the table changes."""
    return (FOLDER / "predictions.csv").read_text()


def prediction(simulator, run, otherwise):
    """The imported prediction of a run; NotCovered with `otherwise` if there is none."""
    row = rows().get((simulator, run.data_set, run.name))
    if row is None:
        raise NotCovered(otherwise)
    return Prediction(**{f"{metric}_ms": float(row[f"{metric}_ms"]) for metric in METRICS},
                      fitted=tuple(row["fitted"].split()), imported=True,
                      whole_run=True,
                      published_wall_s=float(row["wall_s"]) if row["wall_s"] else None)
