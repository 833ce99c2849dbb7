// A policy in a shared library, which an experiment names by its path: policy { own { path: ... }
// }.
//
// One source of the library says TWIN_POLICY(Type) outside of all namespaces. Type is a
// twin::Policy that is made from (const PolicyParameters&, const KvPoolConfig&), from the
// parameters alone, or from nothing. The library is linked with twinserve::sched
// (docs/write-a-policy.md).
#pragma once

#include <memory>
#include <type_traits>

#include "config/policy_abi.h"
#include "sched/cache/kv_pool.h"
#include "sched/policy/policy.h"
#include "sched/policy/policy_parameters.h"

namespace twin {

// Names of the symbols of a library.
inline constexpr char kPolicyAbiSymbol[] = "twin_policy_abi";
inline constexpr char kMakePolicySymbol[] = "twin_make_policy";

// The sources of the scheduler and the compiler. A library is loaded if it returns the program's
// text: both then have the same classes with the same layout, and the same rules behind
// StepBuilder, which the library holds a copy of.
inline constexpr char kPolicyAbi[] = TWIN_SCHEDULER_HASH ", compiler " __VERSION__;

// Types of the functions under the two symbols.
using PolicyAbiFunction = const char*();

// The result belongs to the caller. Also called once before a run, with a cache of some size, to
// read the traits.
using MakePolicyFunction = Policy*(const PolicyParameters& parameters, const KvPoolConfig& kv);

template <class Type>
std::unique_ptr<Policy> MakeLibraryPolicy(const PolicyParameters& parameters,
                                          const KvPoolConfig& kv) {
  if constexpr (std::is_constructible_v<Type, const PolicyParameters&, const KvPoolConfig&>) {
    return std::make_unique<Type>(parameters, kv);
  } else if constexpr (std::is_constructible_v<Type, const PolicyParameters&>) {
    return std::make_unique<Type>(parameters);
  } else {
    return std::make_unique<Type>();
  }
}

}  // namespace twin

#define TWIN_POLICY(Type)                                                           \
  extern "C" __attribute__((visibility("default"))) const char* twin_policy_abi() { \
    return twin::kPolicyAbi;                                                        \
  }                                                                                 \
  extern "C" __attribute__((visibility("default"))) twin::Policy* twin_make_policy( \
      const twin::PolicyParameters& parameters, const twin::KvPoolConfig& kv) {     \
    return twin::MakeLibraryPolicy<Type>(parameters, kv).release();                 \
  }
