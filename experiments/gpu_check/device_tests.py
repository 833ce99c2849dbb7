"""The device tests, in shards with a limit each, and some of them under compute-sanitizer."""
import re
import shutil

from check import TIMED_OUT, Failed, Skipped

EXECUTOR = "*Executor*:*Model*:*Grid*:*Nccl*:AttentionKernels*"
# Name, filter, seconds. The kernels that are the likeliest to hang come last.
SHARDS = (("own kernels", "*-*fa2*:*fa3*:*cuda_core*:" + EXECUTOR, 60),
          ("fa2", "*fa2*", 60),
          ("cuda_core", "*cuda_core*", 60),
          ("executor", EXECUTOR + "-*fa2*:*fa3*:*cuda_core*", 60),
          ("fa3", "*fa3*", 60))
MEMCHECK_SECONDS = 90
# What is tested of attention under memcheck: every kernel, with and without windows and graphs.
MEMCHECK = "|".join((r"CudaAttentionTest\..*/fa2_8_2_128_bf16",
                     r"CudaAttentionTest\..*/fa2_2_2_64_bf16",
                     r"CudaAttentionTest\..*/cuda_core_4_2_64_bf16",
                     r"CudaAttentionTest\..*/cuda_core_3_1_128_bf16",
                     r"CudaAttentionTest\..*/fa3_8_2_128_bf16",
                     r"CudaAttentionTest\..*/fa3_2_2_64_bf16",
                     r"ReplaysOneGraphForChangingDecodes/(fa2|cuda_core)",
                     r"PlansAheadOfTheDevice/fa3"))
# A death test runs the program again.
NOT_IN_MEMCHECK = "DeathTest|FindsBlocksFarBehind"


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


def listed_tests(check, program):
    names, suite = [], ""
    for line in check.call([program, "--gtest_list_tests"], 30).stdout.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith(" "):
            names.append(suite + word)
        else:
            suite = word
    return names


def memcheck_filter(names):
    """Chosen cases of attention, and the first test of every other suite."""
    chosen, suites = [], set()
    for name in names:
        if re.search(NOT_IN_MEMCHECK, name):
            continue
        suite = name.split(".")[0]
        if re.search(MEMCHECK, name):
            chosen.append(name)
        elif suite not in suites and not re.search("fa2|fa3|cuda_core", name):
            chosen.append(name)
        suites.add(suite)
    return ":".join(chosen)


def sanitizer():
    for name in ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer"):
        if shutil.which(name):
            return shutil.which(name)
    return None


def memcheck(check, program):
    """The result under the sanitizer, and what it said. A tool that does not know the device is no
    failure of the program."""
    tool = sanitizer()
    if tool is None:
        return {"skipped": "no compute-sanitizer here"}, ""
    chosen = memcheck_filter(listed_tests(check, program))
    done = check.call([tool, "--tool", "memcheck", "--error-exitcode", "9", program,
                       f"--gtest_filter={chosen}"], MEMCHECK_SECONDS)
    text = f"\n--- memcheck of {chosen}\n{done.stdout}{done.stderr}"
    refusal = re.search(r".*(device not supported|not supported on this device|unable to find|"
                        r"version mismatch).*", done.stdout + done.stderr, re.I)
    if refusal and done.returncode != 0:
        return {"skipped": refusal.group(0).strip("= \t")}, text
    errors = re.findall(r"^========= Invalid|^========= .*error \d+", text, re.M)
    return {"exit_code": done.returncode, "passed": outcome("memcheck", done)["passed"],
            "errors": len(errors)}, text


def lines_of(results, checked):
    lines = []
    for shard in results:
        line = (f"{shard['shard']}: {shard['passed']} passed, {len(shard['failed'])} failed, "
                f"{len(shard['skipped'])} skipped")
        if "ended_in" in shard:
            line += f", exit code {shard['exit_code']} in {shard['ended_in']}"
        lines.append(line)
        lines += [f"  failed {name}" for name in shard["failed"][:8]]
        reasons = {}
        for name, reason in shard["skipped"].items():
            reasons.setdefault(reason, []).append(name)
        lines += [f"  skipped {len(names)}, as {names[0]}: {reason}"
                  for reason, names in reasons.items()]
    lines.append("memcheck: " + (f"skipped: {checked['skipped']}" if "skipped" in checked else
                                 f"exit code {checked['exit_code']}, {checked['passed']} passed, "
                                 f"{checked['errors']} errors"))
    return lines


def tests(check):
    """The stage."""
    program = check.programs["device_test"]
    if program is None:
        raise (Skipped if check.quick else Failed)("no cuda_device_test is built")
    results, texts = [], []
    for name, chosen, seconds in SHARDS:
        done = check.call([program, f"--gtest_filter={chosen}"], seconds)
        results.append(outcome(name, done))
        texts.append(f"--- {name}: {chosen}\n{done.stdout}{done.stderr}")
        (check.out / "tests.txt").write_text("".join(texts))
    checked, text = memcheck(check, program)
    (check.out / "tests.txt").write_text("".join(texts) + text)
    facts = {"shards": results, "memcheck": checked, "lines": lines_of(results, checked)}
    broken = [shard["shard"] for shard in results if shard["exit_code"] != 0]
    if broken:
        raise Failed("device tests failed: " + ", ".join(broken), facts)
    if not all(shard["passed"] for shard in results):
        raise Failed("a shard has no test that passed", facts)
    if checked.get("exit_code") == TIMED_OUT and checked["errors"] == 0:
        facts["memcheck"]["skipped"] = "took too long; no error up to then"
    elif checked.get("exit_code", 0) != 0:
        raise Failed("the sanitizer found something, or a test failed under it", facts)
    return facts
