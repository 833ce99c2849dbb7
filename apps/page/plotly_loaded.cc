#include "apps/page/plotly_loaded.h"

#include <utility>

#include "apps/page/plotly.h"

namespace twin::run {
namespace {

std::function<std::string()>& Loader() {
  static std::function<std::string()> loader;
  return loader;
}

}  // namespace

void SetPlotlyLoader(std::function<std::string()> load) { Loader() = std::move(load); }

std::string_view PlotlyScript() {
  static const std::string script = Loader() ? Loader()() : "";
  return script;
}

}  // namespace twin::run
