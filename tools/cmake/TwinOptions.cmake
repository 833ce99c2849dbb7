# The tests are about 200 programs. Linked with static layers under sanitizers they take 14 GB.
option(TWIN_SHARED_LAYERS "Layers are shared libraries: small test programs, for debug builds" OFF)
set(TWIN_LAYER_TYPE STATIC)
if(TWIN_SHARED_LAYERS)
  set(TWIN_LAYER_TYPE SHARED)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN")  # installed layers find each other
else()
  # The Python module is a shared object of the same objects as programs. Hidden symbols keep
  # position-independent code as fast as that of programs. All presets have these flags, because
  # ccache then shares objects between them.
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()

# Flags that every target shares, on one interface target.
add_library(twin_options INTERFACE)
target_compile_features(twin_options INTERFACE cxx_std_20)
target_include_directories(twin_options INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
# fmt as a static library of our own (fmt_library.cc says why); later versions as headers.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_LESS 10)
  add_library(twin_fmt ${TWIN_LAYER_TYPE} "${CMAKE_CURRENT_LIST_DIR}/fmt_library.cc")
  target_compile_features(twin_fmt PUBLIC cxx_std_20)
  target_link_libraries(twin_options INTERFACE twin_fmt)
else()
  target_link_libraries(twin_options INTERFACE fmt::fmt-header-only)
endif()
# Known false positives of GCC 12 in optimised code: maybe-uninitialized on a moved std::variant,
# restrict on concatenation of std::string (GCC bug 105651), stringop-overflow on the fill character
# of fmt's format specifications.
target_compile_options(twin_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion;-Werror>>"
  "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-error=maybe-uninitialized;-Wno-restrict;-Wno-stringop-overflow>>")

# Headers take two thirds of the time to compile; this halves a build from nothing.
option(TWIN_UNITY "Compile eight sources of a layer at a time" OFF)
if(TWIN_UNITY)
  # One source's local may then have the name of another's constant, and the compiler takes a
  # source's anonymous namespace for a header's.
  target_compile_options(twin_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow;-Wno-subobject-linkage>>")
endif()

# twin_compile_fast(TARGET): optimises less, which compiles a third faster. For layers whose code does
# not run during the steps of a run, and for tests.
function(twin_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:RelWithDebInfo>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# twin_compile_light(TARGET): under sanitizers, without optimisation and without the checks of each
# pointer, which compiles in less than half of the time. For tests, and for layers without code that
# runs during steps: null pointers and bounds are checked there too, by the address sanitizer. Call it
# after TARGET is linked with twin_options, since the last of two options decides.
add_library(twin_light_options INTERFACE)
target_compile_options(twin_light_options INTERFACE
  $<$<CONFIG:Debug>:-O0;-fno-sanitize=null,alignment,object-size,vptr>)
function(twin_compile_light target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:twin_light_options>)
endfunction()

set(TWIN_SANITIZE "" CACHE STRING "Sanitizers, comma-separated: address,undefined or thread")
if(TWIN_SANITIZE)
  target_compile_options(twin_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TWIN_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
  target_link_options(twin_options INTERFACE -fsanitize=${TWIN_SANITIZE})
endif()

option(TWIN_BUNDLE "Programs for a folder that runs elsewhere (TwinBundle.cmake)" OFF)
if(TWIN_BUNDLE)
  set(ZLIB_USE_STATIC_LIBS ON)
endif()
