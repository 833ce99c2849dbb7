# The request of the page, with one open setting and short runs.
{
  sed -n '/^```$/,/^```$/{/^```$/!p;/objective/q}' docs/parameters.md
  printf '%s\n' 'settings { server: "vllm-0.33.0" tensor_parallel: 1 token_budget: [512, 2048] max_num_seqs: 256 gpu_memory_utilization: 0.9 }'
  printf '%s\n' 'requests: 100' 'replications: 3'
} > request.textproto
N=2
S=600
DIR=runs/recommend
