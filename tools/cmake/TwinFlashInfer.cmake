# Headers of FlashInfer, of one version, for attention on NVIDIA GPUs: used where tools/fetch_flashinfer
# has put them, never downloaded here. TWIN_FLASHINFER = AUTO | ON | OFF.
set(TWIN_FLASHINFER_VERSION 0.7.2.post1)
set(TWIN_FLASHINFER "AUTO" CACHE STRING "FlashInfer: AUTO (where found), ON (required) or OFF")
set_property(CACHE TWIN_FLASHINFER PROPERTY STRINGS AUTO ON OFF)

if(DEFINED ENV{XDG_CACHE_HOME})
  set(twin_cache_folder "$ENV{XDG_CACHE_HOME}")
else()
  set(twin_cache_folder "$ENV{HOME}/.cache")
endif()
set(TWIN_FLASHINFER_DIR "${twin_cache_folder}/twinserve/flashinfer-${TWIN_FLASHINFER_VERSION}"
  CACHE PATH "What tools/fetch_flashinfer made")

set(TWIN_HAS_FLASHINFER OFF)
if(TWIN_HAS_CUDA AND NOT TWIN_FLASHINFER STREQUAL "OFF")
  set(twin_flashinfer_found "")
  if(EXISTS "${TWIN_FLASHINFER_DIR}/version")
    file(STRINGS "${TWIN_FLASHINFER_DIR}/version" twin_flashinfer_found LIMIT_COUNT 1)
  endif()
  if(twin_flashinfer_found STREQUAL TWIN_FLASHINFER_VERSION)
    set(TWIN_HAS_FLASHINFER ON)
  else()
    set(twin_flashinfer_why "FlashInfer ${TWIN_FLASHINFER_VERSION} is not in ${TWIN_FLASHINFER_DIR}; \
tools/fetch_flashinfer puts it there")
    if(TWIN_FLASHINFER STREQUAL "ON")
      message(FATAL_ERROR "TWIN_FLASHINFER=ON, but ${twin_flashinfer_why}")
    endif()
    message(STATUS "${twin_flashinfer_why}: attention comes from our own, slower kernel")
  endif()
endif()
message(STATUS "FlashInfer: ${TWIN_HAS_FLASHINFER}")

if(TWIN_HAS_FLASHINFER)
  # The CCCL that it needs is newer than the toolkit's, whose headers nvcc takes before those of
  # -isystem: so -I.
  add_library(twin_flashinfer INTERFACE)
  target_include_directories(twin_flashinfer INTERFACE
    "${TWIN_FLASHINFER_DIR}/cccl/libcudacxx/include"
    "${TWIN_FLASHINFER_DIR}/cccl/cub"
    "${TWIN_FLASHINFER_DIR}/cccl/thrust")
  target_include_directories(twin_flashinfer SYSTEM INTERFACE
    "${TWIN_FLASHINFER_DIR}/include"
    "${TWIN_FLASHINFER_DIR}/cutlass/include"
    "${TWIN_FLASHINFER_DIR}/cutlass/tools/util/include")
  # Without NDEBUG it prints each failed call. 20012: a note on defaulted functions in its headers.
  target_compile_definitions(twin_flashinfer INTERFACE NDEBUG)
  target_compile_options(twin_flashinfer INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-diag-suppress=20012>)
endif()
