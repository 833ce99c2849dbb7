#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/bindings.h"
#include "core/input_error.h"
#include "traces/trace_format.h"
#include "traces/trace_writer.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

using Integers = std::vector<std::int64_t>;

// The requests of a trace by column. `prefix_chunks` holds the chunks of all requests one after the
// other; the chunks of request i lie from prefix_offsets[i] to prefix_offsets[i + 1].
struct TraceColumns {
  Integers arrival_ns;
  Integers prompt_tokens;
  Integers output_tokens;
  Integers max_output_tokens;
  Integers predicted_output_tokens;
  Integers priority;
  Integers tenant;
  std::vector<std::uint64_t> session;
  Integers prefix_chunk_tokens;
  Integers prefix_offsets{0};
  std::vector<std::uint64_t> prefix_chunks;
  bool has_arrivals = true;

  void Add(const TracedRequest& request) {
    arrival_ns.push_back(Nanoseconds(request.arrival));
    prompt_tokens.push_back(request.prompt_tokens);
    output_tokens.push_back(request.output_tokens);
    max_output_tokens.push_back(request.max_output_tokens);
    predicted_output_tokens.push_back(request.predicted_output_tokens);
    priority.push_back(request.priority);
    tenant.push_back(request.tenant);
    session.push_back(request.session);
    prefix_chunk_tokens.push_back(request.prefix_chunk_tokens);
    prefix_chunks.insert(prefix_chunks.end(), request.prefix_chunks.begin(),
                         request.prefix_chunks.end());
    prefix_offsets.push_back(static_cast<std::int64_t>(prefix_chunks.size()));
  }
};

std::unique_ptr<TraceColumns> ReadTrace(
    const std::string& path, const std::string& format,
    const std::vector<std::pair<std::string, std::string>>& filters) {
  const nb::gil_scoped_release release;
  TraceReadOptions options;
  for (const auto& [column, value] : filters) options.filters.push_back({column, value});
  auto columns = std::make_unique<TraceColumns>();
  const std::unique_ptr<TraceReader> reader = OpenTrace(path, format, options);
  columns->has_arrivals = reader->has_arrivals();
  TracedRequest request;
  while (reader->Next(request)) columns->Add(request);
  return columns;
}

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Columns of a table that is written, all of one length.
struct WrittenTrace {
  std::vector<Column<std::int64_t>> numbers;  // in the order of kNumbers
  Column<std::uint64_t> session;
  Column<std::int64_t> prefix_offsets;
  Column<std::uint64_t> prefix_chunks;
};

// A column of numbers, and the values that it may hold.
struct NumberColumn {
  const char* name;
  std::int64_t min;
  std::int64_t max;
  Integers TraceColumns::*values;
};

constexpr std::int64_t kTokensMax = 1073741823;
constexpr NumberColumn kNumbers[] = {
    {"arrival_ns", 0, std::int64_t{1} << 62, &TraceColumns::arrival_ns},
    {"prompt_tokens", 1, kTokensMax, &TraceColumns::prompt_tokens},
    {"output_tokens", 1, kTokensMax, &TraceColumns::output_tokens},
    {"max_output_tokens", 1, kTokensMax, &TraceColumns::max_output_tokens},
    {"predicted_output_tokens", -1, kTokensMax, &TraceColumns::predicted_output_tokens},
    {"priority", -2147483648LL, 2147483647, &TraceColumns::priority},
    {"tenant", 0, 4294967295, &TraceColumns::tenant},
    {"prefix_chunk_tokens", 0, kTokensMax, &TraceColumns::prefix_chunk_tokens}};

TracedRequest RequestOf(const WrittenTrace& trace, std::size_t row) {
  std::int64_t values[std::size(kNumbers)];
  for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
    const NumberColumn& column = kNumbers[i];
    values[i] = trace.numbers[i](row);
    if (values[i] >= column.min && values[i] <= column.max) continue;
    throw InputError(InputError::Kind::kData, fmt::format("row {}, {}", row, column.name),
                     fmt::format("is {}; allowed: {} to {}", values[i], column.min, column.max));
  }
  TracedRequest request;
  request.arrival = kTimeZero + Duration{values[0]};
  request.prompt_tokens = static_cast<std::int32_t>(values[1]);
  request.output_tokens = static_cast<std::int32_t>(values[2]);
  request.max_output_tokens = static_cast<std::int32_t>(values[3]);
  request.predicted_output_tokens = static_cast<std::int32_t>(values[4]);
  request.priority = static_cast<std::int32_t>(values[5]);
  request.tenant = static_cast<std::uint32_t>(values[6]);
  request.prefix_chunk_tokens = static_cast<std::int32_t>(values[7]);
  request.session = trace.session(row);
  if (request.max_output_tokens < request.output_tokens) {
    throw InputError(InputError::Kind::kData, fmt::format("row {}, max_output_tokens", row),
                     fmt::format("is {}; allowed: at least output_tokens ({})",
                                 request.max_output_tokens, request.output_tokens));
  }
  for (auto i = trace.prefix_offsets(row); i < trace.prefix_offsets(row + 1); ++i) {
    request.prefix_chunks.push_back(trace.prefix_chunks(static_cast<std::size_t>(i)));
  }
  return request;
}

void WriteTrace(const std::string& path, const WrittenTrace& trace) {
  const nb::gil_scoped_release release;
  TraceWriter writer(path, /*has_arrivals=*/true);
  TimePoint latest = kTimeZero;
  for (std::size_t row = 0; row < trace.session.shape(0); ++row) {
    const TracedRequest request = RequestOf(trace, row);
    if (request.arrival < latest) {
      throw InputError(InputError::Kind::kData, fmt::format("row {}, arrival_ns", row),
                       "is before that of the row above; allowed: rows in the order of arrival");
    }
    latest = request.arrival;
    writer.Write(request);
  }
  writer.Commit();
}

// An array that shares the column's memory and keeps its owner alive.
template <class T>
auto ArrayGetter(std::vector<T> TraceColumns::*column) {
  return [column](nb::handle_t<TraceColumns> self) {
    auto& values = nb::cast<TraceColumns&>(self).*column;
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values.data(), {values.size()}, self));
  };
}

}  // namespace

void BindTraces(nb::module_& module) {
  using C = TraceColumns;
  nb::class_<C> columns(module, "TraceColumns", "The requests of a trace by column.");
  nb::list numbers;
  for (const NumberColumn& number : kNumbers) {
    columns.def_prop_ro(number.name, ArrayGetter(number.values));
    numbers.append(nb::str(number.name));
  }
  module.attr("trace_numbers") = numbers;
  columns.def_ro("has_arrivals", &C::has_arrivals)
      .def_prop_ro("session", ArrayGetter(&C::session))
      .def_prop_ro("prefix_offsets", ArrayGetter(&C::prefix_offsets))
      .def_prop_ro("prefix_chunks", ArrayGetter(&C::prefix_chunks));
  module.def("read_trace", &ReadTrace, nb::arg("path"), nb::arg("format"), nb::arg("filters"));
  module.def(
      "write_trace",
      [](const std::string& path, std::vector<Column<std::int64_t>> numbers,
         Column<std::uint64_t> session, Column<std::int64_t> prefix_offsets,
         Column<std::uint64_t> prefix_chunks) {
        WriteTrace(path, {std::move(numbers), session, prefix_offsets, prefix_chunks});
      },
      nb::arg("path"), nb::arg("numbers"), nb::arg("session"), nb::arg("prefix_offsets"),
      nb::arg("prefix_chunks"));
}

}  // namespace twin::python
