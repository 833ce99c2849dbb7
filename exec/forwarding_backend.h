// A backend that passes every call on to another one: base of backends that change one thing.
#pragma once

#include "exec/backend.h"

namespace twin::exec {

class ForwardingBackend : public Backend {
 public:
  // Borrows the backend.
  explicit ForwardingBackend(Backend& backend) : backend_(backend) {}

  void Open(RequestId id, std::span<const std::int32_t> prompt,
            const kernels::SamplingParameters& sampling) override {
    backend_.Open(id, prompt, sampling);
  }
  void Close(RequestId id) override { backend_.Close(id); }
  void Launch(const StepPlan& plan) override { backend_.Launch(plan); }
  ComputedStep Collect() override { return backend_.Collect(); }
  bool Collectable() override { return backend_.Collectable(); }
  [[nodiscard]] std::chrono::microseconds RestBetweenQuestions() const override {
    return backend_.RestBetweenQuestions();
  }
  [[nodiscard]] const kernels::KvCacheView* readable_cache() const override {
    return backend_.readable_cache();
  }
  void CopyBlocks(const kernels::KvCacheView& from,
                  std::span<const kernels::BlockCopy> copies) override {
    backend_.CopyBlocks(from, copies);
  }

 private:
  Backend& backend_;
};

}  // namespace twin::exec
