// A request for a recommendation from options, in place of a file.
#pragma once

#include <string>
#include <vector>

#include "apps/experiment_options/given_options.h"
#include "apps/options.h"

namespace twin::apps {

struct RequestOptions {
  GivenOptions given;  // as those of `run`: model, device, load, bounds, server
  int devices = 1;
  std::string until;
  std::string objective;
};

// Declares the options; `line` is the command line. `request` must outlive the parsing.
void AddRequestOptions(CommandParser command, const std::vector<std::string>& line,
                       RequestOptions& request);

// Whether any of them was given.
bool HasRequest(const RequestOptions& request);

// The text of the request file that the options describe. It asks for one server, one stage, and
// few values of the limits of a step. Throws InputError (usage) with the option, what is wrong,
// what is allowed.
std::string RequestText(const RequestOptions& request);

}  // namespace twin::apps
