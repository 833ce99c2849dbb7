# Writes a binary file as a C++ function: cmake -DFILE=... -DOUTPUT=... -P embed_descriptors.cmake
file(READ "${FILE}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
string(REGEX REPLACE "([^\n]+)\n?" "    \"\\1\"\n" bytes "${bytes}")
file(SIZE "${FILE}" size)
file(WRITE "${OUTPUT}"
"// Generated from the schemas by embed_descriptors.cmake.
#include \"config/schema_comments.h\"

namespace twin {

std::string_view SchemaDescriptors() {
  static const char bytes[] =
${bytes};
  return {bytes, ${size}};
}

}  // namespace twin
")
