#include "config/policy_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "config/policy_library.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

constexpr std::string_view kLibraryEnding = ".so";
constexpr std::string_view kPythonEnding = ".py";

[[noreturn]] void RefuseFile(const PolicyFile& file, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, "policy.own.path",
                   fmt::format("{}: {}", file.path, what));
}

PythonPolicies& Python() {
  static PythonPolicies policies;
  return policies;
}

PolicySourceFinder& SourceFinder() {
  static PolicySourceFinder finder;
  return finder;
}

// One line, as exceptions of a policy may have several.
std::string OneLine(const std::string& text) { return Printable(text, kMessageBytesMax); }

// The state of a file: a library that is loaded stays as it was when its file changes.
struct FileState {
  ino_t inode = 0;
  off_t bytes = 0;
  timespec changed{};

  bool operator==(const FileState& other) const {
    return inode == other.inode && bytes == other.bytes && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

FileState StateOf(const PolicyFile& file) {
  struct stat found {};
  if (stat(file.path.c_str(), &found) != 0) RefuseFile(file, "no such file");
  return {found.st_ino, found.st_size, found.st_mtim};
}

template <class Function>
Function* Symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// The function of the library that makes policies. Libraries stay loaded until the process ends.
MakePolicyFunction* OpenLibrary(const PolicyFile& file) {
  struct Opened {
    FileState state;
    MakePolicyFunction* make = nullptr;
  };
  static std::mutex mutex;
  static std::map<std::string, Opened> libraries;
  const std::lock_guard lock(mutex);
  const FileState state = StateOf(file);
  if (const auto found = libraries.find(file.path); found != libraries.end()) {
    if (found->second.state == state) return found->second.make;
    RefuseFile(file, "was changed since this process loaded it; allowed: a new process");
  }
  void* const library = dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    RefuseFile(file, fmt::format("cannot be loaded: {}", OneLine(dlerror())));
  }
  auto* const abi = Symbol<PolicyAbiFunction>(library, kPolicyAbiSymbol);
  auto* const make = Symbol<MakePolicyFunction>(library, kMakePolicySymbol);
  if (abi == nullptr || make == nullptr) {
    RefuseFile(file, fmt::format("has no symbol {}; allowed: a library with TWIN_POLICY(CLASS) of "
                                 "config/policy_library.h in one of its sources",
                                 abi == nullptr ? kPolicyAbiSymbol : kMakePolicySymbol));
  }
  if (std::strcmp(abi(), kPolicyAbi) != 0) {
    RefuseFile(file,
               fmt::format("was compiled for another twinserve (scheduler {}; this one is {}); "
                           "allowed: a library compiled against this one's headers",
                           OneLine(abi()), kPolicyAbi));
  }
  libraries[file.path] = {state, make};
  return make;
}

std::unique_ptr<Policy> MakeOfLibrary(MakePolicyFunction* make, const PolicyFile& file,
                                      const KvPoolConfig& kv) {
  const PolicyParameters parameters(file.parameters);
  std::unique_ptr<Policy> policy;
  try {
    policy.reset(make(parameters, kv));
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    RefuseFile(file, fmt::format("the policy cannot be made: {}", OneLine(error.what())));
  }
  if (policy == nullptr) RefuseFile(file, "the policy cannot be made: twin_make_policy gave null");
  parameters.RequireAllKnown();
  return policy;
}

std::shared_ptr<const OwnPolicy> LoadLibrary(const PolicyFile& file) {
  if (file.class_name) {
    throw InputError(InputError::Kind::kUsage, "policy.own.class",
                     "is of a file of Python; allowed with a shared library: none, it has one "
                     "policy");
  }
  MakePolicyFunction* const make = OpenLibrary(file);
  constexpr KvPoolConfig kSome{.blocks = 1024};
  const std::unique_ptr<Policy> probe = MakeOfLibrary(make, file, kSome);
  auto own = std::make_shared<OwnPolicy>();
  own->place = std::filesystem::path(file.path).filename().string();
  own->traits = probe->traits();
  own->name = own->traits.name.empty() ? NameOf(file) : std::string(own->traits.name);
  own->traits.name = own->name;
  own->make = [make, file](const KvPoolConfig& kv) { return MakeOfLibrary(make, file, kv); };
  return own;
}

// A scheduler of a release: the Python package checks and runs it.
std::shared_ptr<const OwnPolicy> LoadOfEngine(const PolicyFile& file) {
  if (!file.path.empty()) (void)StateOf(file);
  if (Python().load) return Python().load(file);
  throw InputError(InputError::Kind::kUsage, "policy.own.engine",
                   fmt::format("{} is run by Python, which this program cannot do; allowed: the "
                               "command twinserve of the Python package (pip install)",
                               Printable(*file.engine)));
}

// "my_package.rules:MyScheduler": words of letters, digits and '_' with dots between, and a class.
bool IsClassInModule(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) return false;
  return std::all_of(text.begin(), text.end(), [&](const char& c) {
    const bool in_word =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return in_word || c == '.' || &c == text.data() + colon;
  });
}

std::string Quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

void SetPythonPolicies(PythonPolicies policies) { Python() = std::move(policies); }

void PreparePolicy(const PolicyFile& file) {
  if (Python().prepare && !file.path.ends_with(kLibraryEnding)) Python().prepare(file);
}

int ForkForPolicy() { return Python().fork ? Python().fork() : fork(); }

void SetPythonSourceFinder(PolicySourceFinder finder) { SourceFinder() = std::move(finder); }

std::string HashOfSources(const PolicyFile& file) {
  std::vector<std::string> sources;
  if (!file.path.empty()) sources.push_back(file.path);
  if (!file.path.ends_with(kLibraryEnding) && SourceFinder()) sources = SourceFinder()(file);
  std::optional<std::uint64_t> hash;
  for (const std::string& source : sources) {
    std::ifstream in(source, std::ios::binary);
    if (!in) continue;
    const std::uint64_t content = HashText(std::string(std::istreambuf_iterator<char>(in), {}));
    hash = hash ? MixWords(*hash, content) : content;
  }
  return hash ? HexText(*hash) : "";
}

std::shared_ptr<const OwnPolicy> LoadPolicy(const PolicyFile& file) {
  if (file.engine) return LoadOfEngine(file);
  if (file.path.empty() && file.class_name) {
    throw InputError(InputError::Kind::kUsage, "policy.own.engine",
                     fmt::format("is missing, and {} is in no file; allowed: a release, such as "
                                 "vllm==0.33.0, whose scheduler it is, or policy.own.path",
                                 Printable(*file.class_name)));
  }
  if (file.path.empty()) {
    throw InputError(InputError::Kind::kUsage, "policy.own.path",
                     "is missing; allowed: a shared library (.so) or a file of Python (.py)");
  }
  (void)StateOf(file);
  if (file.path.ends_with(kLibraryEnding)) return LoadLibrary(file);
  if (!file.path.ends_with(kPythonEnding)) {
    RefuseFile(file, "is no policy; allowed: a shared library (.so) or a file of Python (.py)");
  }
  if (Python().load) return Python().load(file);
  RefuseFile(file,
             "is a policy in Python, which this program cannot run; allowed: the command "
             "twinserve of the Python package (pip install), or a shared library (.so)");
}

std::optional<PolicyFile> PolicyFileOf(std::string_view asked) {
  PolicyFile file;
  const std::size_t colon = asked.rfind(':');
  const std::string_view path = asked.substr(0, colon);
  if (colon != std::string_view::npos && path.ends_with(kPythonEnding)) {
    file.path = path;
    file.class_name = asked.substr(colon + 1);
  } else if (asked.ends_with(kLibraryEnding) || asked.ends_with(kPythonEnding)) {
    file.path = asked;
  } else if (IsClassInModule(asked)) {
    file.class_name = asked;
  } else {
    return std::nullopt;
  }
  return file;
}

std::string PolicyChange(std::string_view asked) {
  const std::optional<PolicyFile> file = PolicyFileOf(asked);
  if (!file) return fmt::format("policy={}", asked);
  std::string change = "policy=own {";
  if (!file->path.empty()) change += fmt::format(" path: {}", Quoted(file->path));
  if (file->class_name) change += fmt::format(" class: {}", Quoted(*file->class_name));
  return change + " }";
}

std::string EngineChange(std::string_view asked, bool beside_policy) {
  if (beside_policy) return fmt::format("policy.own.engine={}", Quoted(asked));
  return fmt::format("policy=own {{ engine: {} }}", Quoted(asked));
}

std::string NameOf(const PolicyFile& file) {
  if (file.class_name) return file.class_name->substr(file.class_name->rfind(':') + 1);
  if (file.path.empty()) return file.engine.value_or("");
  const std::string stem = std::filesystem::path(file.path).stem().string();
  return stem.starts_with("lib") ? stem.substr(3) : stem;
}

}  // namespace twin
