// A front whose threads get no memory now and then: it answers or closes, and goes on.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <string_view>

#include "tests/unit/serve/served_front.h"

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
thread_local bool is_the_tests = false;
std::atomic<std::int64_t> until_failure = kNever;  // allocations of other threads
std::atomic<std::int64_t> failures = 0;

// Whether the caller is a destructor of JSON. nlohmann's allocates a stack for nested values, and a
// destructor that throws ends the program: the front cannot do without this memory.
bool DestroysJson() {
  std::array<void*, 16> frames;
  const int count = backtrace(frames.data(), frames.size());
  return std::any_of(frames.begin(), frames.begin() + count, [](void* frame) {
    Dl_info info;
    if (dladdr(frame, &info) == 0 || info.dli_sname == nullptr) return false;
    const std::string_view name = info.dli_sname;
    return name.find("nlohmann") != std::string_view::npos &&
           name.find("7destroyENS") != std::string_view::npos;  // json_value::destroy(value_t)
  });
}

}  // namespace

// Not inlined: GCC 12 would pair the library's new with free and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (!is_the_tests && until_failure.load() != kNever && until_failure-- == 0) {
    ++failures;
    if (!DestroysJson()) throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace twin::serve {
namespace {

// The n-th allocation of the front's threads fails while they serve a request, for every n.
TEST(ScarceMemory, EndsAConnectionAndNotTheServer) {
  is_the_tests = true;
  ServedFront served;
  const std::string long_prompt(200, 'x');
  const std::string requests[] = {
      PostText("/v1/completions", R"({"prompt":"abc","max_tokens":4})"),
      PostText("/v1/completions", R"({"prompt":"abc","max_tokens":4,"stream":true})"),
      PostText("/tokenize", R"({"prompt":")" + long_prompt + R"("})"), GetText("/metrics"),
      PostText("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})")};
  for (const std::string& request : requests) {
    for (std::int64_t n = 0; n < 400; ++n) {
      const std::int64_t before = failures;
      until_failure = n;
      {
        RawClient client(served.port());
        client.Send(request);
        client.CloseSendingSide();
        (void)client.ReadAll(std::chrono::seconds(5));
        EXPECT_TRUE(client.ended()) << "allocation " << n << " of " << request.substr(0, 40);
      }
      until_failure = kNever;
      if (failures == before) break;  // it needs fewer
    }
    EXPECT_EQ(StatusOf(served.Ask(requests[0])), 200);
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace twin::serve
