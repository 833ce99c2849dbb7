needs curl
# A run that vLLM's benchmark would have saved, and two runs beside it.
twinserve run --model llama-3.1-8b --hardware h100 --server "vLLM 0.15.1" --rate 8 --requests 80 --export vllm-detailed --out runs/vllm
cp runs/vllm/vllm_bench.json run.json
# Records of a server's steps, by hand: not those of this run, which the program says.
cp "$given/../../unit/traces/step_records.jsonl" steps.jsonl
twinserve run experiments/quickstart/vllm_v1.textproto --set workload.requests=60 --out runs/a
twinserve run experiments/quickstart/sarathi.textproto --set workload.requests=60 --out runs/b
# The server whose metrics are read; it gets its requests after the first snapshot.
start_server experiments/serving/h100.textproto --set system.server="vLLM 0.15.1" --set world.emulated.speed=10
SERVER=http://127.0.0.1:$port
curl() {
  command curl "$@"
  for request in 1 2 3 4 5 6 7 8 9 10; do
    command curl -s -o answer.json "$SERVER/v1/completions" -H 'Content-Type: application/json' -d '{"prompt": "Hello", "max_tokens": 8}'
  done
}
