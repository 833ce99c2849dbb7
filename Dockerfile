# An image of a wheel: tools/wheel dist && docker build -t twinserve .
# docker run --rm -v "$PWD:/work" twinserve run quickstart/vllm_v1
ARG BASE=debian:13-slim
FROM ${BASE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY dist/twinserve-*-cp312-abi3-*.whl /tmp/
RUN python3 -m venv /opt/twinserve && /opt/twinserve/bin/pip install --no-cache-dir --no-deps /tmp/twinserve-*.whl && rm /tmp/twinserve-*.whl
WORKDIR /work
ENTRYPOINT ["/opt/twinserve/bin/twinserve"]
