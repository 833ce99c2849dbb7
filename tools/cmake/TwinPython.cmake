# The Python package (apps/python). TWIN_PYTHON = AUTO (where nanobind is found) | ON (required) | OFF.
# nanobind is that of build/venv, where tools/setup puts it, or of the Python that `pip install .`
# or Python_EXECUTABLE names. From Python 3.12 on, pip and tools/wheel build for the stable ABI, which
# nanobind drops without a word unless Python::SABIModule exists.
set(TWIN_PYTHON "OFF" CACHE STRING "The Python package: AUTO (where nanobind is found), ON (required) or OFF")
set_property(CACHE TWIN_PYTHON PROPERTY STRINGS AUTO ON OFF)

set(TWIN_HAS_PYTHON OFF)
if(TWIN_PYTHON STREQUAL "ON" AND NOT TWIN_STUDIES)
  message(FATAL_ERROR "TWIN_PYTHON=ON needs TWIN_STUDIES=ON: the package has sweep and capacity")
endif()
if(TWIN_PYTHON STREQUAL "OFF" OR NOT TWIN_STUDIES)
  return()
endif()

set(twin_venv_python "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
if(NOT SKBUILD AND NOT Python_EXECUTABLE AND EXISTS "${twin_venv_python}")
  set(Python_EXECUTABLE "${twin_venv_python}")
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
set(twin_nanobind "")
if(Python_FOUND)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE twin_nanobind OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(twin_nanobind)
  set(TWIN_HAS_PYTHON ON)
  find_package(nanobind CONFIG REQUIRED PATHS "${twin_nanobind}" NO_DEFAULT_PATH)
elseif(TWIN_PYTHON STREQUAL "ON")
  message(FATAL_ERROR "TWIN_PYTHON=ON, but Python's headers or nanobind were not found; "
    "`tools/setup packages python` installs them")
endif()
message(STATUS "Python package: ${TWIN_HAS_PYTHON}")
