// Interface by which long work reports progress to its caller, and the caller ends it early.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twin::run {

// Every call of this layer that may take long borrows one. The base class ignores reports and never
// asks to stop; command lines, Python bindings and tests override what they need.
//
// Thread safety: StopRequested() is called from any thread, everything else from the thread that
// does the work.
class RunControl {
 public:
  virtual ~RunControl() = default;

  // `done` of `total` are finished; a `total` of 0 is unknown. Called often: implementations limit
  // how often they draw.
  virtual void OnProgress(std::string_view /*what*/, std::uint64_t /*done*/,
                          std::uint64_t /*total*/) {}
  // No more progress will be reported on the current piece of work.
  virtual void OnProgressEnd() {}

  // One line, without a line break, that the user should see: the result is valid, but maybe
  // unexpected.
  virtual void OnWarning(const std::string& /*text*/) {}
  // One line on what is happening.
  virtual void OnNote(const std::string& /*text*/) {}

  // True once the work should end early and keep the results that it has.
  [[nodiscard]] virtual bool StopRequested() const { return false; }
};

}  // namespace twin::run
