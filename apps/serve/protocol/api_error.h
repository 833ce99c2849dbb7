// Errors of the routes, in the forms that OpenAI's and TGI's clients understand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/serve/http/http_message.h"

namespace twin::serve {

enum class ApiErrorKind : std::uint8_t {
  kJson,         // the body is not JSON
  kSchema,       // a field has another type
  kValue,        // a value, or a combination of them, that is not allowed
  kMediaType,    // Content-Type is not application/json
  kModel,        // no such model
  kRoute,        // no such path
  kMethod,       // the path has other methods
  kKey,          // no or a wrong API key
  kHost,         // the Host field names another host
  kOverloaded,   // the queue is full
  kUnavailable,  // not ready, or draining
  kInternal,
};

struct ApiError {
  ApiErrorKind kind = ApiErrorKind::kValue;
  std::string message;
  std::string param;  // dotted path of the field; may be empty
};

// The family of clients that a route serves.
enum class Dialect : std::uint8_t { kOpenAi, kTgi };

// The status that the dialect gives to a kind of error.
int StatusOf(const ApiError& error, Dialect dialect);
// The body: {"error":{...}} or {"error":...,"error_type":...}. Messages are cut at 1,000
// characters.
std::string ErrorText(const ApiError& error, Dialect dialect);
HttpResponse ErrorResponse(const ApiError& error, Dialect dialect);

}  // namespace twin::serve
