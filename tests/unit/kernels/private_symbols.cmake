# Fails if a source compiled for special instruction sets shares any function with the program: the
# linker could take that copy where the processor cannot execute it.
# cmake -DNM=nm -DOBJECTS=a.o;b.o -P private_symbols.cmake
list(LENGTH OBJECTS count)
if(count EQUAL 0)
  message(FATAL_ERROR "no objects to look at")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND "${NM}" --defined-only --extern-only "${object}"
    OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
  if(failed OR NOT symbols MATCHES "Kernels")
    message(FATAL_ERROR "${object}: no table of kernels")
  endif()
  string(STRIP "${symbols}" symbols)
  string(REPLACE "\n" ";" symbols "${symbols}")
  list(FILTER symbols EXCLUDE REGEX " [DR] .*(Portable|Avx2|Avx512|Avx512Bf16)KernelsE$")
  if(symbols)
    message(FATAL_ERROR "${object} shares ${symbols}")
  endif()
endforeach()
