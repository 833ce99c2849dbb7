#include "lab/import/profile_output.h"

#include <fmt/format.h>

#include "files/output_file.h"

namespace twin::lab {

void WriteImportedPart(const std::filesystem::path& out, std::string_view device, ProfilePart part,
                       const std::string& text, RunControl& control) {
  const std::filesystem::path target = out / device / FileName(part);
  std::filesystem::create_directories(target.parent_path());
  WriteFile(target, text);
  control.OnNote(fmt::format("wrote {}", target.string()));
}

}  // namespace twin::lab
