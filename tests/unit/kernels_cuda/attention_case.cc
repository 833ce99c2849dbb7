#include "tests/unit/kernels_cuda/attention_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "kernels/float_formats.h"

namespace twin::kernels::cuda {
namespace {

KvCacheShape CacheShape(const AttentionCase& each, std::int64_t pages_max) {
  return {.dtype = each.shape.dtype,
          .blocks = std::max(each.blocks, pages_max + 7),
          .layers = each.layers,
          .kv_heads = each.shape.kv_heads,
          .block_size = each.shape.block_size,
          .head_dim = each.shape.head_dim};
}

std::size_t Size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

AttentionBatch::AttentionBatch(const AttentionCase& each, std::int64_t sequences_max,
                               std::int64_t rows_max, std::int64_t pages_max)
    : case_(each),
      cache_shape_(CacheShape(each, pages_max)),
      row_width_((each.shape.heads + 2 * each.shape.kv_heads) * each.shape.head_dim),
      rows_max_(rows_max),
      cache_(Size(cache_shape_.Bytes()), "a test's cache"),
      q_(Size(rows_max * row_width_)),
      out_(Size(rows_max * each.shape.heads * each.shape.head_dim)),
      arrays_(Size(4 * (sequences_max + 1) + pages_max)),
      sequences_max_(sequences_max),
      pages_max_(pages_max) {}

void AttentionBatch::Draw(const std::vector<SequenceLengths>& lengths, Random& random) {
  CHECK(static_cast<std::int64_t>(lengths.size()) <= sequences_max_);
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  lengths_ = lengths;
  first_query_.assign(1, 0);
  kv_lengths_.clear();
  for (const SequenceLengths& each : lengths) {
    first_query_.push_back(first_query_.back() + static_cast<std::int32_t>(each.queries));
    kv_lengths_.push_back(static_cast<std::int32_t>(each.context));
  }
  DrawPages(lengths, random);
  DrawTokens(lengths, random);
  SendArrays();
}

void AttentionBatch::DrawPages(const std::vector<SequenceLengths>& lengths, Random& random) {
  const std::int64_t block_size = case_.shape.block_size;
  page_begin_.assign(1, 0);
  last_page_tokens_.clear();
  for (const SequenceLengths& each : lengths) {
    const std::int64_t pages = (each.context + block_size - 1) / block_size;
    page_begin_.push_back(page_begin_.back() + static_cast<std::int32_t>(pages));
    const std::int64_t last = each.context == 0 ? 1 : each.context - (pages - 1) * block_size;
    last_page_tokens_.push_back(static_cast<std::int32_t>(last));
  }
  CHECK(page_begin_.back() <= pages_max_);
  std::vector<std::int32_t> blocks(Size(cache_shape_.blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  if (case_.last_blocks) {
    std::reverse(blocks.begin(), blocks.end());
  } else {
    for (std::size_t i = blocks.size(); i > 1; --i) {
      const auto other = Size(random.UniformInt(0, static_cast<std::int64_t>(i) - 1));
      std::swap(blocks[i - 1], blocks[other]);
    }
  }
  page_indices_.assign(blocks.begin(), blocks.begin() + page_begin_.back());
}

void AttentionBatch::DrawTokens(const std::vector<SequenceLengths>& lengths, Random& random) {
  const auto number = [&](double size) {
    return FloatToBf16(static_cast<float>(random.UniformReal(-size, size)));
  };
  q_values_.assign(Size(rows_max_ * row_width_), 0xFFFF);
  for (std::int64_t row = 0; row < first_query_.back(); ++row) {
    for (std::int64_t i = 0; i < Out().columns; ++i) {
      q_values_[Size(row * row_width_ + i)] = number(2);
    }
  }
  // What no sequence holds is NaN: whoever reads it shows.
  pages_.clear();
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    for (std::int32_t at = page_begin_[s]; at < page_begin_[s + 1]; ++at) {
      const std::int64_t tile = case_.shape.block_size * case_.shape.head_dim;
      std::vector<std::uint16_t> page(Size(2 * case_.shape.kv_heads * tile));
      for (std::uint16_t& value : page) value = number(1);
      CheckCuda(cudaMemcpy(Cache().Tile(page_indices_[Size(at)], case_.layer, 0, 0), page.data(),
                           page.size() * sizeof(page[0]), cudaMemcpyHostToDevice),
                "cudaMemcpy");
      pages_.push_back(std::move(page));
    }
  }
  SendRows();
  CheckCuda(cudaMemset(out_.data(), 0xFF,
                       Size(first_query_.back() * case_.shape.heads * case_.shape.head_dim) * 2),
            "cudaMemset");
  AwaitDevice();
}

void AttentionBatch::SendRows() {
  const AttentionShape& shape = case_.shape;
  const auto first = lengths_.begin() + Decodes();
  const bool fresh = std::all_of(first, lengths_.end(), [](const SequenceLengths& each) {
    return each.queries == each.context;
  });
  for (std::size_t s = Size(Decodes()); fresh && s < lengths_.size(); ++s) {
    for (std::int64_t head = 0; head < 2 * shape.kv_heads; ++head) {
      for (std::int64_t position = 0; position < lengths_[s].context; ++position) {
        const std::uint16_t* const from =
            KeyOrValue(s, position, head / shape.kv_heads, head % shape.kv_heads);
        const std::size_t to =
            Size((first_query_[s] + position) * row_width_ + (shape.heads + head) * shape.head_dim);
        std::copy_n(from, shape.head_dim, q_values_.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
  }
  q_.Set(q_values_);
}

std::int64_t AttentionBatch::Decodes() const {
  return std::find_if(lengths_.begin(), lengths_.end(),
                      [](const SequenceLengths& each) { return each.queries != 1; }) -
         lengths_.begin();
}

// [first_query][kv_lengths][page_begin][last_page_tokens][page_indices], each with its room.
void AttentionBatch::SendArrays() {
  const std::size_t room = Size(sequences_max_ + 1);
  std::vector<std::int32_t> all(4 * room + Size(pages_max_), -1);
  std::size_t at = 0;
  for (const auto* const part : {&first_query_, &kv_lengths_, &page_begin_, &last_page_tokens_}) {
    std::copy(part->begin(), part->end(), all.begin() + static_cast<std::ptrdiff_t>(at));
    at += room;
  }
  std::copy(page_indices_.begin(), page_indices_.end(),
            all.begin() + static_cast<std::ptrdiff_t>(at));
  arrays_.Set(all);
}

AttentionWork AttentionBatch::Work(bool graph) const {
  AttentionWork work;
  work.sequences = static_cast<std::int64_t>(lengths_.size());
  work.decodes = Decodes();
  work.rows = first_query_.back();
  work.graph = graph;
  work.host = {.first_query = first_query_.data(),
               .kv_lengths = kv_lengths_.data(),
               .page_begin = page_begin_.data(),
               .page_indices = page_indices_.data(),
               .last_page_tokens = last_page_tokens_.data()};
  const std::size_t room = Size(sequences_max_ + 1);
  work.device = {.first_query = arrays_.data(),
                 .kv_lengths = arrays_.data() + room,
                 .page_begin = arrays_.data() + 2 * room,
                 .page_indices = arrays_.data() + 4 * room,
                 .last_page_tokens = arrays_.data() + 3 * room};
  return work;
}

DeviceMatrix AttentionBatch::Qkv() const {
  return DenseDeviceMatrix(q_.data(), case_.shape.dtype, first_query_.back(), row_width_);
}

DeviceMatrix AttentionBatch::Out() const {
  return DenseDeviceMatrix(out_.data(), case_.shape.dtype, first_query_.back(),
                           case_.shape.heads * case_.shape.head_dim);
}

KvCacheView AttentionBatch::Cache() const { return {cache_.data(), cache_shape_}; }

const std::uint16_t* AttentionBatch::KeyOrValue(std::size_t sequence, std::int64_t position,
                                                std::int64_t values, std::int64_t kv_head) const {
  const AttentionShape& shape = case_.shape;
  const std::int64_t page = page_begin_[sequence] + position / shape.block_size;
  const std::int64_t tile = values * shape.kv_heads + kv_head;
  const std::int64_t row = tile * shape.block_size + position % shape.block_size;
  return pages_[Size(page)].data() + row * shape.head_dim;
}

std::vector<double> AttentionBatch::Expected(std::size_t sequence, std::int64_t row,
                                             std::int64_t head, std::int64_t window) const {
  const AttentionShape& shape = case_.shape;
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const std::int64_t end = kv_lengths_[sequence] - (first_query_[sequence + 1] - row) + 1;
  const std::int64_t begin = window > 0 ? std::max<std::int64_t>(0, end - window) : 0;
  std::vector<double> scores;
  for (std::int64_t p = begin; p < end; ++p) {
    double score = 0;
    const std::uint16_t* const key = KeyOrValue(sequence, p, 0, kv_head);
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      const std::size_t place = Size(row * row_width_ + head * shape.head_dim + i);
      score += double{Bf16ToFloat(q_values_[place])} * double{Bf16ToFloat(key[i])};
    }
    score *= double{shape.scale};
    if (shape.logit_cap > 0) {
      score = double{shape.logit_cap} * std::tanh(score / double{shape.logit_cap});
    }
    scores.push_back(score);
  }
  std::vector<double> sum(Size(shape.head_dim), 0);
  if (scores.empty()) return sum;
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (std::int64_t p = begin; p < end; ++p) {
    const double weight = std::exp(scores[Size(p - begin)] - highest);
    total += weight;
    const std::uint16_t* const value = KeyOrValue(sequence, p, 1, kv_head);
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      sum[Size(i)] += weight * double{Bf16ToFloat(value[i])};
    }
  }
  for (double& value : sum) value /= total;
  return sum;
}

void AttentionBatch::ExpectAttention(std::int64_t window) const {
  const AttentionShape& shape = case_.shape;
  constexpr double kTolerance = 1e-2;
  const std::vector<std::uint16_t> found = out_.Get();
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    const bool padding = page_begin_[s] == page_begin_[s + 1];
    for (std::int64_t row = first_query_[s]; row < first_query_[s + 1]; ++row) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::vector<double> expected =
            padding ? std::vector<double>(Size(shape.head_dim), 0) : Expected(s, row, head, window);
        for (std::int64_t i = 0; i < shape.head_dim; ++i) {
          const std::size_t place = Size((row * shape.heads + head) * shape.head_dim + i);
          ASSERT_NEAR(double{Bf16ToFloat(found[place])}, expected[Size(i)],
                      padding ? 0 : kTolerance)
              << "sequence " << s << ", row " << row << ", head " << head << ", place " << i;
        }
      }
    }
  }
}

}  // namespace twin::kernels::cuda
