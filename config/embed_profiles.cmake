# Writes OUTPUT, a C++ source with the bytes of every file of FILES (separated by |), which lie in
# one folder per device.
string(REPLACE "|" ";" FILES "${FILES}")
set(entries "")
foreach(path IN LISTS FILES)
  get_filename_component(file "${path}" NAME)
  get_filename_component(folder "${path}" DIRECTORY)
  get_filename_component(device "${folder}" NAME)
  if(file MATCHES "\\.gz$")
    file(SIZE "${path}" size)
    file(READ "${path}" bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
    string(REGEX REPLACE "([^\n]+)\n?" "        \"\\1\"\n" bytes "${bytes}")
    string(APPEND entries "    {\"${device}\", \"${file}\", std::string_view(\n${bytes}        , ${size})},\n")
  else()
    file(READ "${path}" text)
    string(APPEND entries "    {\"${device}\", \"${file}\", R\"textproto(${text})textproto\"},\n")
  endif()
endforeach()
file(WRITE "${OUTPUT}" "#include \"config/profile_texts.h\"

#include <array>

namespace twin {

namespace {

// One more than there are, because there may be none.
constexpr ProfileText kProfileTexts[] = {
${entries}    {}};

}  // namespace

std::span<const ProfileText> ProfileTexts() { return std::span(kProfileTexts).first(std::size(kProfileTexts) - 1); }

}  // namespace twin
")
