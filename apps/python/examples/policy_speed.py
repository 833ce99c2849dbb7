"""Steps per CPU second with a policy in C++ and with one in Python.

Usage: apps/python/examples/policy_speed.py [EXPERIMENT] [REQUESTS]
"""
import sys
import time
import warnings

import twinserve
from shortest_prompt_first import ShortestPromptFirst

experiment = sys.argv[1] if len(sys.argv) > 1 else "experiments/speed/vllm_v1.textproto"
requests = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
changes = {"workload.requests": requests, "outputs.requests_csv": False,
           "outputs.steps_csv": False, "outputs.series_csv": False}
warnings.simplefilter("ignore", twinserve.RunWarning)
for name, policy in (("of the experiment", None), ("ShortestPromptFirst", ShortestPromptFirst)):
    speeds = []
    for _ in range(5):
        begin = time.process_time()
        run = twinserve.run(experiment, changes, policy=policy)
        speeds.append(run.summary["steps"] / (time.process_time() - begin))
    print(f"{name}: {run.summary['steps']} steps, {run.summary['mean_running']:.1f} running, "
          f"{max(speeds):,.0f} steps per CPU second (best of 5)")
