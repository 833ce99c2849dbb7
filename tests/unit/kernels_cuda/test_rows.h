// Matrices on a device for tests, with their values on the host.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/random.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"
#include "tests/unit/kernels_cuda/test_libraries.h"

namespace twin::kernels::cuda {

// The relative distance from a number to the next ones of a format, at most.
float UlpOf(DType dtype);

// A matrix of bf16 or fp32 whose rows lie apart, first all NaN: what is not written shows,
// and so does what is written between rows.
class TestRows {
 public:
  TestRows(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap = 0);

  // Normal numbers, rounded to the format.
  void Draw(Random& random, double deviation = 1, double mean = 0);
  void Set(std::int64_t row, std::int64_t column, float value);
  // Brings what was set to the device.
  void Send();
  // Brings what kernels wrote to the host; waits for the device.
  void Fetch();

  [[nodiscard]] DeviceMatrix matrix() const;
  [[nodiscard]] float At(std::int64_t row, std::int64_t column) const;
  // Of all elements, without gaps.
  [[nodiscard]] std::vector<float> Values() const;
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }

  // Fetches, and compares with expected(row, column): within `ulps` of the format's and `absolute`.
  // Gaps must still be NaN.
  void Expect(const std::function<double(std::int64_t, std::int64_t)>& expected, double ulps,
              double absolute);

 private:
  [[nodiscard]] std::byte* Place(std::int64_t row, std::int64_t column);
  [[nodiscard]] const std::byte* Place(std::int64_t row, std::int64_t column) const;

  DType dtype_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t stride_;
  std::vector<std::byte> host_;
  OnDevice<std::byte> device_;
};

// An owned dense matrix of fp32 on the host, for the CPU twins.
struct HostRows {
  explicit HostRows(const TestRows& rows) : values(rows.Values()), columns(rows.columns()) {}
  HostRows(std::int64_t rows, std::int64_t width)
      : values(static_cast<std::size_t>(rows * width)), columns(width) {}

  [[nodiscard]] MatrixView<float> view() {
    return DenseMatrix(values.data(), static_cast<std::int64_t>(values.size()) / columns, columns);
  }
  [[nodiscard]] double At(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }

  std::vector<float> values;
  std::int64_t columns;
};

std::vector<float> RandomNumbersOf(Random& random, std::int64_t count, double deviation = 1);

class DeviceRowsTest : public testing::Test {
 protected:
  Random random_{5, "device tests"};
  TestStream stream_;
  ThreadPool pool_{1};
};

}  // namespace twin::kernels::cuda
