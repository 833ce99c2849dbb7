// Runs that Python waits for: on a thread of its own, without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "run/run_control.h"

namespace twin::python {

// Keeps what the work reports until Python asks. Thread-safe.
class ReportingControl final : public run::RunControl {
 public:
  struct Progress {
    std::string what;
    std::uint64_t done = 0;
    std::uint64_t total = 0;  // 0: unknown
  };

  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) override;
  void OnWarning(const std::string& text) override;
  void OnNote(const std::string& text) override;
  [[nodiscard]] bool StopRequested() const override { return stop_.load(); }

  void Stop() { stop_.store(true); }
  [[nodiscard]] Progress progress() const;
  // REQUIRES: the work has ended.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  // (warnings, notes), for twinserve.experiment.report(). REQUIRES also: the interpreter lock.
  [[nodiscard]] nanobind::tuple Reports() const;

 private:
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  Progress progress_;
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

// Runs `work` and returns when it has ended. Meanwhile the calling thread handles signals: an
// exception on this thread, such as KeyboardInterrupt of a signal handler or one of `progress`,
// asks the work to stop and is thrown when the work has ended. `progress`, if not None, is called
// as progress(what, done, total) about 20 times a second. With `runs_python`, work that has not
// stopped a second later gets a KeyboardInterrupt itself.
// REQUIRES: the interpreter lock is held. Throws what `work` throws.
void RunInBackground(ReportingControl& control, const nanobind::object& progress, bool runs_python,
                     const std::function<void()>& work);

}  // namespace twin::python
