#include "exec/profile/profile_grid.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/random.h"

namespace twin::exec {
namespace {

std::vector<std::int32_t> Contexts(std::int32_t longest, bool coarse) {
  // Short sequences get a few contexts, too.
  std::set<std::int32_t> contexts = {longest / 4, longest / 2};
  for (const std::int32_t context : {16, 128, 512, 1024, 2048, 4096, 8192}) {
    if (context < longest && (!coarse || context != 512)) contexts.insert(context);
  }
  return {contexts.begin(), contexts.end()};
}

// A length around `median`, from 1 to `longest`.
std::int32_t DrawLength(Random& random, double median, std::int32_t longest) {
  const double drawn = random.LogNormal(std::log(median), 0.9);
  return static_cast<std::int32_t>(std::clamp(drawn, 1.0, static_cast<double>(longest)));
}

// Adds decodes while the cache has room for a further one of any length. Returns the number of
// tokens so far.
std::int64_t AddDecodes(Random& random, const ProfileLimits& limits, std::int32_t count,
                        double median, std::vector<StepItem>& items) {
  std::int64_t tokens = 0;
  const std::int32_t longest = limits.context_max - 1;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t context = DrawLength(random, median, longest);
    if (tokens + context + 1 > limits.cache_tokens) break;
    items.push_back(DecodeItem(context));
    tokens += context + 1;
  }
  return tokens;
}

ProfiledStep DrawMix(const ProfileLimits& limits, std::int32_t number) {
  Random random(static_cast<std::uint64_t>(number), "profiled_mix");
  ProfiledStep step{.name = "mix " + std::to_string(number), .items = {}};
  // Small batches are as common as large ones.
  const double batch = std::pow(static_cast<double>(limits.batch_max + 1), random.UnitReal()) - 1;
  const double median = random.UniformReal(16, limits.context_max / 2.0);
  std::int64_t held =
      AddDecodes(random, limits, static_cast<std::int32_t>(std::lround(batch)), median, step.items);
  auto room = limits.tokens_max - static_cast<std::int32_t>(step.items.size());
  // A third of the steps are decodes alone, as in most runs; the other steps have one or two
  // chunks.
  std::int64_t chunks = std::max<std::int64_t>(random.UniformInt(-1, 2), 0);
  if (step.items.empty()) chunks = std::max<std::int64_t>(chunks, 1);
  for (; chunks > 0 && room > 0; --chunks) {
    const auto tokens = static_cast<std::int32_t>(std::lround(std::pow(
        static_cast<double>(std::min(room, limits.context_max)), random.UniformReal(0.3, 1))));
    const auto context = static_cast<std::int32_t>(
        random.UnitReal() < 0.5 ? 0 : random.UniformInt(0, limits.context_max - tokens));
    if (held + context + tokens > limits.cache_tokens) break;
    step.items.push_back(ChunkItem(context, tokens, random.UnitReal() < 0.5));
    held += context + tokens;
    room -= tokens;
  }
  if (step.items.empty()) step.items.push_back(DecodeItem(1));
  return step;
}

}  // namespace

std::vector<std::int64_t> GridSizes(std::int64_t largest, bool coarse) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t power = 1; power < largest; power *= 2) {
    sizes.push_back(power);
    const std::int64_t between = power + power / 2;
    if (!coarse && power >= 2 && between < largest) sizes.push_back(between);
  }
  sizes.push_back(largest);
  return sizes;
}

std::vector<ProfiledStep> PrefillGrid(const ProfileLimits& limits) {
  std::vector<std::int32_t> contexts = Contexts(limits.context_max, limits.coarse);
  contexts.insert(contexts.begin(), 0);
  std::vector<ProfiledStep> steps;
  for (std::int32_t tokens = 8; tokens <= std::min(limits.tokens_max, limits.context_max);
       tokens *= limits.coarse ? 4 : 2) {
    for (const std::int32_t context : contexts) {
      if (context == 16 || tokens + context > limits.context_max ||
          tokens + context > limits.cache_tokens) {
        continue;
      }
      steps.push_back({"chunk " + std::to_string(tokens) + " behind " + std::to_string(context),
                       {ChunkItem(context, tokens, true)}});
    }
  }
  return steps;
}

std::vector<ProfiledStep> DecodeGrid(const ProfileLimits& limits) {
  std::vector<ProfiledStep> steps;
  for (std::int32_t batch = 1; batch <= std::min(limits.batch_max, limits.tokens_max);
       batch *= limits.coarse ? 4 : 2) {
    for (const std::int32_t context : Contexts(limits.context_max, limits.coarse)) {
      if (std::int64_t{batch} * (context + 1) > limits.cache_tokens) continue;
      steps.push_back(
          {"decode " + std::to_string(batch) + " behind " + std::to_string(context),
           std::vector<StepItem>(static_cast<std::size_t>(batch), DecodeItem(context))});
    }
    if (batch < 4) continue;
    Random random(static_cast<std::uint64_t>(batch), "profiled_skew");
    ProfiledStep skewed{.name = "decode " + std::to_string(batch) + " skewed", .items = {}};
    AddDecodes(random, limits, batch, limits.context_max / 4.0, skewed.items);
    if (!skewed.items.empty()) steps.push_back(std::move(skewed));
  }
  return steps;
}

std::vector<ProfiledStep> MixedSteps(const ProfileLimits& limits) {
  std::vector<ProfiledStep> steps;
  steps.reserve(static_cast<std::size_t>(limits.mixes));
  for (std::int32_t i = 0; i < limits.mixes; ++i) steps.push_back(DrawMix(limits, i));
  return steps;
}

}  // namespace twin::exec
