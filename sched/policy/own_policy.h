// A policy that is not in the registry: the caller of the library wrote it.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "sched/cache/kv_pool.h"
#include "sched/policy/policy.h"

namespace twin {

// A policy of the caller failed. The message is one line that names it.
class PolicyFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Replaces the policy that an experiment names.
struct OwnPolicy {
  std::string name;
  std::string place = "";  // its definition: "fair.py, line 12" or "libfair.so"; may be empty
  PolicyTraits traits;     // their `name` and `memory_rule` must outlive every use of this object
  // A fresh policy for one engine. The policy's traits are `traits`.
  std::function<std::unique_ptr<Policy>(const KvPoolConfig&)> make;
  // Splits the process as fork() does, for policies whose runs cannot go on side by side in one
  // process (the lock of an interpreter). Null: they can.
  std::function<int()> fork = nullptr;
};

}  // namespace twin
