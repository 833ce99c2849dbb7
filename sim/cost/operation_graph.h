// The operations of a pipeline stage and the order between them. The length of the critical path is
// the stage's time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "sim/cost/operation.h"

namespace twin::sim {

// A directed acyclic graph. An edge means that an operation begins only after another has finished,
// because it needs its data or runs on the same stream. An operation with a count stands for the
// copies of a repeated block. This is exact if the block has one entry and one exit, because the
// longest path through n copies in series is then n times the longest path through one.
class OperationGraph {
 public:
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Operation>;
  using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

  // Two steps, because GCC 12 takes Boost's way of adding with a property for uninitialised.
  Vertex Add(Operation operation) {
    const Vertex vertex = boost::add_vertex(graph_);
    graph_[vertex] = std::move(operation);
    return vertex;
  }
  void Order(Vertex before, Vertex after) { boost::add_edge(before, after, graph_); }

  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
};

// The contribution of one operation to a step, summed over its executions.
struct OperationCost {
  std::string_view name;  // lives as long as the critical path
  StepPart part = StepPart::kOther;
  std::int64_t count = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
  bool on_critical_path = false;
};

// A graph prepared for evaluation: its topological order, its chains, and the operations that
// depend on each group of features are computed once. Operations whose features are those of the
// step before are then not computed again.
class CriticalPath {
 public:
  // REQUIRES: the graph has no cycle and at most 32 maximal chains.
  explicit CriticalPath(const OperationGraph& operations);

  // Length of the longest path. Allocates.
  [[nodiscard]] double Seconds(const StepFeatures& x) const { return Seconds(SecondsOfAll(x)); }

  // Length of the array that Compute() and Seconds() work on: an element for each operation, and
  // zeros that make up whole groups of kAddends.
  [[nodiscard]] std::size_t slots() const {
    return (operations_.size() + kAddends - 1) / kAddends * kAddends;
  }

  // Sets the seconds of the operations that depend on a group of features, without allocation.
  // REQUIRES: seconds.size() == slots().
  void Compute(FeatureGroup group, const StepFeatures& x, std::span<double> seconds) const {
    for (const std::uint32_t i : by_group_[static_cast<std::size_t>(group)]) {
      seconds[i] = Seconds(coefficients_[i], x);
    }
  }

  // Length of the longest path, from the seconds of all operations. REQUIRES: as for Compute().
  [[nodiscard]] double Seconds(std::span<const double> seconds) const {
    if (chains_.size() == 1) return SumOfAll(seconds);
    std::array<double, kMaxChains> finish;
    return Finish(seconds, finish.data());
  }

  // Every operation, in topological order. The seconds of the operations on the critical path add
  // up to Seconds(x).
  [[nodiscard]] std::vector<OperationCost> Breakdown(const StepFeatures& x) const;

 private:
  static constexpr std::size_t kMaxChains = 32;
  static constexpr std::size_t kAddends = 4;  // in each turn of SumOfAll()

  // An operation with all divisions and its count already applied.
  struct Coefficients {
    Term compute;
    double memory = 0;
    std::array<Term, 2> memory_terms{};
    double latency = 0;
    Term latency_term;
    bool has_rare_terms = false;  // memory_terms[1], latency_term
    Feature gate = Feature::kTokens;
  };
  // Operations in series, [begin, end), and the chains that must finish before them,
  // predecessors_[first_predecessor, last_predecessor).
  struct Chain {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t first_predecessor = 0;
    std::size_t last_predecessor = 0;
  };

  [[nodiscard]] static double Seconds(const Coefficients& c, const StepFeatures& x) {
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
  // In order, because the order decides about the last digits; zeros at the end change none.
  [[nodiscard]] static double SumOfAll(std::span<const double> seconds) {
    double sum = 0;
    const double* const end = seconds.data() + seconds.size();
    for (const double* at = seconds.data(); at != end; at += kAddends) {
      sum = sum + at[0] + at[1] + at[2] + at[3];
    }
    return sum;
  }
  void ListGroups();
  [[nodiscard]] std::vector<double> SecondsOfAll(const StepFeatures& x) const;
  [[nodiscard]] double Start(const Chain& chain, const double* finish) const;
  // Writes each chain's finishing time; the latest one.
  double Finish(std::span<const double> seconds, double* finish) const;

  std::vector<Operation> operations_;  // chain by chain
  std::vector<Coefficients> coefficients_;
  std::array<std::vector<std::uint32_t>, kFeatureGroupCount> by_group_;  // indices of operations
  std::vector<Chain> chains_;                                            // in topological order
  std::vector<std::size_t> predecessors_;
};

}  // namespace twin::sim
