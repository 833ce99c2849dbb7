# Writes OUTPUT, a C++ source that defines `std::span<const EmbeddedFile> FUNCTION()` with the content of
# FILES (paths separated by |) in their order. HEADER declares the function in NAMESPACE.
string(REPLACE "|" ";" FILES "${FILES}")
set(entries "")
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME)
  get_filename_component(folder "${path}" DIRECTORY)
  get_filename_component(folder "${folder}" NAME)
  file(SIZE "${path}" size)
  file(READ "${path}" bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(REGEX REPLACE "([^\n]+)\n?" "        \"\\1\"\n" bytes "${bytes}")
  string(APPEND entries "    {\"${folder}\", \"${name}\", std::string_view(\n${bytes}        \"\", ${size})},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

#include <iterator>

namespace ${NAMESPACE} {
namespace {

// One more than there are, because there may be none.
constexpr EmbeddedFile k${FUNCTION}[] = {
${entries}    {}};

}  // namespace

std::span<const EmbeddedFile> ${FUNCTION}() {
  return std::span(k${FUNCTION}).first(std::size(k${FUNCTION}) - 1);
}

}  // namespace ${NAMESPACE}
")
