RANKS=2
EXPERIMENT=ranks.textproto
# For those who are root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat > ranks.textproto <<'END'
base: "experiments/quickstart_cpu/vllm_v1.textproto"
workload { requests: 4 }
system { tensor_parallel: 2 }
END
