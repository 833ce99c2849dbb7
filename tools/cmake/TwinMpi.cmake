# MPI where it is found: ranks as processes. TWIN_HAS_MPI says so.
option(TWIN_MPI "Use MPI where it is found" ON)
set(TWIN_HAS_MPI OFF)
if(TWIN_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface is all that is used
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(TWIN_HAS_MPI ON)
  else()
    message(STATUS "MPI not found: ranks are threads of one process only")
  endif()
endif()
