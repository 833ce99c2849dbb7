#include "run/part_totals.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "run/files/perfetto_writer.h"
#include "run/record/csv_columns.h"
#include "run/record/run_measurements.h"
#include "run/record/table_rows.h"

namespace twin::run {

PartTotals::PartTotals() = default;

PartTotals::PartTotals(std::filesystem::path file, std::int32_t replicas)
    : path_(std::move(file)), file_(path_, std::ios::binary) {
  RequireGood();
  rows_ = std::make_unique<PartRows>(file_, FurtherColumns{.replica = replicas > 1});
}

PartTotals::~PartTotals() = default;

void PartTotals::OnStep(std::int32_t replica, StepId id, const StepTimes& times) {
  if (rows_ != nullptr) rows_->Add(replica, id, times);
  if (perfetto_ != nullptr) perfetto_->AddParts(id, times);
  ++steps_;
  for (std::size_t i = 0; i < kStepPartCount; ++i) sums_.times[i] += times.parts.times[i];
}

Summary PartTotals::Finish() {
  if (rows_ != nullptr) {
    file_.flush();
    RequireGood();
  }
  Summary means;
  if (steps_ > 0) SummariseParts(MetricWriter(means), sums_, steps_);
  return means;
}

void PartTotals::RequireGood() const {
  if (!file_) throw std::system_error(errno, std::generic_category(), path_.string());
}

}  // namespace twin::run
