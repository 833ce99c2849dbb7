// A file whose content is part of the program (tools/cmake/TwinEmbed.cmake).
#pragma once

#include <string_view>

namespace twin {

struct EmbeddedFile {
  std::string_view folder;  // name of the folder that holds it
  std::string_view name;    // with the extension
  std::string_view bytes;
};

}  // namespace twin
