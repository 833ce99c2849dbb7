#include "sim/cost/operation_graph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include <boost/graph/topological_sort.hpp>

#include "core/check.h"

namespace twin::sim {
namespace {

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
  ListGroups();
}

void CriticalPath::ListGroups() {
  for (std::uint32_t i = 0; i < coefficients_.size(); ++i) {
    const Coefficients& c = coefficients_[i];
    std::array<bool, kFeatureGroupCount> depends{};
    const auto on = [&](Feature feature) {
      depends[static_cast<std::size_t>(GroupOf(feature))] = true;
    };
    on(c.gate);
    for (const Term& term : {c.compute, c.memory_terms[0], c.memory_terms[1], c.latency_term}) {
      if (term.coefficient != 0) on(term.feature);
    }
    for (std::size_t group = 0; group < kFeatureGroupCount; ++group) {
      if (depends[group]) by_group_[group].push_back(i);
    }
  }
}

std::vector<double> CriticalPath::SecondsOfAll(const StepFeatures& x) const {
  std::vector<double> seconds(slots());
  for (std::size_t i = 0; i < coefficients_.size(); ++i) seconds[i] = Seconds(coefficients_[i], x);
  return seconds;
}

inline double CriticalPath::Start(const Chain& chain, const double* finish) const {
  double start = 0;
  for (std::size_t i = chain.first_predecessor; i < chain.last_predecessor; ++i) {
    start = std::max(start, finish[predecessors_[i]]);
  }
  return start;
}

double CriticalPath::Finish(std::span<const double> seconds, double* finish) const {
  double longest = 0;
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    const Chain& chain = chains_[i];
    double sum = 0;
    for (std::size_t j = chain.begin; j < chain.end; ++j) sum += seconds[j];
    finish[i] = Start(chain, finish) + sum;
    longest = std::max(longest, finish[i]);
  }
  return longest;
}

std::vector<OperationCost> CriticalPath::Breakdown(const StepFeatures& x) const {
  std::array<double, kMaxChains> finish;
  std::array<bool, kMaxChains> is_critical{};
  const std::vector<double> seconds = SecondsOfAll(x);
  Finish(seconds, finish.data());
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
                       .seconds = seconds[j],
                       .flops = count * operation.Flops(x),
                       .bytes = count * operation.Bytes(x),
                       .on_critical_path = is_critical[i]});
    }
  }
  return costs;
}

}  // namespace twin::sim
