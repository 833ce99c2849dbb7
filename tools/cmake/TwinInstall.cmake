# The libraries and headers for programs outside the tree: cmake --install BUILD --component
# development. A program then says find_package(twinserve) and links
#   twinserve::sched   the scheduler, for a policy and its tests (sched/testing)
#   twinserve::run     everything that simulates and runs models on the CPU (twinserve::lab, its
#                      former name, still works)
# Needs what the build has compiled; builds of tests, or of the target twin_development, have it all.
include(CMakePackageConfigHelpers)

set(sched_targets twin_options twin_core twin_sched)
if(TARGET twin_fmt)
  list(APPEND sched_targets twin_fmt)
endif()
set(run_targets twin_files twin_models twin_record twin_traces twin_kernels twin_sim twin_exec
  twin_protobuf twin_config_schema twin_config twin_record_schema twin_run_files twin_run twin_run_real
  twin_no_cuda)

# Programs need not know what else the libraries are linked with.
add_library(twin_installed_run INTERFACE)
target_link_libraries(twin_installed_run INTERFACE twin_run_real twin_no_cuda)
list(APPEND run_targets twin_installed_run)

foreach(target IN LISTS sched_targets run_targets)
  string(REPLACE "twin_" "" name "${target}")
  set_target_properties(${target} PROPERTIES EXPORT_NAME "${name}")
endforeach()
set_target_properties(twin_run PROPERTIES EXPORT_NAME run_library)
set_target_properties(twin_installed_run PROPERTIES EXPORT_NAME run)
add_custom_target(twin_development DEPENDS twin_sched twin_run_real twin_no_cuda)

set(headers_folder include/twinserve)
set(package_folder lib/cmake/twinserve)
install(DIRECTORY "${PROJECT_BINARY_DIR}/generated/" DESTINATION ${headers_folder}
  COMPONENT development FILES_MATCHING PATTERN "*.h")
foreach(part sched run)
  foreach(target IN LISTS ${part}_targets)
    get_target_property(header_sets ${target} HEADER_SETS)
    set(header_arguments "")
    if(header_sets)
      set(header_arguments FILE_SET HEADERS DESTINATION ${headers_folder} COMPONENT development)
    endif()
    install(TARGETS ${target} EXPORT twinserve-${part}
      ARCHIVE DESTINATION lib/twinserve COMPONENT development
      LIBRARY DESTINATION lib/twinserve COMPONENT development
      ${header_arguments}
      INCLUDES DESTINATION ${headers_folder})
  endforeach()
  install(EXPORT twinserve-${part} NAMESPACE twinserve:: DESTINATION ${package_folder}
    COMPONENT development)
endforeach()

configure_file("${CMAKE_CURRENT_LIST_DIR}/twinserve-config.cmake.in"
  "${PROJECT_BINARY_DIR}/generated/twinserve-config.cmake" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/twinserve-config-version.cmake"
  COMPATIBILITY ExactVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/generated/twinserve-config.cmake"
  "${PROJECT_BINARY_DIR}/generated/twinserve-config-version.cmake"
  DESTINATION ${package_folder} COMPONENT development)
