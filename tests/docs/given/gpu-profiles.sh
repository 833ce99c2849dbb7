N=20
for rate in 2 4; do
  build/release/apps/twinserve run docs/examples/first.textproto --set workload.arrivals.rate=$rate --set workload.requests=50 --out runs/rate_$rate
done
RUN_DIR="runs/rate_2 runs/rate_4"
