#include "sched/route/router.h"

#include <algorithm>
#include <cstddef>

#include "core/check.h"
#include "core/hash.h"
#include "core/prefix_keys.h"
#include "core/random.h"
#include "sched/route/prefix_index.h"

namespace twin {
namespace {

// The lowest index of the smallest value.
template <class T>
std::int32_t LeastOf(const std::vector<T>& values) {
  return static_cast<std::int32_t>(std::min_element(values.begin(), values.end()) - values.begin());
}

class RoundRobinRouter final : public Router {
 public:
  explicit RoundRobinRouter(std::int32_t replicas) : replicas_(replicas) {}
  std::int32_t Choose(const Request& /*request*/, TimePoint /*now*/,
                      const ReplicaLoads& /*loads*/) override {
    const std::int32_t chosen = next_;
    next_ = next_ + 1 == replicas_ ? 0 : next_ + 1;
    return chosen;
  }

 private:
  std::int32_t replicas_;
  std::int32_t next_ = 0;
};

class RandomRouter final : public Router {
 public:
  RandomRouter(std::int32_t replicas, std::uint64_t seed)
      : replicas_(replicas), random_(seed, "router") {}
  std::int32_t Choose(const Request& /*request*/, TimePoint /*now*/,
                      const ReplicaLoads& /*loads*/) override {
    return static_cast<std::int32_t>(random_.UniformInt(0, replicas_ - 1));
  }

 private:
  std::int32_t replicas_;
  Random random_;
};

class LeastRequestsRouter final : public Router {
 public:
  std::int32_t Choose(const Request& /*request*/, TimePoint /*now*/,
                      const ReplicaLoads& loads) override {
    return LeastOf(loads.requests);
  }
  [[nodiscard]] bool reads_loads() const override { return true; }
};

class LeastTokensRouter final : public Router {
 public:
  std::int32_t Choose(const Request& /*request*/, TimePoint /*now*/,
                      const ReplicaLoads& loads) override {
    std::size_t least = 0;
    for (std::size_t i = 1; i < loads.requests.size(); ++i) {
      if (Pending(loads, i) < Pending(loads, least)) least = i;
    }
    return static_cast<std::int32_t>(least);
  }
  [[nodiscard]] bool reads_loads() const override { return true; }

 private:
  static std::int64_t Pending(const ReplicaLoads& loads, std::size_t i) {
    return loads.prompt_tokens[i] + loads.unanswered[i];
  }
};

class LeastKvRouter final : public Router {
 public:
  std::int32_t Choose(const Request& /*request*/, TimePoint /*now*/,
                      const ReplicaLoads& loads) override {
    return LeastOf(loads.blocks);
  }
  [[nodiscard]] bool reads_loads() const override { return true; }
  [[nodiscard]] bool reads_blocks() const override { return true; }
};

// Among equals the first that was drawn.
class PowerOfTwoRouter final : public Router {
 public:
  PowerOfTwoRouter(std::int32_t replicas, std::uint64_t seed)
      : replicas_(replicas), random_(seed, "router") {}
  std::int32_t Choose(const Request& /*request*/, TimePoint /*now*/,
                      const ReplicaLoads& loads) override {
    if (replicas_ == 1) return 0;
    const auto first = static_cast<std::int32_t>(random_.UniformInt(0, replicas_ - 1));
    auto second = static_cast<std::int32_t>(random_.UniformInt(0, replicas_ - 2));
    if (second >= first) ++second;
    const auto load = [&](std::int32_t i) { return loads.requests[static_cast<std::size_t>(i)]; };
    return load(second) < load(first) ? second : first;
  }
  [[nodiscard]] bool reads_loads() const override { return true; }

 private:
  std::int32_t replicas_;
  Random random_;
};

// Jump consistent hashing (Lamping and Veach, 2014): with one replica more, one in N + 1 sessions
// moves, and only to the new one.
class SessionHashRouter final : public Router {
 public:
  SessionHashRouter(std::int32_t replicas, std::int32_t keys_per_block)
      : replicas_(replicas), keys_per_block_(keys_per_block) {}
  std::int32_t Choose(const Request& request, TimePoint /*now*/,
                      const ReplicaLoads& /*loads*/) override {
    std::uint64_t key = MixWords(KeyOf(request), 0x9E3779B97F4A7C15ull);
    std::int64_t bucket = -1;
    for (std::int64_t next = 0; next < replicas_;) {
      bucket = next;
      key = key * 2862933555777941757ull + 1;
      next = static_cast<std::int64_t>(
          static_cast<double>(bucket + 1) *
          (static_cast<double>(std::int64_t{1} << 31) / static_cast<double>((key >> 33) + 1)));
    }
    return static_cast<std::int32_t>(bucket);
  }
  // Requests without a session.
  [[nodiscard]] bool reads_prefixes() const override { return true; }

 private:
  [[nodiscard]] std::uint64_t KeyOf(const Request& request) const {
    if (request.session != 0) return request.session;
    const BlockKeys keys(request.prefix_keys, keys_per_block_);
    return keys.empty() ? Index(request.id) : static_cast<std::uint64_t>(keys[0]);
  }

  std::int32_t replicas_;
  std::int32_t keys_per_block_;
};

class PrefixAffinityRouter final : public Router {
 public:
  PrefixAffinityRouter(const RouterConfig& config, std::int32_t replicas,
                       std::int32_t keys_per_block)
      : config_(config),
        keys_per_block_(keys_per_block),
        index_(replicas, config.max_tree_size, config.eviction_interval) {}

  std::int32_t Choose(const Request& request, TimePoint now, const ReplicaLoads& loads) override {
    const BlockKeys keys(request.prefix_keys, keys_per_block_);
    const std::int32_t chosen = Select(keys, loads);
    index_.Insert(chosen, keys, now);
    return chosen;
  }
  [[nodiscard]] bool reads_loads() const override { return true; }
  [[nodiscard]] bool reads_prefixes() const override { return true; }

 private:
  std::int32_t Select(const BlockKeys& keys, const ReplicaLoads& loads) {
    const auto [least, most] = std::minmax_element(loads.requests.begin(), loads.requests.end());
    const bool imbalanced =
        *most - *least > config_.balance_abs_threshold &&
        static_cast<double>(*most) > config_.balance_rel_threshold * static_cast<double>(*least);
    if (imbalanced) return LeastOf(loads.requests);
    const std::vector<std::int32_t>& matched = index_.Match(keys);
    const auto best = std::max_element(matched.begin(), matched.end());
    const auto length = static_cast<double>(keys.size());
    if (length > 0 && *best / length > config_.cache_threshold) {
      return static_cast<std::int32_t>(best - matched.begin());
    }
    return LeastOf(index_.sizes());
  }

  RouterConfig config_;
  std::int32_t keys_per_block_;
  PrefixIndex index_;
};

class KvOverlapRouter final : public Router {
 public:
  KvOverlapRouter(const RouterConfig& config, std::int32_t replicas, std::int32_t block_size,
                  std::int32_t keys_per_block)
      : weight_(config.overlap_weight),
        block_size_(block_size),
        keys_per_block_(keys_per_block),
        index_(replicas, config.max_tree_size, config.eviction_interval) {}

  std::int32_t Choose(const Request& request, TimePoint now, const ReplicaLoads& loads) override {
    const BlockKeys keys(request.prefix_keys, keys_per_block_);
    const std::vector<std::int32_t>& matched = index_.Match(keys);
    std::size_t least = 0;
    double least_cost = 0;
    for (std::size_t i = 0; i < matched.size(); ++i) {
      const std::int64_t tokens =
          loads.prompt_tokens[i] + request.prompt_tokens - std::int64_t{matched[i]} * block_size_;
      const double prefill_blocks = static_cast<double>(tokens) / block_size_;
      // The blocks of the prompt itself are the same everywhere.
      const double cost = weight_ * prefill_blocks + static_cast<double>(loads.blocks[i]);
      if (i > 0 && cost >= least_cost) continue;
      least = i;
      least_cost = cost;
    }
    const auto chosen = static_cast<std::int32_t>(least);
    index_.Insert(chosen, keys, now);
    return chosen;
  }
  [[nodiscard]] bool reads_loads() const override { return true; }
  [[nodiscard]] bool reads_blocks() const override { return true; }
  [[nodiscard]] bool reads_prefixes() const override { return true; }

 private:
  double weight_;
  std::int32_t block_size_;
  std::int32_t keys_per_block_;
  PrefixIndex index_;
};

}  // namespace

std::unique_ptr<Router> MakeRouter(const RouterConfig& config, std::int32_t replicas,
                                   std::int32_t block_size, std::uint64_t seed,
                                   std::int32_t keys_per_block) {
  CHECK(replicas >= 1 && block_size >= 1 && keys_per_block >= 1);
  switch (config.kind) {
    case RouterKind::kRoundRobin:
      return std::make_unique<RoundRobinRouter>(replicas);
    case RouterKind::kRandom:
      return std::make_unique<RandomRouter>(replicas, seed);
    case RouterKind::kLeastRequests:
      return std::make_unique<LeastRequestsRouter>();
    case RouterKind::kLeastTokens:
      return std::make_unique<LeastTokensRouter>();
    case RouterKind::kLeastKv:
      return std::make_unique<LeastKvRouter>();
    case RouterKind::kPowerOfTwo:
      return std::make_unique<PowerOfTwoRouter>(replicas, seed);
    case RouterKind::kSessionHash:
      return std::make_unique<SessionHashRouter>(replicas, keys_per_block);
    case RouterKind::kPrefixAffinity:
      return std::make_unique<PrefixAffinityRouter>(config, replicas, keys_per_block);
    case RouterKind::kKvOverlap:
      return std::make_unique<KvOverlapRouter>(config, replicas, block_size, keys_per_block);
  }
  CHECK(false);
  return nullptr;
}

bool NeedsCachedPrefixes(RouterKind kind) {
  return kind == RouterKind::kPrefixAffinity || kind == RouterKind::kKvOverlap;
}

}  // namespace twin
