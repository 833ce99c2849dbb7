# twin_embed(OUTPUT source FUNCTION name NAMESPACE namespace HEADER header FILES file...)
#
# A rule that writes a C++ source with the content of the files, which becomes part of the program. The
# header declares `std::span<const EmbeddedFile> name()` (core/files/embedded_file.h). The caller adds the
# source to a target of the same folder.
function(twin_embed)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUTPUT;FUNCTION;NAMESPACE;HEADER" "FILES")
  set(script "${PROJECT_SOURCE_DIR}/tools/cmake/embed_files.cmake")
  list(JOIN arg_FILES "|" files)
  add_custom_command(
    OUTPUT "${arg_OUTPUT}"
    COMMAND "${CMAKE_COMMAND}"
      "-DFILES=${files}" "-DOUTPUT=${arg_OUTPUT}" "-DFUNCTION=${arg_FUNCTION}"
      "-DNAMESPACE=${arg_NAMESPACE}" "-DHEADER=${arg_HEADER}"
      -P "${script}"
    DEPENDS ${arg_FILES} "${script}"
    VERBATIM)
endfunction()
