// Rules that a measured run keeps, whatever file describes it: what can have happened.
#pragma once

#include <string>

#include "traces/benchmark_run.h"

namespace twin {

// Applies the rules to each completed request, in the order of the file, and to the totals:
// - a first token comes after the sending and before the last token; gaps are not negative
// - n tokens have at most n - 1 gaps; first token and gaps add up to the latency
// - totals agree with the requests and with each other; percentiles rise
// Times of one request may differ by 2 % and 10 ms, because an answer ends a little after its last
// token, and go backwards by 100 us, because clocks do. Throws InputError (data) that names the
// request by its number, or the total.
//
// Times that the client did not measure become undefined: a time of 0, and the time between the
// tokens of an answer that came in one piece.
void ApplyMeasuredRules(const std::string& path, BenchmarkRun& run);

}  // namespace twin
