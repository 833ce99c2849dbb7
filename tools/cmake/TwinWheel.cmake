# What tools/wheel needs beside the Python package as pip builds it.

# twin_link_for_wheel(TARGET): binds two functions to their first versions (older_symbols.cc), and
# leaves out functions that nothing calls.
function(twin_link_for_wheel target)
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tools/cmake/older_symbols.cc")
  target_link_options(${target} PRIVATE
    -Wl,--gc-sections
    -Wl,--wrap=hypot
    -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
endfunction()

# twin_install_licence(NAME FILE...): the first of the files that exists; FILE may hold "*".
function(twin_install_licence name)
  file(GLOB texts ${ARGN})
  if(NOT texts)
    message(FATAL_ERROR "No licence of ${name}: ${ARGN} does not exist")
  endif()
  list(GET texts 0 text)
  install(FILES "${text}" DESTINATION "${SKBUILD_METADATA_DIR}/licenses" RENAME "${name}.txt"
    COMPONENT python)
endfunction()

# twin_install_plotly(): the script of figures, which xz makes a quarter smaller than the archive does.
function(twin_install_plotly)
  set(packed "${CMAKE_CURRENT_BINARY_DIR}/plotly.min.js.xz")
  execute_process(COMMAND "${Python_EXECUTABLE}" -c
    "import lzma, sys; open(sys.argv[2], 'wb').write(lzma.compress(open(sys.argv[1], 'rb').read(), preset=9 | lzma.PRESET_EXTREME))"
    "${TWIN_PLOTLY_SCRIPT}" "${packed}" COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${packed}" DESTINATION twinserve COMPONENT python)
endfunction()

# twin_install_licences(): of what the wheel holds of others, from where their packages lie.
function(twin_install_licences)
  if(NOT SKBUILD_METADATA_DIR)
    return()
  endif()
  set(documents /usr/share/doc)
  twin_install_licence(Boost "${documents}/libboost-dev/copyright")
  twin_install_licence(CLI11 "${documents}/libcli11-dev/copyright")
  twin_install_licence(Eigen "${documents}/libeigen3-dev/copyright")
  twin_install_licence(fmt "${documents}/libfmt-dev/copyright")
  twin_install_licence(libgomp "${documents}/libgomp1/copyright")  # muParser's
  twin_install_licence(muParser "${documents}/libmuparser2v5*/copyright")
  twin_install_licence(nlohmann-json "${documents}/nlohmann-json3-dev/copyright")
  twin_install_licence(Protobuf "${documents}/libprotobuf[0-9]*/copyright")
  get_filename_component(nanobind "${nanobind_DIR}" DIRECTORY)
  twin_install_licence(nanobind "${nanobind}/../nanobind-*.dist-info/licenses/LICENSE")
  # nanobind's package has this licence in the headers alone.
  file(STRINGS "${nanobind}/ext/robin_map/include/tsl/robin_map.h" lines LIMIT_COUNT 24)
  list(JOIN lines "\n" text)
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/robin-map.txt" "${text}\n")
  twin_install_licence(robin-map "${CMAKE_CURRENT_BINARY_DIR}/robin-map.txt")
  if(TWIN_HAS_PLOTLY)
    get_filename_component(plotly "${TWIN_PLOTLY_SCRIPT}" DIRECTORY)
    twin_install_licence(Plotly "${plotly}/LICENSE.txt")
  endif()
endfunction()
