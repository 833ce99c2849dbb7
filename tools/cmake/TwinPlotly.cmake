# Plotly's script, of one version, for the pages of `twinserve report`: part of the program where
# tools/fetch_plotly has put it, never downloaded here.
set(TWIN_PLOTLY_VERSION 7.1.0)
if(DEFINED ENV{XDG_CACHE_HOME})
  set(twin_cache_folder "$ENV{XDG_CACHE_HOME}")
else()
  set(twin_cache_folder "$ENV{HOME}/.cache")
endif()
set(TWIN_PLOTLY_SCRIPT "${twin_cache_folder}/twinserve/plotly-${TWIN_PLOTLY_VERSION}/plotly.min.js"
  CACHE FILEPATH "What tools/fetch_plotly made")

set(TWIN_HAS_PLOTLY OFF)
if(EXISTS "${TWIN_PLOTLY_SCRIPT}")
  set(TWIN_HAS_PLOTLY ON)
else()
  message(STATUS "${TWIN_PLOTLY_SCRIPT} does not exist; tools/fetch_plotly makes it. "
    "Without it, `twinserve report` refuses to work")
endif()
message(STATUS "Plotly: ${TWIN_HAS_PLOTLY}")
