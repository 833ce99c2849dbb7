needs mpirun
RANKS=2
EXPERIMENT=ranks.textproto
# For those who are root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# For machines with one core.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
cat > ranks.textproto <<'END'
base: "experiments/quickstart_cpu/vllm_v1.textproto"
workload { requests: 4 }
system { tensor_parallel: 2 }
END
