#include "record/packed_plans.h"

#include <algorithm>

#include "core/check.h"
#include "record/plan_encoding.h"

namespace twin {
namespace {

// Words of an encoding: its header, each work item, each block operation.
constexpr std::size_t kHeader = 6;
constexpr std::size_t kItem = 2;
constexpr std::size_t kOperation = 2;
constexpr std::uint64_t kTokenLater = PackWord(0, 1);

// At most.
std::size_t WordsOf(const StepPlan& plan) {
  return kHeader + kItem * plan.work.size() +
         2 * (plan.work.size() + plan.kv.size() + plan.preempted.size() + plan.admitted.size() +
              plan.resumed.size() + plan.released.size() + plan.padding_rows.size() +
              plan.rejected.size() + plan.hits.size());
}

// Whether the plan does nothing but its work, for which it takes blocks.
bool WorksOnly(const StepPlan& plan) {
  return plan.preempted.empty() && plan.admitted.empty() && plan.resumed.empty() &&
         plan.released.empty() && plan.padding_rows.empty() && plan.rejected.empty() &&
         plan.hits.empty() && plan.totals.draft_items == 0;
}

std::size_t WordsOfHeaderAndWork(std::span<const std::uint64_t> encoding) {
  return kHeader + kItem * static_cast<std::uint32_t>(encoding[1]);
}

}  // namespace

bool PlanPacker::Repeats(const StepPlan& plan, const PackedPlans& packed) const {
  if (Index(plan.id) != Index(latest_) + 1 || plan.replica != replica_ ||
      plan.work.size() != items_ || !WorksOnly(plan)) {
    return false;
  }
  const std::uint64_t later = (Index(plan.id) - Index(whole_)) * kTokenLater;
  const std::uint64_t* word = packed.words.data() + work_;
  std::uint64_t differences = 0;
  for (const WorkItem& item : plan.work) {
    differences |= encoding::PlaceWord(item) ^ (*word++ + later);
    differences |= encoding::SizeWord(item) ^ *word++;
  }
  return differences == 0;
}

void PlanPacker::Add(const StepPlan& plan, PackedPlans& packed) {
  const std::size_t most = packed.used + 1 + WordsOf(plan);
  if (most > packed.words.size()) packed.words.resize(2 * most);
  const std::size_t begin = packed.used + 1;
  std::uint64_t* word = packed.words.data() + begin;
  auto sink = [&word](std::uint64_t first, std::uint64_t second) {
    *word++ = first;
    *word++ = second;
  };
  const bool repeats = Repeats(plan, packed);
  if (repeats) {
    encoding::EncodeOperations(plan, sink);
  } else {
    EncodePlan(plan, sink);
    whole_ = plan.id;
    replica_ = plan.replica;
    work_ = begin + kHeader;
    items_ = plan.work.size();
  }
  latest_ = plan.id;
  const auto end = static_cast<std::size_t>(word - packed.words.data());
  packed.words[packed.used] = PackWord(repeats ? 1 : 0, static_cast<std::uint32_t>(end - begin));
  packed.used = end;
}

std::size_t PlanUnpacker::Show(const PackedPlans& packed, std::size_t place, std::size_t replica,
                               PlanDigest& digest) {
  if (replica >= latest_.size()) latest_.resize(replica + 1);
  std::vector<std::uint64_t>& latest = latest_[replica];
  const std::uint64_t head = packed.words[place];
  const std::span words = std::span(packed.words).subspan(place + 1, head >> 32);
  const bool repeats = static_cast<std::uint32_t>(head) == 1;
  if (repeats) {
    CHECK(!latest.empty());
    ++latest[0];
    latest[1] = PackWord(static_cast<std::uint32_t>(latest[1]),
                         static_cast<std::uint32_t>(words.size() / kOperation));
    for (std::size_t i = kHeader; i < latest.size(); i += kItem) latest[i] += kTokenLater;
    digest.OnEncoded(latest, 0);
    digest.OnEncoded(words, 1);
  } else {
    const auto end = words.begin() + static_cast<std::ptrdiff_t>(WordsOfHeaderAndWork(words));
    latest.assign(words.begin(), end);
    std::fill_n(latest.begin() + 2, kHeader - 2, 0);  // lists that a repeated step does not have
    digest.OnEncoded(words, 1);
  }
  return place + 1 + words.size();
}

void PlanUnpacker::Prefetch(const PackedPlans& packed, std::size_t place,
                            std::size_t replica) const {
  constexpr std::size_t kWordsPerLine = 8;
  __builtin_prefetch(&packed.words[place]);
  if (replica >= latest_.size()) return;
  const std::vector<std::uint64_t>& latest = latest_[replica];
  for (std::size_t word = 0; word < latest.size(); word += kWordsPerLine) {
    __builtin_prefetch(&latest[word], 1);
  }
}

}  // namespace twin
