# One function per kind of target; the folders' CMakeLists.txt only declare.

# twin_layer(NAME SOURCES ... HEADERS ... DEPENDS layer... EXTERNAL target... LINK_TEST target...
#            ALONE source...)
#
# The header of a source in SOURCES, x.h beside x.cc, is one of the layer's; HEADERS names the others.
# A library twin::NAME (static, or shared with TWIN_SHARED_LAYERS), plus a link test: the whole archive linked with the declared
# dependencies alone, so that an undeclared dependency is an undefined symbol. LINK_TEST names what
# every program has to add. ALONE names sources that TWIN_UNITY must not compile together with others,
# because both define the same name in their anonymous namespaces.
function(twin_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPENDS;EXTERNAL;LINK_TEST;ALONE")
  set(target twin_${name})
  foreach(source IN LISTS arg_SOURCES)
    string(REGEX REPLACE "[.]cc$" ".h" header "${source}")
    if(NOT IS_ABSOLUTE "${source}" AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${header}")
      list(APPEND arg_HEADERS "${header}")
    endif()
  endforeach()

  add_library(${target} ${TWIN_LAYER_TYPE})
  add_library(twin::${name} ALIAS ${target})
  target_sources(${target}
    PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS})
  list(TRANSFORM arg_DEPENDS PREPEND twin::)
  target_link_libraries(${target} PUBLIC twin_options ${arg_DEPENDS} ${arg_EXTERNAL})
  set_target_properties(${target} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON
    LINKER_LANGUAGE CXX
    CXX_EXTENSIONS OFF
    UNITY_BUILD ${TWIN_UNITY}
    UNITY_BUILD_BATCH_SIZE 8)
  if(arg_ALONE)
    set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()

  if(TWIN_TESTS)
    add_executable(${name}_link_test "${PROJECT_SOURCE_DIR}/tools/cmake/link_test_main.cc")
    target_link_libraries(${name}_link_test PRIVATE
      "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>" ${arg_DEPENDS} ${arg_EXTERNAL} ${arg_LINK_TEST})
    add_test(NAME layer.${name}.links COMMAND ${name}_link_test)
  endif()
endfunction()

# With TWIN_UNITY, headers that most tests include are parsed once: a quarter of a test's compile time.
# Presets without it find the includes that a test lacks.
function(twin_test_headers target)
  add_executable(${target} "${PROJECT_SOURCE_DIR}/tools/cmake/link_test_main.cc")
  target_link_libraries(${target} PRIVATE twin_options GTest::gmock ${ARGN})
  target_precompile_headers(${target} PRIVATE
    <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>
    <algorithm> <array> <chrono> <cmath> <cstdint> <deque> <filesystem> <fstream> <functional> <limits> <map>
    <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread>
    <tuple> <utility> <variant> <vector>)
endfunction()
if(TWIN_TESTS AND TWIN_UNITY)
  twin_test_headers(twin_light_test_headers twin_light_options)
  twin_test_headers(twin_computing_test_headers)
endif()

# twin_test(SOURCE DEPENDS layer... [LABELS ...] [TIMEOUT seconds] [SHARDS n])
#
# SHARDS: CTest runs the tests of the source in n processes, for sources with hundreds of short ones;
# otherwise each in a process of its own.
# One binary per test source; its name is the source's stem. A test of run_real or of a verb has the CUDA of the build,
# as every program has, unless it names another one (cuda_emulation).
function(twin_test source)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;SHARDS" "DEPENDS;LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  get_filename_component(target "${source}" NAME_WE)
  # References to kernels are computed in the tests themselves.
  set(headers twin_light_test_headers)
  if("kernels" IN_LIST arg_DEPENDS OR "cuda_emulation" IN_LIST arg_DEPENDS)
    set(headers twin_computing_test_headers)
  endif()
  if(TWIN_EXEC AND arg_DEPENDS MATCHES "apps|run_real|service" AND NOT "cuda_emulation" IN_LIST arg_DEPENDS)
    list(APPEND arg_DEPENDS run_real cuda)  # in the order of linking: run_real uses cuda
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND twin::)
  add_executable(${target} ${source})
  target_link_libraries(${target} PRIVATE twin_options ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE TWIN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(headers STREQUAL twin_light_test_headers)
    twin_compile_light(${target})
  endif()
  if(TARGET ${headers})
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
  if(arg_SHARDS)
    math(EXPR last "${arg_SHARDS} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${target}.${shard} COMMAND ${target})
      set_tests_properties(${target}.${shard} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endforeach()
    return()
  endif()
  gtest_discover_tests(${target}
    DISCOVERY_TIMEOUT 60
    TEST_LIST ${target}_names
    PROPERTIES TIMEOUT ${arg_TIMEOUT})
  # gtest_discover_tests() splits a list of labels into further properties, so they are set behind it.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
foreach(name IN LISTS @target@_names)
  set_tests_properties("${name}" PROPERTIES LABELS "@arg_LABELS@")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
