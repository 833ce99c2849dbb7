# twin_add_flashinfer(TARGET): FlashInfer's kernels become a part of it, in place of
# no_flashinfer.cc. Compiling takes two minutes on one core and, for FA3, 3.5 GB.
function(twin_add_flashinfer target)
  set(folder "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  set(sources cuda_core_d64.cu cuda_core_d128.cu fa2_d64.cu fa2_d128.cu fa2_d256.cu)
  list(TRANSFORM sources PREPEND "${folder}/")
  add_library(twin_flashinfer_kernels OBJECT ${sources})
  set(objects twin_flashinfer_kernels)
  set(definitions TWIN_FLASHINFER_VERSION="${TWIN_FLASHINFER_VERSION}")

  # FA3 is for one architecture alone.
  set(architectures "${CMAKE_CUDA_ARCHITECTURES}")
  list(FILTER architectures INCLUDE REGEX "^90a")
  if(architectures)
    set(sources fa3_d64.cu fa3_d128.cu)
    list(TRANSFORM sources PREPEND "${folder}/")
    add_library(twin_flashinfer_fa3 OBJECT ${sources})
    set_target_properties(twin_flashinfer_fa3 PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    list(APPEND objects twin_flashinfer_fa3)
    list(APPEND definitions TWIN_FLASHINFER_FA3)
    if(CMAKE_GENERATOR MATCHES "Ninja")
      set_property(GLOBAL APPEND PROPERTY JOB_POOLS twin_flashinfer_fa3=1)
      set_target_properties(twin_flashinfer_fa3 PROPERTIES JOB_POOL_COMPILE twin_flashinfer_fa3)
    endif()
  endif()

  if(TWIN_TESTS)
    # Plans travel with the other inputs of a step: planner.cuh leaves out the planners' own copies.
    list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE object_files)
    add_test(NAME flashinfer_copies_nothing
      COMMAND sh -c "symbols=$(nm \"$@\") && ! echo \"$symbols\" | grep cudaMemcpy" sh ${object_files}
      COMMAND_EXPAND_LISTS)
  endif()
  foreach(object IN LISTS objects)
    twin_keep_ptxas_report(${object})
    target_link_libraries(${object} PRIVATE twin_options twin_flashinfer)
    target_compile_definitions(${object} PRIVATE ${definitions})
    # CMake 3.25 does not know that nvcc understands C++20.
    target_compile_options(${object} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
  target_sources(${target} PRIVATE "${folder}/flashinfer_attention.cc")
  set_property(SOURCE "${folder}/flashinfer_attention.cc" TARGET_DIRECTORY ${target}
    APPEND PROPERTY COMPILE_DEFINITIONS ${definitions})
endfunction()
