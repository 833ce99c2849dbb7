use_package
cp "$given/fair.py" .
cp "$given/fair.py" other.py
printf '%s\n' 'base: "experiments/quickstart/vllm_v1.textproto"' 'workload { requests: 60 }' > my.textproto
