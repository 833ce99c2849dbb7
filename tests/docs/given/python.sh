use_package
cp "$given/fair.py" docs/examples/first.textproto .
FOLDER=copied
cat > study.textproto <<'END'
base: "first.textproto"
set: "workload.requests=40"
axis { path: "workload.arrivals.rate" values: [1, 2] }
replications: 2
END
