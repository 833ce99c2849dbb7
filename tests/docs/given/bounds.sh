EXPERIMENT=one.textproto
cat > $EXPERIMENT <<'END'
workload { requests: 50 arrivals { kind: poisson rate: 8 } shape { prompt { kind: fixed value: 512 } output { kind: fixed value: 16 } } }
system { model: "llama-3.1-8b" hardware: "h100-sxm" }
policy { vllm_v1 {} }
cost { roofline {} }
END
