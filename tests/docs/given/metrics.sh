twinserve run experiments/quickstart/vllm_v1.textproto --set workload.requests=20 --out runs/one
RUN=runs/one
