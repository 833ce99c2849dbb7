twinserve run experiments/quickstart/vllm_v1.textproto --set workload.requests=60 --out runs/a --export vllm-detailed
twinserve run experiments/quickstart/sarathi.textproto --set workload.requests=60 --out runs/b
cp runs/a/vllm_bench.json run.json
for name in a b; do
  cat > $name.textproto <<END
workload { requests: 50 arrivals { kind: poisson rate: 2 } shape { prompt { kind: fixed value: 2048 } output { kind: fixed value: 32 } } }
system { server: "vLLM 0.33.0" model: "llama-3.1-8b" hardware: "h100-sxm" }
cost { profile {} }
END
done
printf '%s\n' 'policy { vllm_v1 { max_num_batched_tokens: 512 } }' >> b.textproto
