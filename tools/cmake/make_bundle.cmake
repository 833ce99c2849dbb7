# Fills the folder FOLDER: the PROGRAMS, stripped, the LIBRARIES they need beside glibc's, and what
# checks/gpu_check reads; and packs it into ARCHIVE. SOURCE is the project's root.
file(REMOVE_RECURSE "${FOLDER}.new")
file(MAKE_DIRECTORY "${FOLDER}.new/bin" "${FOLDER}.new/lib")

function(copy_stripped from folder)
  get_filename_component(name "${from}" NAME)
  execute_process(COMMAND "${STRIP}" --strip-unneeded -o "${folder}/${name}" "${from}"
    COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD "${folder}/${name}"
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
      WORLD_EXECUTE)
endfunction()

foreach(program IN LISTS PROGRAMS)
  copy_stripped("${program}" "${FOLDER}.new/bin")
endforeach()
foreach(library IN LISTS LIBRARIES)
  copy_stripped("${library}" "${FOLDER}.new/lib")
endforeach()

file(GLOB binaries "${FOLDER}.new/bin/*" "${FOLDER}.new/lib/*")
execute_process(COMMAND "${PYTHON}" "${OLDER_GLIBC}" ${binaries} COMMAND_ERROR_IS_FATAL ANY)

file(COPY "${SOURCE}/checks/gpu_check" DESTINATION "${FOLDER}.new/checks"
  PATTERN "results" EXCLUDE PATTERN "__pycache__" EXCLUDE)
file(COPY_FILE "${SOURCE}/tools/cmake/bundle_readme.md" "${FOLDER}.new/README.md")
file(COPY_FILE "${SOURCE}/LICENSE" "${FOLDER}.new/LICENSE")
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(WRITE "${FOLDER}.new/COMMIT" "${commit}\n")

file(MAKE_DIRECTORY "${FOLDER}.new/models")
file(GLOB references "${SOURCE}/tests/golden/models/*/expected.safetensors")
foreach(reference IN LISTS references)
  get_filename_component(model "${reference}" DIRECTORY)
  file(COPY "${model}" DESTINATION "${FOLDER}.new/models"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()

# Whole or not at all.
file(REMOVE_RECURSE "${FOLDER}")
file(RENAME "${FOLDER}.new" "${FOLDER}")
execute_process(COMMAND "${PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/pack_bundle.py" "${FOLDER}" "${ARCHIVE}"
  COMMAND_ERROR_IS_FATAL ANY)
