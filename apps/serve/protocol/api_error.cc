#include "apps/serve/protocol/api_error.h"

#include <fmt/format.h>

#include "apps/serve/json_text.h"

namespace twin::serve {
namespace {

constexpr std::size_t kErrorBytesMax = 1000;

struct ErrorForm {
  int status;
  int tgi_status;
  std::string_view type;      // vLLM's
  std::string_view tgi_type;  // TGI's error_type
};

ErrorForm FormOf(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kJson:
      return {400, 400, "Bad Request", "validation"};
    case ApiErrorKind::kSchema:
      return {400, 422, "Bad Request", "validation"};
    case ApiErrorKind::kValue:
      return {400, 422, "BadRequestError", "validation"};
    case ApiErrorKind::kMediaType:
      return {415, 415, "Unsupported Media Type", "validation"};
    case ApiErrorKind::kModel:
      return {404, 404, "NotFoundError", "validation"};
    case ApiErrorKind::kRoute:
      return {404, 404, "Not Found", "validation"};
    case ApiErrorKind::kMethod:
      return {405, 405, "Method Not Allowed", "validation"};
    case ApiErrorKind::kKey:
      return {401, 401, "Unauthorized", "validation"};
    case ApiErrorKind::kHost:
      return {421, 421, "Misdirected Request", "validation"};
    case ApiErrorKind::kOverloaded:
      return {429, 429, "RateLimitError", "overloaded"};
    case ApiErrorKind::kUnavailable:
      return {503, 503, "Service Unavailable", "healthcheck"};
    case ApiErrorKind::kInternal:
      break;
  }
  return {500, 500, "InternalServerError", "incomplete_generation"};
}

}  // namespace

int StatusOf(const ApiError& error, Dialect dialect) {
  const ErrorForm form = FormOf(error.kind);
  return dialect == Dialect::kTgi ? form.tgi_status : form.status;
}

std::string ErrorText(const ApiError& error, Dialect dialect) {
  const ErrorForm form = FormOf(error.kind);
  const std::string message = JsonString(Shortened(error.message, kErrorBytesMax));
  if (dialect == Dialect::kTgi) {
    return fmt::format(R"({{"error":{},"error_type":"{}"}})", message, form.tgi_type);
  }
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})", message,
                     form.type, error.param.empty() ? "null" : JsonString(error.param),
                     form.status);
}

HttpResponse ErrorResponse(const ApiError& error, Dialect dialect) {
  HttpResponse response;
  response.status = StatusOf(error, dialect);
  response.body = ErrorText(error, dialect);
  return response;
}

}  // namespace twin::serve
