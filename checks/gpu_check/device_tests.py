"""The device tests, in shards with a limit each; one of them under compute-sanitizer."""
import re
import shutil

from check import TIMED_OUT, Failed, Skipped

ATTENTION = "*fa2*:*fa3*:*cuda_core*"
EXECUTOR = "*Executor*:*Model*:*Mixture*:*StoredInt4*:*Grid*:*Nccl*:*AttentionKernelsTest*"
# Name, filter, seconds. The kernels that are the likeliest to hang come last.
SHARDS = (("executor", f"{EXECUTOR}-{ATTENTION}", 30),
          ("own kernels", f"*-{ATTENTION}:{EXECUTOR}", 25),
          ("fa2", "*fa2*", 20),
          ("cuda_core", "*cuda_core*", 20),
          ("fa3", "*fa3*", 20))
MENDED_SECONDS = 30
SANITIZER_SECONDS_MIN = 10


def outcome(name, done):
    """What a run of tests says: counts, the failed, the skipped with their reasons."""
    text = done.stdout
    skips = dict.fromkeys(re.findall(r"^\[  SKIPPED \] (\S+)(?: \(\d+ ms\))?$", text, re.M), "")
    for reason, test in re.findall(r": Skipped\n(.*)\n+\[  SKIPPED \] (\S+) \(", text):
        skips[test] = reason
    failed = sorted(set(re.findall(r"^\[  FAILED  \] (\S+?)(?:,|$| \()", text, re.M)))
    result = {"shard": name, "exit_code": done.returncode, "passed": len(
        re.findall(r"^\[       OK \]", text, re.M)), "failed": failed, "skipped": skips}
    if done.returncode not in (0, 1):
        begun = re.findall(r"^\[ RUN      \] (\S+)$", text, re.M)
        result["ended_in"] = begun[-1] if begun else "its start"
    return result


def sanitizer():
    for name in ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer"):
        if shutil.which(name):
            return shutil.which(name)
    return None


def memcheck(check, chosen):
    """What the sanitizer says of some tests in one line, and all of it. A tool that does not know
    the device is no failure of the program."""
    tool = sanitizer()
    if tool is None:
        return "no compute-sanitizer here", ""
    done = check.call([tool, "--tool", "memcheck", "--error-exitcode", "9",
                       check.programs["device_test"], f"--gtest_filter={chosen}"],
                      check.stage_left())
    text = f"--- memcheck of {chosen}\n{done.stdout}{done.stderr}"
    refusal = re.search(r".*(device not supported|not supported on this device|unable to find|"
                        r"version mismatch).*", text, re.I)
    if refusal and done.returncode != 0:
        return refusal.group(0).strip("= \t"), text
    errors = re.findall(r"^========= (Invalid.*|.*error \d+.*)", text, re.M)
    found = f"{len(errors)} errors, the first: {errors[0]}" if errors else "no error"
    return found + (" when its time was over" if done.returncode == TIMED_OUT else ""), text


def lines_of(results, not_reached):
    lines = []
    for shard in results:
        line = (f"{shard['shard']}: {shard['passed']} passed, {len(shard['failed'])} failed, "
                f"{len(shard['skipped'])} skipped")
        if "ended_in" in shard:
            line += f", exit code {shard['exit_code']} in {shard['ended_in']}"
        lines.append(line)
        lines += [f"  failed {name}" for name in shard["failed"][:5]]
        reasons = {}
        for name, reason in shard["skipped"].items():
            reasons.setdefault(reason, []).append(name)
        lines += [f"  skipped {len(names)}, as {names[0]}: {reason}"
                  for reason, names in list(reasons.items())[:2]]
    return lines + [f"{name}: not reached" for name in not_reached]


def run_shards(check, shards):
    """Results of the shards that the time of the stage suffices for; writes tests.txt as they come."""
    results, not_reached = [], []
    for name, chosen, seconds in shards:
        if check.stopping or check.stage_left() < 3:
            not_reached.append(name)
            continue
        done = check.call([check.programs["device_test"], f"--gtest_filter={chosen}"], seconds)
        results.append(outcome(name, done))
        with (check.out / "tests.txt").open("a") as file:
            file.write(f"--- {name}: {chosen}\n{done.stdout}{done.stderr}")
    return {"shards": results, "not_reached": not_reached, "lines": lines_of(results, not_reached)}


def require_program(check):
    if check.programs["device_test"] is None:
        raise (Skipped if check.quick else Failed)("no cuda_device_test is built")


def broken_shards(facts):
    return [shard["shard"] for shard in facts["shards"] if shard["exit_code"] != 0]


def tests(check):
    """The stage."""
    require_program(check)
    facts = run_shards(check, SHARDS)
    if broken_shards(facts):
        raise Failed("device tests failed: " + ", ".join(broken_shards(facts)), facts)
    if not all(shard["passed"] for shard in facts["shards"]):
        raise Failed("a shard has no test that passed", facts)
    return facts


def shards_to_mend(check):
    """What failed in the first quarter, or was not reached."""
    if check.chosen_tests:
        return [("chosen", check.chosen_tests, MENDED_SECONDS)]
    earlier = ((check.previous or {}).get("stages", {})).get("tests", {})
    failed = [name for shard in earlier.get("shards", [])
              for name in {*shard["failed"], shard.get("ended_in", "its start")} - {"its start"}]
    shards = [("failed before", ":".join(sorted(failed)), MENDED_SECONDS)] if failed else []
    return shards + [shard for shard in SHARDS if shard[0] in earlier.get("not_reached", [])]


def mended(check):
    """The stage: once more what failed, under the sanitizer if it fails again."""
    require_program(check)
    shards = shards_to_mend(check)
    if not shards:
        raise Skipped("no test failed or was left out before")
    facts = run_shards(check, shards)
    if not broken_shards(facts):
        return facts
    names = [name for shard in facts["shards"] for name in shard["failed"]]
    if names and check.stage_left() > SANITIZER_SECONDS_MIN:
        told, text = memcheck(check, names[0])
        facts["lines"].append(f"memcheck of {names[0]}: {told}")
        with (check.out / "tests.txt").open("a") as file:
            file.write(text)
    raise Failed("device tests failed: " + ", ".join(broken_shards(facts)), facts)
