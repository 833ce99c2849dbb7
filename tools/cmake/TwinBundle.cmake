# A folder that runs on another x86-64 Linux machine: nothing of ours, nor a compiler's libraries,
# need be installed there. CUDA libraries are looked for at run time (twinserve doctor).
#
# The target `bundle` makes it, ${PROJECT_BINARY_DIR}/twinserve-bundle, and its archive beside it,
# twinserve-bundle.txz.
if(NOT TWIN_BUNDLE)
  return()
endif()
if(NOT TWIN_HAS_CUDA)
  message(FATAL_ERROR "A bundle needs a CUDA compiler: it is for machines with a GPU")
endif()

# The bundle's own library, where a program cannot have it inside.
find_package(muparser CONFIG REQUIRED)
set(bundle_libraries "$<TARGET_SONAME_FILE:muparser::muparser>")
foreach(name libstdc++.so.6 libgcc_s.so.1 libgomp.so.1)
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" "-print-file-name=${name}"
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND bundle_libraries "${path}")
endforeach()

# On glibc 2.34 and later: what comes with later versions the programs define themselves, for the
# libraries in lib/ too.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_library(twin_older_glibc OBJECT "${CMAKE_CURRENT_LIST_DIR}/older_glibc.cc")
target_compile_features(twin_older_glibc PRIVATE cxx_std_20)

set(bundle_programs twinserve cuda_device_test)
target_link_options(cuda_device_test PRIVATE -static-libstdc++ -static-libgcc)
set_target_properties(twinserve PROPERTIES
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib")
# A path that holds for the libraries' own libraries too.
target_link_options(twinserve PRIVATE -Wl,--disable-new-dtags)

set(bundle_files "")
foreach(program IN LISTS bundle_programs)
  target_sources(${program} PRIVATE $<TARGET_OBJECTS:twin_older_glibc>)
  target_link_options(${program} PRIVATE
    -Wl,--export-dynamic-symbol=arc4random,--export-dynamic-symbol=_dl_find_object)
  list(APPEND bundle_files "$<TARGET_FILE:${program}>")
endforeach()
add_custom_target(bundle
  COMMAND "${CMAKE_COMMAND}"
    "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DFOLDER=${PROJECT_BINARY_DIR}/twinserve-bundle"
    "-DARCHIVE=${PROJECT_BINARY_DIR}/twinserve-bundle.txz"
    "-DPROGRAMS=${bundle_files}" "-DLIBRARIES=${bundle_libraries}" "-DSTRIP=${CMAKE_STRIP}"
    "-DPYTHON=${Python3_EXECUTABLE}" "-DOLDER_GLIBC=${CMAKE_CURRENT_LIST_DIR}/older_glibc.py"
    -P "${CMAKE_CURRENT_LIST_DIR}/make_bundle.cmake"
  DEPENDS ${bundle_programs}
  COMMENT "Making twinserve-bundle"
  VERBATIM)
