// Recognises files that hold no text a reader of lines understands.
#pragma once

#include <string_view>

namespace twin {

// The name of the kind of a file that begins with these bytes ("Parquet", "UTF-16 text"), with an
// article; empty if they may be text in UTF-8.
std::string_view ForeignKind(std::string_view beginning);

}  // namespace twin
