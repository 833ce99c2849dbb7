"""Predicts every run with every simulator, keeps what is finished, and measures CPU time."""
import hashlib
import json
import pathlib
import resource
import statistics
import sys

import recordings
from prediction import METRICS, NotCovered, NotInstalled


def cpu_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def timed(call):
    """(result, CPU seconds): those of the processes that the call started, else of this one."""
    own, others = (cpu_seconds(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    result = call()
    started = cpu_seconds(resource.RUSAGE_CHILDREN) - others
    return result, started if started > 0 else cpu_seconds(resource.RUSAGE_SELF) - own


def key_of(module, run, repetitions):
    """Changes when a kept prediction is no longer of this simulator and this run."""
    digest = hashlib.sha256(recordings.packed(run))
    digest.update(pathlib.Path(module.__file__).read_bytes())
    digest.update(f"{getattr(module, 'identity', str)()} {repetitions}".encode())
    return digest.hexdigest()


def predicted(module, run, repetitions):
    """The record of a prediction; without `ttft_ms` where the simulator does not cover the run."""
    seconds, first = [], None
    try:
        for _ in range(repetitions):
            found, used = timed(lambda: module.predict(run))
            if first is not None and any(found.value(m) != first.value(m) for m in METRICS):
                raise RuntimeError("two predictions of one run differ")
            first = first or found
            seconds.append(used)
            if found.imported:
                break
        intervals = first.intervals
        if intervals is None and hasattr(module, "intervals"):
            intervals = module.intervals(run)
    except NotCovered as reason:
        return {"reason": str(reason)}
    return {**{f"{metric}_ms": first.value(metric) for metric in METRICS},
            "intervals": intervals or {}, "fitted": list(first.fitted),
            "cpu_s": None if first.imported else statistics.median(seconds),
            "published_wall_s": first.published_wall_s, "whole_run": first.whole_run}


def kept(path, key):
    """A record of an earlier call; None without one that is whole and of this key."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if record.get("key") == key else None


def said(record):
    if "reason" in record:
        return f"not covered: {record['reason']}"
    times = ", ".join(f"{metric.upper()} {record[f'{metric}_ms']:.5g} ms" for metric in METRICS)
    cpu = "" if record["cpu_s"] is None else f", {record['cpu_s']:.3g} CPU-s"
    return times + cpu


def predict_all(simulators, runs, folder, repetitions):
    """({(simulator, full name): record}, simulators that failed); records stay in the folder."""
    records, failed, done = {}, set(), 0
    for name, module in simulators.items():
        for run in runs.values():
            done += 1
            progress = f"[{done}/{len(simulators) * len(runs)}] {name} {run.full_name}: "
            path = folder / name / f"{run.full_name.replace('/', '.')}.json"
            key = key_of(module, run, repetitions)
            record = kept(path, key)
            try:
                if record is None:
                    record = predicted(module, recordings.blind(run), repetitions)
                    record["key"] = key
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(record))
                    print(progress + said(record), file=sys.stderr, flush=True)
            except NotInstalled as missing:
                print(f"referee: {name}: left out, it is not installed: {missing}",
                      file=sys.stderr)
                failed.add(name)
                done += sum(other.full_name > run.full_name for other in runs.values())
                break
            except (RuntimeError, OSError, ValueError) as error:
                print(f"referee: {name} {run.full_name}: {error}", file=sys.stderr)
                failed.add(name)
                continue
            records[name, run.full_name] = record
    return records, failed
