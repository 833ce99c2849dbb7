"""Commands of pages that run_page.py does not run, or runs with smaller inputs.

Keys are the command lines of the page, without a comment behind them; of a block of Python, its first
line. A command that no page has fails.
"""
REASONS = {
    "builds": "compiles or installs the program",
    "download": "needs a network",
    "gpu": "needs a GPU",
    "long": "computes for minutes or hours",
    "other program": "is no program of twinserve",
}

VLLM = "download: a release of vLLM; tests/python/engines_test.py runs them where one is installed"
AIPERF = "download: aiperf; tests/python/load_generator_test.py runs the five commands"
LOOP = "download: aiperf; tests/python/deployment_loop_test.py runs both scripts"
MY_POLICY = "builds: tests/examples compiles docs/examples/my_policy against the installed headers, and runs it"
MY_LIBRARY = "builds: tests/unit/apps/own_policy_command_test.cc compiles a library and runs such commands"

NOT_RUN = {
    "README.md": {
        "./quickstart": "builds: tests/fresh_machine/run",
        "./test": "builds: tests/fresh_machine/run",
        "tools/wheel dist": "builds: ./test --all builds wheels",
        "pip install twinserve-*.whl": "builds: tests/wheel/check_wheels.py",
        "pip install 'twinserve[plots]'": "download: tests/wheel/check_wheels.py installs the extras",
        "pip install .": "builds: tests/python/pip_install_test.sh",
        "cmake --preset cuda": "builds: ./test --all, where nvcc is installed",
        "cmake --preset bundle && cmake --build --preset bundle": "builds: ./test --all, where nvcc is installed",
    },
    "docs/deployments.md": {
        "tools/setup load_generator": LOOP,
        "export PATH=$PWD/experiments/serving/emulated_vllm:$PWD/build/release/apps:$PATH": LOOP,
        "cd d": LOOP,
        "./server.sh &": LOOP,
        "until curl -sf http://127.0.0.1:8000/health; do sleep 1; done": LOOP,
        "REQUESTS=40 ./bench.sh": LOOP,
        "kill %1": LOOP,
    },
    "docs/engines.md": {
        "twinserve engines install vllm==0.33.0": VLLM,
        "twinserve run quickstart/vllm_v1 --policy my_rules:MyScheduler --engine vllm==0.33.0": VLLM,
        "twinserve run quickstart/vllm_v1 --policy rules.py:MyScheduler --engine vllm==0.33.0": VLLM,
        "twinserve run quickstart/vllm_v1 --engine vllm==0.33.0": VLLM,
        "# my_rules.py": VLLM,
        "twinserve engines remove vllm==0.33.0": VLLM,
    },
    "docs/executor.md": {
        "twinserve doctor --device cuda": "gpu: checks/gpu_check",
    },
    "docs/figures.md": {
        "tools/setup python": "builds: ./quickstart",
        "experiments/recommend/run --advice": "long: tests/plots draws such a figure",
        "experiments/recommend/run --figures": "long",
    },
    "docs/judge.md": {
        "experiments/policy_search/search.py --seed 7": "long: tests/python/judge_test.py, with 7 candidates",
        "experiments/policy_search/caught.py": "long: tests/python/judge_test.py",
        "twinserve judge libmine.so": "builds: tests/unit/apps/judge_command_test.cc judges a library",
        "twinserve judge my_rules:MyScheduler --engine vllm==0.33.0 --set policy.vllm_v1.release=v0_33_0"
        " --set policy.vllm_v1.async_scheduling=true": VLLM,
    },
    "docs/my-measured-run.md": {
        "python -m dynamo.vllm --fpm-trace": "other program: Dynamo with vLLM",
    },
    "docs/parameters.md": {
        "twinserve recommend --model Qwen/Qwen3-32B --hardware h100 --devices 8 --rate 20 --input-len 1024 --output-len 256 "
        "--until 'p99_ttft_ms<=500 && mean_tpot_ms<=20' --deploy d": "long: a search on 8 devices",
        "experiments/recommend/run --figures": "long",
        "python -m sglang.launch_server": "other program: SGLang",
    },
    "docs/python.md": {
        "pip install twinserve-*.whl": "builds: tests/wheel/check_wheels.py",
        "pip install .": "builds: tests/python/pip_install_test.sh",
        "pip install '.[tables]'": "builds: tests/wheel/check_wheels.py installs the extras of a wheel",
        "cmake --build build/release --target twin_python": "builds: ./test --all",
    },
    "docs/serving.md": {
        "cmake --preset release": "builds: ./test --all",
        "cmake --build --preset release --target twinserve": "builds: ./test --all",
        "tools/setup python load_generator": AIPERF,
        "build/venv/bin/python experiments/serving/make_tokenizer.py runs/tokenizer": AIPERF,
        "build/release/apps/twinserve serve experiments/serving/h100.textproto --tokenizer runs/tokenizer"
        " --port 8000 --out runs/served --quiet &": AIPERF,
        "build/load_generator/bin/aiperf profile --model llama-3-8b --tokenizer runs/tokenizer"
        " --url http://127.0.0.1:8000 --endpoint-type chat --streaming --concurrency 8 --request-count 64"
        " --synthetic-input-tokens-mean 256 --output-tokens-mean 64 --extra-inputs ignore_eos:true"
        " --use-server-token-count --artifact-dir runs/aiperf --ui none": AIPERF,
        "kill %1; wait; build/release/apps/twinserve replay runs/served": AIPERF,
    },
    "docs/studies.md": {
        'twinserve.sweep("study.textproto", cluster="auto", out="runs/study")':
            "download: Ray; tests/python/cluster_test.py",
        "python -m pip install ray pyarrow": "download: Ray",
    },
    "docs/tokenizers.md": {
        "tests/text/compare_tokenizers.py PROGRAM": "builds: a test of ./test --all",
        "./test --all": "builds: CI",
    },
    "docs/tutorial.md": {
        "git clone <this repository> twinserve": "download: the page's reader has done it",
        "cd twinserve": "download: the folder of the line before",
        "./quickstart": "builds: tests/fresh_machine/run",
        "tools/setup && cmake --preset release && cmake --build build/release --target twinserve":
            "builds: ./test --all",
    },
    "docs/write-a-policy.md": {
        "cmake --preset release && cmake --build build/release --target twin_development": MY_POLICY,
        "cmake --install build/release --component development --prefix ~/twinserve": MY_POLICY,
        "cmake -S docs/examples/my_policy -B build/my_policy -DCMAKE_PREFIX_PATH=~/twinserve"
        " && cmake --build build/my_policy": MY_POLICY,
        "build/my_policy/my_policy docs/examples/my_policy/experiment.textproto": MY_POLICY,
        "twinserve run docs/examples/my_policy/experiment.textproto"
        " --policy build/my_policy/libshortest_prompt_first.so": MY_LIBRARY,
        "twinserve sweep study.textproto --policy libshortest_prompt_first.so --out results": MY_LIBRARY,
        "twinserve capacity experiment.textproto --policy libshortest_prompt_first.so"
        " --set policy.own.parameters.patience_s=5 --vary workload.arrivals.rate --between 1,50"
        " --until 'p99_ttft_ms<=1000'": MY_LIBRARY,
    },
}

# Commands that are run in place of one that takes long, or that writes into the source tree.
JUDGED = "--seed 7 --cells 1 --rounds 2 --rounds-max 2 --hostile 20"
SEARCHED = "--doublings 0 --replications 5"
SMALLER = {
    "docs/judge.md": {
        "twinserve judge fair.py": f"twinserve judge fair.py {JUDGED}",
        "twinserve judge fair.py:Fair other.py": f"twinserve judge fair.py:Fair other.py {JUDGED}",
        "twinserve judge fair.py --on search --quick": "twinserve judge fair.py --on search --quick --seed 7",
        "twinserve judge fair.py --experiment my.textproto --metric mean_e2el_ms":
            f"twinserve judge fair.py --experiment my.textproto --metric mean_e2el_ms {JUDGED}",
    },
    "docs/policies/README.md": {
        "experiments/pathologies/run --update":
            "experiments/pathologies/run --check --binary build/release/apps/twinserve --out runs/pathologies",
    },
    "docs/policies/disaggregation.md": {
        "twinserve sweep experiments/disaggregation/study.textproto --out runs/disaggregation":
            "twinserve sweep experiments/disaggregation/study.textproto --out runs/disaggregation"
            " --set workload.requests=10",
    },
    "docs/python.md": {
        "twinserve capacity first.textproto --policy fair.py --vary workload.arrivals.rate --between 1,50"
        " --until 'p99_ttft_ms<=1000'":
            "twinserve capacity first.textproto --policy fair.py --vary workload.arrivals.rate --between 1,50"
            f" --until 'p99_ttft_ms<=1000' {SEARCHED} --set workload.requests=20",
        "python apps/python/examples/policy_speed.py":
            "python apps/python/examples/policy_speed.py experiments/speed/vllm_v1.textproto 100",
    },
    "docs/studies.md": {
        "twinserve capacity a.textproto b.textproto --vary workload.arrivals.rate --between 1,50"
        " --until 'p99_ttft_ms<=1000 && p99_tpot_ms<=100'":
            "twinserve capacity a.textproto b.textproto --vary workload.arrivals.rate --between 1,50"
            f" --until 'p99_ttft_ms<=1000 && p99_tpot_ms<=100' {SEARCHED}",
    },
}
