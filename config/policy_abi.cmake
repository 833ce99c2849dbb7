# Writes a hash of the sources of core and sched into HEADER, only if it has changed.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE sources "${SOURCE}/sched/*.h" "${SOURCE}/sched/*.cc")
file(GLOB core "${SOURCE}/core/*.h" "${SOURCE}/core/*.cc")
list(APPEND sources ${core})
list(SORT sources)
set(all "")
foreach(source IN LISTS sources)
  file(SHA256 "${source}" hash)
  file(RELATIVE_PATH name "${SOURCE}" "${source}")
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING "${hash}" 0 16 hash)
file(CONFIGURE OUTPUT "${HEADER}" CONTENT
"// The sources of the scheduler that was built. Generated.
#pragma once
#define TWIN_SCHEDULER_HASH \"@hash@\"
" @ONLY)
