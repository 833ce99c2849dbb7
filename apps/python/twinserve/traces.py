"""Request traces as tables."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twinserve import _extras, _native

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    pd = _extras.pandas()
    import numpy as np

_DEFAULTS = {"max_output_tokens": None, "predicted_output_tokens": -1, "priority": 0, "tenant": 0,
             "prefix_chunk_tokens": 0}


def read_trace(path: str | os.PathLike[str], format: str = "",
               filters: Mapping[str, object] | None = None) -> pd.DataFrame:
    """Reads a trace of any known format, recognised by its first line (traces/README.md).

    filters  column of the file -> value: keeps only rows with these values

    Returns one row per request in the order of arrival: arrival_ns (nanoseconds; 0 where the file
    has lengths only), prompt_tokens, output_tokens, max_output_tokens, predicted_output_tokens (-1:
    none), priority, tenant, session (0: none), prefix_chunk_tokens, and prefix_chunks (an array of
    identifiers: equal values mean equal content up to there; empty: unknown).
    Raises InputError with file, line and field.
    """
    kept = [(column, str(value)) for column, value in (filters or {}).items()]
    columns = _native.read_trace(os.fspath(path), format, kept)
    data = {name: getattr(columns, name) for name in _native.trace_numbers}
    prefix_chunk_tokens = data.pop("prefix_chunk_tokens")
    frame = pd.DataFrame(data, copy=False)
    frame["session"] = columns.session
    frame["prefix_chunk_tokens"] = prefix_chunk_tokens
    offsets, chunks = columns.prefix_offsets, columns.prefix_chunks
    parts = np.empty(len(frame), dtype=object)
    for row in range(len(frame)):
        parts[row] = chunks[offsets[row]:offsets[row + 1]]
    frame["prefix_chunks"] = parts
    return frame


def write_trace(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes a trace in the CSV format of twinserve, compressed if the path ends in ".gz".

    `frame` has the columns of read_trace(); arrival_ns (or arrival_s), prompt_tokens and
    output_tokens are required. Rows are in the order of arrival.
    Raises InputError with row and column.
    """
    columns = {name: frame[name] for name in frame.columns}
    if "arrival_ns" not in columns and "arrival_s" in columns:
        columns["arrival_ns"] = (columns["arrival_s"] * 1e9).round()
    for name in ("arrival_ns", "prompt_tokens", "output_tokens"):
        if name not in columns:
            raise _native.InputError(f"{name}: is missing; allowed: a column of integers")
    numbers = []
    for name in _native.trace_numbers:
        default = _DEFAULTS.get(name)
        column = columns.get(name, columns["output_tokens"] if default is None else default)
        numbers.append(_integers(name, np.broadcast_to(column, len(frame)), np.int64))
    chunks = list(columns.get("prefix_chunks", [[]] * len(frame)))
    offsets = np.concatenate(([0], np.cumsum([len(part) for part in chunks]))).astype(np.int64)
    flat = np.concatenate([_identifiers(row, part) for row, part in enumerate(chunks)] or
                          [np.empty(0, np.uint64)])
    sessions = np.broadcast_to(columns.get("session", 0), len(frame))
    session = _integers("session", sessions, np.uint64)
    _native.write_trace(os.fspath(path), numbers, session, offsets, flat)


def _integers(name: str, values: object, dtype: type) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and not (
            array.dtype.kind == "f" and np.isfinite(array).all()
            and np.all(array == np.floor(array))):
        raise _native.InputError(f"{name}: holds other values than integers; allowed: integers")
    limits = np.iinfo(dtype)
    for row in (array.argmin(), array.argmax()) if len(array) else ():
        if not limits.min <= int(array[row]) <= limits.max:
            raise _native.InputError(f"row {row}, {name}: is {int(array[row])}; allowed: "
                                     f"{limits.min} to {limits.max}")
    return np.ascontiguousarray(array, dtype=dtype)


def _identifiers(row: int, part: Sequence[int] | np.ndarray) -> np.ndarray:
    """The chunks of one request. A list of large and small integers is no integer array of numpy."""
    if isinstance(part, np.ndarray) and part.dtype.kind == "u":
        return part.astype(np.uint64)
    values = list(part)
    if not all(isinstance(value, (int, np.integer)) and 0 <= int(value) < 2**64
               for value in values):
        raise _native.InputError(f"row {row}, prefix_chunks: holds other values than integers from "
                                 f"0 to {2**64 - 1}")
    return np.array(values, dtype=np.uint64)
