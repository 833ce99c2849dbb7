"""Claims whose policy or system twinserve does not have yet."""
from claim import Claim

CLAIMS = [
    Claim("splitwise", "Splitwise: 1.4x at 20 % lower cost, 2.35x at equal cost and power",
          "Patel et al., ISCA 2024", "",
          needs="disaggregation, several replicas, prices and power of machines"),
    Claim("mooncake", "Mooncake: +75 % requests, up to +525 %", "Qin et al., FAST 2025", "",
          needs="disaggregation, a prefix cache shared by nodes, replicas"),
    Claim("fastserve", "FastServe: 5.1x, 31.4x or 6.1x", "Wu et al., arXiv 2305.05920", "",
          needs="fastserve (preemptive multi-level queue with host swap)"),
    Claim("niyama", "Niyama, QoServe: +32 %, 1.5-2.4x", "arXiv 2503.22562; ASPLOS 2026", "",
          needs="a policy with deadlines and classes of service, dynamic chunks, replicas"),
    Claim("low_bits", "GPTQ 3.25x, AWQ 3-4x at batch 1", "arXiv 2210.17323, 2306.00978", "",
          needs="weights of 3 and 4 bits"),
]
