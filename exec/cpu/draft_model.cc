#include "exec/cpu/draft_model.h"

#include <algorithm>

#include "kernels/sampling.h"

namespace twin::exec {

void DraftModel::Swap(const SwapBatch& batch) {
  const KvStorage& from = batch.out ? cache_ : host_;
  const KvStorage& to = batch.out ? host_ : cache_;
  kernels::CopyBlocks(model_.pool(), from.view(), to.view(), batch.copies);
}

void DraftModel::Propose(const StepPlan& plan, std::int32_t drafts_max, OpenRequests& requests) {
  AddStep(plan, drafts_max, requests);
  while (!items_.empty()) {
    Compute();
    std::erase_if(drafting_, [](const Drafting& d) { return d.room == 0; });
    AddDrafts();
  }
}

void DraftModel::AddStep(const StepPlan& plan, std::int32_t drafts_max, OpenRequests& requests) {
  items_.clear();
  emitting_.clear();
  drafting_.clear();
  for (const WorkItem& item : plan.work) {
    OpenRequest& request = requests[item.request];
    const auto covered = static_cast<std::int32_t>(request.blocks.size()) * BlockSize();
    const std::int32_t most = std::min(covered, model_.positions());
    const auto known = static_cast<std::int32_t>(request.tokens.size());
    const std::int32_t end = std::min(item.emits ? known : item.start + item.tokens, most);
    if (item.emits) {
      request.drafts.clear();
      // The last draft is not an input of the draft model, so it needs no position.
      const std::int32_t room = end == known ? std::min(drafts_max, most - known + 1) : 0;
      if (room > 0) {
        emitting_.push_back(items_.size());
        drafting_.push_back({&request, room});
      }
    }
    if (end <= item.start) continue;
    items_.push_back({std::span(request.tokens)
                          .subspan(static_cast<std::size_t>(item.start),
                                   static_cast<std::size_t>(end - item.start)),
                      item.start, request.blocks});
  }
}

void DraftModel::AddDrafts() {
  items_.clear();
  emitting_.clear();
  for (const Drafting& d : drafting_) {
    const auto start =
        static_cast<std::int32_t>(d.request->tokens.size() + d.request->drafts.size()) - 1;
    emitting_.push_back(items_.size());
    items_.push_back({std::span(d.request->drafts).last(1), start, d.request->blocks});
  }
}

void DraftModel::Compute() {
  batch_.Assign(items_, BlockSize());
  for (const std::size_t item : emitting_)
    batch_.logit_rows.push_back(batch_.first_row[item + 1] - 1);
  model_.laps().Start();
  const kernels::MatrixView<const float> logits = model_.Forward(batch_, cache_.view());
  for (std::size_t i = 0; i < drafting_.size(); ++i) {
    const std::span<const float> row(logits.Row(static_cast<std::int64_t>(i)),
                                     static_cast<std::size_t>(logits.columns));
    drafting_[i].request->drafts.push_back(kernels::Argmax(row));
    --drafting_[i].room;
  }
}

}  // namespace twin::exec
