use_package
STUDY=runs/study
RUN_DIR="runs/vllm_v1 runs/sarathi"
VALIDATION_DIR=runs/validation
FOLDER=checks/fidelity/expected
REQUEST=request.textproto
ANSWER=answer.json
CAPACITY=runs/l4/capacity.json
for name in vllm_v1 sarathi; do
  twinserve run experiments/quickstart/$name.textproto --set workload.requests=150 --set outputs.record=true --export vllm-detailed --out runs/$name
done
cat > study.textproto <<'END'
base: "docs/examples/first.textproto"
set: ["workload.requests=60", "slo={ttft_s: 1 tpot_s: 0.05}"]
axis { path: "workload.arrivals.rate" values: [2, 4] }
axis { path: "policy.vllm_v1.max_num_batched_tokens" values: [512, 2048] }
replications: 3
END
twinserve sweep study.textproto --out runs/study
build/release/apps/twinserve validate experiments/quickstart_cpu/vllm_v1.textproto --set workload.requests=4 --repeats 1 \
  --set 'cost=linear { base_s: 0.005 }' --out runs/validation
cat > request.textproto <<'END'
model { name: "llama-3-8b" }
hardware { name: "l4" }
workload { preset: conversation arrivals { kind: closed_loop users: 1 } }
objective: latency
settings { server: "vllm-0.33.0" token_budget: [512, 2048] max_num_seqs: 256 gpu_memory_utilization: 0.9 }
requests: 100
replications: 3
END
twinserve recommend request.textproto --exhaustive --format json > answer.json
# As `experiments/recommend/run --advice` does, with one device and short runs.
for name in tgi3_advice tgi3_server; do
  cat > $name.textproto <<END
base: "experiments/recommend/_chat.textproto"
system { hardware: "l4" server: "tgi-3.3.7" }
workload { requests: 50 }
END
done
printf '%s\n' 'policy { tgi_v3 { max_batch_prefill_tokens: 4096 max_batch_total_tokens: 16384 } }' >> tgi3_advice.textproto
mkdir runs/l4
twinserve capacity tgi3_advice.textproto tgi3_server.textproto --vary workload.arrivals.rate --between 0.02,60 \
  --until 'slo_attainment>=0.9' --replications 5 --doublings 0 --format json > runs/l4/capacity.json
