"""The claims, one module a family; each writes its bands above the code that finds the values."""
from families import (anyscale, batching, distserve, exact, fairness, fastgen, kv_cache,
                      latency_metrics, not_yet, orca, padding, prefix_cache, quantization,
                      sarathi, sarathi_serve, speculation, tiles, vllm)

# In the order of the table.
FAMILIES = (exact, orca, vllm, sarathi, sarathi_serve, fastgen, distserve, anyscale, batching,
            kv_cache, prefix_cache, padding, quantization, speculation, tiles, latency_metrics,
            fairness, not_yet)
CLAIMS = [claim for family in FAMILIES for claim in family.CLAIMS]
