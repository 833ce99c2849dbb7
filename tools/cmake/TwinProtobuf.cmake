# Protobuf, and libraries of schemas.

# Linked in where it may be, which is not in a shared library: binding its symbols takes a third of a
# short run's start.
if(NOT TWIN_SANITIZE AND NOT TWIN_SHARED_LAYERS)
  find_library(TWIN_PROTOBUF_ARCHIVE libprotobuf.a)
  if(TWIN_PROTOBUF_ARCHIVE)
    set(Protobuf_USE_STATIC_LIBS ON)
  endif()
endif()
find_package(Protobuf REQUIRED)
# A target with the property TWIN_SHARED_PROTOBUF gets the shared library: Debian's archive holds no
# position-independent code.
find_library(TWIN_PROTOBUF_SHARED protobuf REQUIRED)
add_library(twin_protobuf INTERFACE)
target_link_libraries(twin_protobuf INTERFACE
  "$<IF:$<BOOL:$<TARGET_PROPERTY:TWIN_SHARED_PROTOBUF>>,${TWIN_PROTOBUF_SHARED},protobuf::libprotobuf>")
target_include_directories(twin_protobuf SYSTEM INTERFACE "${Protobuf_INCLUDE_DIRS}")

set(TWIN_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")

# twin_schema(TARGET SCHEMA...)
#
# A library of the messages in SCHEMA.proto of this folder. Generated code keeps its own warnings, and
# its headers are system headers to everyone else.
function(twin_schema target)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  file(MAKE_DIRECTORY "${TWIN_GENERATED_DIR}/${folder}")
  set(files "")
  set(generated "")
  foreach(schema IN LISTS ARGN)
    list(APPEND files "${CMAKE_CURRENT_SOURCE_DIR}/${schema}.proto")
    list(APPEND generated
      "${TWIN_GENERATED_DIR}/${folder}/${schema}.pb.cc" "${TWIN_GENERATED_DIR}/${folder}/${schema}.pb.h")
  endforeach()
  add_custom_command(
    OUTPUT ${generated}
    COMMAND protobuf::protoc
      "--proto_path=${PROJECT_SOURCE_DIR}" "--cpp_out=${TWIN_GENERATED_DIR}" ${files}
    DEPENDS ${files}
    VERBATIM)
  add_library(${target} ${TWIN_LAYER_TYPE} ${generated})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -w)
  twin_compile_fast(${target})
  target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${TWIN_GENERATED_DIR}>")
  target_link_libraries(${target} PUBLIC twin_protobuf)
  if(TWIN_SANITIZE)
    # Checks for undefined behaviour are for our own code: in generated code they double the time to
    # compile, and their tables are a fifth of what the loader relocates when a test starts.
    target_compile_options(${target} PRIVATE
      -fsanitize=${TWIN_SANITIZE} -fno-sanitize=undefined)
  endif()
endfunction()
