# Writes the commit that is being built into HEADER, only if it has changed, and the version: the
# Git tag of the commit, vX.Y.Z, else VERSION. With PACKAGE the version is VERSION, as that of a
# Python package is its name's (tools/package_version.py).
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
execute_process(COMMAND git -C "${SOURCE}" status --porcelain --untracked-files=no
  OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT PACKAGE)
  execute_process(COMMAND git -C "${SOURCE}" tag --points-at HEAD --sort=version:refname
    OUTPUT_VARIABLE tags OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" tags "${tags}")
  list(FILTER tags INCLUDE REGEX "^v[0-9]+\\.[0-9]+\\.[0-9]+$")
  if(tags)
    list(POP_BACK tags tag)
    string(SUBSTRING "${tag}" 1 -1 VERSION)
  endif()
endif()
if(failed)
  set(commit "unknown")
endif()
set(dirty false)
if(changes)
  set(dirty true)
endif()
file(CONFIGURE OUTPUT "${HEADER}" CONTENT
"// What was built. Generated.
#pragma once
namespace twin::run {
inline constexpr char kVersion[] = \"@VERSION@\";
inline constexpr char kCommit[] = \"@commit@\";
inline constexpr bool kDirty = @dirty@;
inline constexpr char kBuildType[] = \"@BUILD_TYPE@\";
inline constexpr char kCompiler[] = \"@COMPILER@\";
}  // namespace twin::run
" @ONLY)
