#include "apps/page/plotly.h"

// The assembler includes the file: compiling a string literal of this length would take longer than
// all of apps/report.
asm(".section .rodata\n"
    "kTwinPlotlyBegin:\n"
    ".incbin \"" TWIN_PLOTLY_SCRIPT
    "\"\n"
    "kTwinPlotlyEnd:\n"
    ".byte 0\n"
    ".previous\n"
    ".globl kTwinPlotlyBegin\n"
    ".globl kTwinPlotlyEnd\n");

extern "C" {
extern const char kTwinPlotlyBegin[];
extern const char kTwinPlotlyEnd[];
}

namespace twin::run {

std::string_view PlotlyScript() { return {kTwinPlotlyBegin, kTwinPlotlyEnd}; }

}  // namespace twin::run
