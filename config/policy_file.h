// A policy that an experiment names by its file or its class (policy.own), and how it is loaded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sched/policy/own_policy.h"
#include "sched/policy/policy_parameters.h"

namespace twin {

struct PolicyFile {
  std::string path;                       // empty: the class is in a module, or the engine's own
  std::optional<std::string> class_name;  // in a file of Python, or MODULE:CLASS
  std::vector<PolicyParameter> parameters;
  // The release whose scheduler the class is; unset: the class is a twinserve.Policy.
  std::optional<std::string> engine = {};

  bool operator==(const PolicyFile&) const = default;
};

// How this process runs policies of Python.
struct PythonPolicies {
  // Makes policies of a file. Throws InputError (usage).
  std::function<std::shared_ptr<const OwnPolicy>(const PolicyFile&)> load;
  // PreparePolicy().
  std::function<void(const PolicyFile&)> prepare;
  // OwnPolicy::fork.
  std::function<int()> fork;
};

// Called once, before any policy is loaded; without it, files of Python are refused.
void SetPythonPolicies(PythonPolicies policies);

// The files of a policy in Python: of its folder or package alone, the one with its class first.
using PolicySourceFinder = std::function<std::vector<std::string>(const PolicyFile&)>;
// Finds them in this process, and runs none of them. Called once.
void SetPythonSourceFinder(PolicySourceFinder finder);

// A hash of the content of the files that make the policy: a library, or files of Python; for one
// file, HashText() of its content. Empty if there is no file. Data that a policy reads is not in
// it.
std::string HashOfSources(const PolicyFile& file);

// Runs code of the file. Loading a shared library again gives the library as it was; one that was
// changed since is refused. Throws InputError (usage) with the field: a file that is missing or of
// another kind, a library without the symbols of config/policy_library.h or of another build, a
// policy that cannot be made, parameters that it does not have.
std::shared_ptr<const OwnPolicy> LoadPolicy(const PolicyFile& file);

// Loads what the policy needs of this package and of the engine, but nothing of the file: for
// processes that fork before they load it. Throws InputError (usage).
void PreparePolicy(const PolicyFile& file);
// Splits the process as fork() does, before a policy is loaded.
int ForkForPolicy();

// The file or class that `--policy asked` names: a shared library, a file of Python with an
// optional class behind a colon, or MODULE:CLASS; nullopt for the name of a policy of the registry.
std::optional<PolicyFile> PolicyFileOf(std::string_view asked);

// The change of an experiment, as --set takes it, that names the policy of `--policy asked`.
std::string PolicyChange(std::string_view asked);
// The change that names the release of `--engine asked`: of the class that --policy names, or else
// its own scheduler.
std::string EngineChange(std::string_view asked, bool beside_policy);

// The name of a policy file for people: its class without the module, else the name of the file
// without a leading `lib`, else the engine.
std::string NameOf(const PolicyFile& file);

}  // namespace twin
