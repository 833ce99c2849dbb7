# CUDA is used where it is found and never required. TWIN_CUDA = AUTO | ON | OFF.
set(TWIN_CUDA "AUTO" CACHE STRING "CUDA: AUTO (where found), ON (required) or OFF")
set_property(CACHE TWIN_CUDA PROPERTY STRINGS AUTO ON OFF)

set(TWIN_HAS_CUDA OFF)
if(NOT TWIN_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real)
    endif()
    if(TWIN_CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER "${TWIN_CCACHE}")
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      # A ninth of the default's size: kernels of many head sizes and formats resemble each other.
      # Every driver that these toolkits' runtime accepts reads it.
      string(APPEND CMAKE_CUDA_FLAGS " --compress-mode=size")
    endif()
    set(TWIN_HAS_CUDA ON)
  elseif(TWIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TWIN_CUDA=ON, but no CUDA compiler was found")
  endif()
endif()
message(STATUS "CUDA: ${TWIN_HAS_CUDA}")

# The CUDA code of exec, and the kernels on an emulated device, need a toolkit's headers alone: they
# are compiled by the C++ compiler, under sanitizers too, and run in tests where no GPU is.
find_path(TWIN_CUDA_HEADERS cuda_runtime_api.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda PATH_SUFFIXES include)
set(TWIN_CUDA_EMULATION OFF)
if(TWIN_CUDA_HEADERS)
  add_library(twin_cuda_headers INTERFACE)
  target_include_directories(twin_cuda_headers SYSTEM INTERFACE "${TWIN_CUDA_HEADERS}")
  set(TWIN_CUDA_EMULATION ON)
endif()
message(STATUS "CUDA code tested on an emulated device: ${TWIN_CUDA_EMULATION}")
