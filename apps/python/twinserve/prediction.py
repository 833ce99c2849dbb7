"""How long operations, steps and the requests of deployments take."""
from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twinserve import _extras, _native
from twinserve.experiment import report

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = _extras.pandas()

Table = pd.DataFrame | str | os.PathLike[str]
Reports = tuple[list[str], list[str]]  # warnings, notes


def predict_operations(table: Table, hardware: str, operation: str, *,
                       profile: str | os.PathLike[str] = "") -> pd.DataFrame:
    """Predicts how long operations take on a device.

    table      DataFrame or CSV file, one operation per row. gemm: columns m, n, k.
               context_attention: num_heads, num_kv_heads, head_dim, batch, seq_len.
               generation_attention: the same with kv_len (tokens attended to) for seq_len.
    hardware   name of a data sheet ("h100-sxm") or a file
    operation  gemm, context_attention or generation_attention
    profile    a folder that replaces the built-in profile of the device

    Returns the table with predicted_us, predicted_low_us and predicted_high_us, microseconds; low
    and high are a 90 % interval. Raises InputError.
    """
    frame, reports = _predict(table, lambda source, target: _native.predict_operations(
        source, target, hardware, operation, os.fspath(profile)))
    report(reports)
    return frame


def predict_steps(table: Table, hardware: str, model: str, *, tensor: int = 1, pipeline: int = 1,
                  engine: str = "v1_async", profile: str | os.PathLike[str] = "") -> pd.DataFrame:
    """Predicts how long steps of a model take on devices.

    table     DataFrame or CSV file, one step per row: decode_reqs, decode_context_tokens (tokens
              that all decodes attend to), prefill_reqs, prefill_tokens; optional
              prefill_context_tokens, and duty (0 = rested to 1) or t_us (end of the step)
    hardware  name of a data sheet ("h100-sxm") or a file
    model     name of a model ("llama-3-8b")
    tensor, pipeline  ranks of tensor parallelism, pipeline stages
    engine    how the host prepares steps: v1_async, v1_sync, v0, tgis,
              twinserve, trtllm or sglang
    profile   a folder that replaces the built-in profile of the device

    Returns the table with predicted_us, predicted_low_us and predicted_high_us, microseconds; low
    and high are a 90 % interval. Raises InputError.
    """
    frame, reports = _predict(table, lambda source, target: _native.predict_steps(
        source, target, hardware, model, tensor, pipeline, engine, os.fspath(profile)))
    report(reports)
    return frame


def predict_serving(table: Table, *, overrides: Sequence[str] = (), seed: int = 1,
                    jobs: int | None = None,
                    progress: Callable[[str, int, int], None] | None = None) -> pd.DataFrame:
    """Predicts the mean latencies of deployments under closed-loop load, one simulation per row.

    table      DataFrame or CSV file, one deployment per row: id, model, engine, device, isl, osl,
               concurrency, tp; optional version, weights, kv, range_ratio and the settings of the
               server (docs/deployments.md)
    overrides  changes to every experiment, as the command line's --set takes them
    seed       of every simulation
    jobs       rows at a time; default: one per core
    progress   called as progress(what, done, total) about 20 times a second

    Returns one row per deployment: id, ttft_ms, tpot_ms, output_tokens_per_s, devices, refused (why
    a row has no prediction). Raises InputError for a table without its columns.
    """
    frame, reports = _predict(table, lambda source, target: _native.predict_serving(
        source, target, seed, list(overrides), jobs or 0, progress))
    report(reports)
    return frame.drop(columns="input")


def _predict(table: Table, predict: Callable[[str, str], Reports]) -> tuple[pd.DataFrame, Reports]:
    with tempfile.TemporaryDirectory(prefix="twinserve-") as folder:
        target = pathlib.Path(folder, "predicted.csv")
        if isinstance(table, pd.DataFrame):
            source = os.path.join(folder, "table.csv")
            table.to_csv(source, index=False)
        else:
            source = os.fspath(table)
        reports = predict(source, str(target))
        return _extras.read_csv(target), reports
