# cuDNN as a second opinion on attention, in tests and benchmarks. TWIN_CUDNN = ON | OFF. Needs the
# headers of cuDNN 9 and of its frontend, which tools/fetch_cudnn_frontend fetches; the library is
# opened at run time. Compiling takes a minute and 2 GB.
option(TWIN_CUDNN "cuDNN's attention beside ours in tests and benchmarks" OFF)
set(TWIN_CUDNN_FRONTEND_VERSION 1.32.0)
set(TWIN_CUDNN_FRONTEND_DIR "${twin_cache_folder}/twinserve/cudnn-frontend-${TWIN_CUDNN_FRONTEND_VERSION}"
  CACHE PATH "What tools/fetch_cudnn_frontend made")

if(TWIN_CUDNN)
  if(NOT TWIN_HAS_CUDA)
    message(FATAL_ERROR "TWIN_CUDNN=ON needs CUDA, which was not found or not wanted")
  endif()
  set(twin_frontend_found "")
  if(EXISTS "${TWIN_CUDNN_FRONTEND_DIR}/version")
    file(STRINGS "${TWIN_CUDNN_FRONTEND_DIR}/version" twin_frontend_found LIMIT_COUNT 1)
  endif()
  if(NOT twin_frontend_found STREQUAL TWIN_CUDNN_FRONTEND_VERSION)
    message(FATAL_ERROR "TWIN_CUDNN=ON, but cuDNN's frontend ${TWIN_CUDNN_FRONTEND_VERSION} is not "
      "in ${TWIN_CUDNN_FRONTEND_DIR}; tools/fetch_cudnn_frontend puts it there")
  endif()
  find_path(TWIN_CUDNN_HEADERS cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT TWIN_CUDNN_HEADERS)
    message(FATAL_ERROR "TWIN_CUDNN=ON, but cudnn.h of cuDNN 9 is in no include folder")
  endif()
  add_library(twin_cudnn INTERFACE)
  target_include_directories(twin_cudnn SYSTEM INTERFACE
    "${TWIN_CUDNN_FRONTEND_DIR}/include" "${TWIN_CUDNN_HEADERS}")
  target_compile_definitions(twin_cudnn INTERFACE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
endif()
message(STATUS "cuDNN beside our attention: ${TWIN_CUDNN}")
