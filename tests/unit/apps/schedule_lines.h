// Cases of `twinserve schedule` that tests start from, of tests/golden.
#pragma once

namespace twin::testing {

// Chunked prefill under a budget of 8 tokens.
inline constexpr const char* kChunkedCase =
    R"({"case":"vllm_v1-ex4a","policy":"vllm_v1","variant":"vllm_v1","grade":"ORIG","pa)"
    R"(rams":{"max_num_batched_tokens":8,"max_num_seqs":4,"max_model_len":64,"policy":")"
    R"(fcfs","enable_chunked_prefill":true,"long_prefill_token_threshold":0,"enable_pre)"
    R"(fix_caching":false,"async_scheduling":false},"kv":{"block_size":4,"blocks":8},"r)"
    R"(equests":[{"id":0,"step":1,"prompt":6,"output":3,"max_new":3},{"id":1,"step":1,")"
    R"(prompt":5,"output":3,"max_new":3},{"id":2,"step":2,"prompt":3,"output":2,"max_ne)"
    R"(w":2}],"steps":[{"it":1,"work":[[0,"P",6],[1,"P",2]],"preempted":[],"free":5,"fi)"
    R"(nished":[],"free_after":5},{"it":2,"work":[[0,"D",1],[1,"P",3],[2,"P",3]],"preem)"
    R"(pted":[],"free":3,"finished":[],"free_after":3},{"it":3,"work":[[0,"D",1],[1,"D")"
    R"(,1],[2,"D",1]],"preempted":[],"free":3,"finished":[0,2],"free_after":6},{"it":4,)"
    R"("work":[[1,"D",1]],"preempted":[],"free":6,"finished":[1],"free_after":8}],"exam)"
    R"(ple":"4a","tags":["chunk"]})";

// Rows padded to the longest prompt, computed until the last one ends.
inline constexpr const char* kPaddedCase =
    R"({"case":"static_padded-ex1a","policy":"static_padded","variant":"static_padded",)"
    R"("grade":"MODEL","params":{"max_batch_size":2},"kv":{"block_size":1,"blocks":0},")"
    R"(requests":[{"id":0,"step":1,"prompt":6,"output":4,"max_new":4},{"id":1,"step":1,)"
    R"("prompt":10,"output":2,"max_new":2},{"id":2,"step":1,"prompt":3,"output":3,"max_)"
    R"(new":3}],"steps":[{"it":1,"work":[[0,"P",6],[1,"P",10]],"preempted":[],"rows":[0)"
    R"(,1],"computed_tokens":20,"reserved_slots":28,"finished":[],"delivered":[]},{"it")"
    R"(:2,"work":[[0,"D",1],[1,"D",1]],"preempted":[],"rows":[0,1],"computed_tokens":2,)"
    R"("reserved_slots":28,"finished":[1],"delivered":[]},{"it":3,"work":[[0,"D",1]],"p)"
    R"(reempted":[],"rows":[0,1],"computed_tokens":2,"reserved_slots":28,"finished":[],)"
    R"("delivered":[]},{"it":4,"work":[[0,"D",1]],"preempted":[],"rows":[0,1],"computed)"
    R"(_tokens":2,"reserved_slots":28,"finished":[0],"delivered":[0,1]},{"it":5,"work":)"
    R"([[2,"P",3]],"preempted":[],"rows":[2],"computed_tokens":3,"reserved_slots":6,"fi)"
    R"(nished":[],"delivered":[]},{"it":6,"work":[[2,"D",1]],"preempted":[],"rows":[2],)"
    R"("computed_tokens":1,"reserved_slots":6,"finished":[],"delivered":[]},{"it":7,"wo)"
    R"(rk":[[2,"D",1]],"preempted":[],"rows":[2],"computed_tokens":1,"reserved_slots":6)"
    R"(,"finished":[2],"delivered":[2]}],"example":"1a","tags":["block"]})";

}  // namespace twin::testing
