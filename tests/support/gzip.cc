#include "tests/support/gzip.h"

#include <zlib.h>

#include "core/check.h"

namespace twin::testing {

std::string Gzip(const std::string& text) {
  constexpr int kGzip = 15 + 16;  // zlib.h: window bits, plus 16 for the gzip header
  z_stream stream{};
  CHECK(deflateInit2(&stream, 6, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace twin::testing
