#include "sim/cost/operation_graph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include <boost/graph/topological_sort.hpp>

#include "core/check.h"

namespace twin::sim {
namespace {

constexpr std::size_t kMaxChains = 32;

using Graph = OperationGraph::Graph;
using Vertex = OperationGraph::Vertex;

Term Scaled(const Term& term, double factor) { return {term.feature, term.coefficient * factor}; }

std::vector<Vertex> TopologicalOrder(const Graph& graph) {
  std::vector<Vertex> reversed;
  boost::topological_sort(graph, std::back_inserter(reversed));
  return {reversed.rbegin(), reversed.rend()};
}

// The vertex in series after `v`: its only successor, if `v` is that one's only predecessor.
std::optional<Vertex> Follower(const Graph& graph, Vertex v) {
  if (boost::out_degree(v, graph) != 1) return std::nullopt;
  const Vertex next = boost::target(*boost::out_edges(v, graph).first, graph);
  return boost::in_degree(next, graph) == 1 ? std::optional(next) : std::nullopt;
}

bool StartsChain(const Graph& graph, Vertex v) {
  if (boost::in_degree(v, graph) != 1) return true;
  return boost::out_degree(boost::source(*boost::in_edges(v, graph).first, graph), graph) != 1;
}

}  // namespace

CriticalPath::CriticalPath(const OperationGraph& operations) {
  const Graph& graph = operations.graph();
  std::vector<std::size_t> chain_of(boost::num_vertices(graph));
  for (const Vertex start : TopologicalOrder(graph)) {
    if (!StartsChain(graph, start)) continue;
    Chain chain{.begin = operations_.size(), .first_predecessor = predecessors_.size()};
    const auto [first, last] = boost::in_edges(start, graph);
    for (auto edge = first; edge != last; ++edge) {
      predecessors_.push_back(chain_of[boost::source(*edge, graph)]);
    }
    chain.last_predecessor = predecessors_.size();
    for (std::optional<Vertex> v = start; v; v = Follower(graph, *v)) {
      chain_of[*v] = chains_.size();
      operations_.push_back(graph[*v]);
    }
    chain.end = operations_.size();
    chains_.push_back(chain);
  }
  CHECK(chains_.size() <= kMaxChains);
  for (const Operation& operation : operations_) {
    const auto count = static_cast<double>(operation.count);
    const double per_byte = count / operation.bytes_per_s;
    coefficients_.push_back({.compute = Scaled(operation.flops, count / operation.flops_per_s),
                             .memory = operation.constant_bytes * per_byte,
                             .memory_terms = {Scaled(operation.bytes[0], per_byte),
                                              Scaled(operation.bytes[1], per_byte)},
                             .latency = operation.constant_latency_s * count,
                             .latency_term = Scaled(operation.latency_s, count),
                             .has_rare_terms = operation.bytes[1].coefficient != 0 ||
                                               operation.latency_s.coefficient != 0,
                             .gate = operation.gate});
  }
}

inline double CriticalPath::Seconds(const Coefficients& c, const StepFeatures& x) {
  if (!(x[static_cast<std::size_t>(c.gate)] > 0)) return 0.0;
  const double compute = c.compute.Of(x);
  double memory = c.memory + c.memory_terms[0].Of(x);
  double latency = c.latency;
  if (c.has_rare_terms) {
    memory += c.memory_terms[1].Of(x);
    latency += c.latency_term.Of(x);
  }
  return latency + std::max(compute, memory);
}

inline double CriticalPath::ChainSeconds(const Chain& chain, const StepFeatures& x) const {
  double sum = 0;
  for (std::size_t i = chain.begin; i < chain.end; ++i) sum += Seconds(coefficients_[i], x);
  return sum;
}

inline double CriticalPath::Start(const Chain& chain, const double* finish) const {
  double start = 0;
  for (std::size_t i = chain.first_predecessor; i < chain.last_predecessor; ++i) {
    start = std::max(start, finish[predecessors_[i]]);
  }
  return start;
}

inline double CriticalPath::Finish(const StepFeatures& x, double* finish) const {
  double longest = 0;
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    finish[i] = Start(chains_[i], finish) + ChainSeconds(chains_[i], x);
    longest = std::max(longest, finish[i]);
  }
  return longest;
}

double CriticalPath::Seconds(const StepFeatures& x) const {
  std::array<double, kMaxChains> finish;
  return Finish(x, finish.data());
}

std::vector<OperationCost> CriticalPath::Breakdown(const StepFeatures& x) const {
  std::array<double, kMaxChains> finish;
  std::array<bool, kMaxChains> is_critical{};
  Finish(x, finish.data());
  // Back from the chain that finishes last (the first of equals) over the chains it waited for.
  const auto* const begin = finish.data();
  auto at = static_cast<std::size_t>(std::max_element(begin, begin + chains_.size()) - begin);
  for (bool more = !chains_.empty(); more;) {
    is_critical[at] = true;
    const Chain& chain = chains_[at];
    more = chain.first_predecessor < chain.last_predecessor;
    if (more) {
      at = *std::max_element(
          predecessors_.begin() + static_cast<std::ptrdiff_t>(chain.first_predecessor),
          predecessors_.begin() + static_cast<std::ptrdiff_t>(chain.last_predecessor),
          [&](std::size_t a, std::size_t b) { return finish[a] < finish[b]; });
    }
  }
  std::vector<OperationCost> costs;
  costs.reserve(operations_.size());
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    for (std::size_t j = chains_[i].begin; j < chains_[i].end; ++j) {
      const Operation& operation = operations_[j];
      const bool launched = operation.IsLaunched(x);
      const double count = launched ? static_cast<double>(operation.count) : 0.0;
      costs.push_back({.name = operation.name,
                       .part = operation.part,
                       .count = launched ? operation.count : 0,
                       .seconds = Seconds(coefficients_[j], x),
                       .flops = count * operation.Flops(x),
                       .bytes = count * operation.Bytes(x),
                       .on_critical_path = is_critical[i]});
    }
  }
  return costs;
}

}  // namespace twin::sim
