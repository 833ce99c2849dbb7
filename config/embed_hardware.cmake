# Writes OUTPUT, a C++ source with the text of every file of FILES (separated by |).
string(REPLACE "|" ";" FILES "${FILES}")
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WLE)
  file(READ "${file}" text)
  string(APPEND entries "    {\"${name}\", R\"textproto(${text})textproto\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"config/hardware_texts.h\"

namespace twin {

namespace {

constexpr HardwareText kHardwareTexts[] = {
${entries}};

}  // namespace

std::span<const HardwareText> HardwareTexts() { return kHardwareTexts; }

}  // namespace twin
")
