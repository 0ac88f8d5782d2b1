# Settings of the runtime if it is built alone. Headers that scripts/pack-runtime
# copied are in third_party.
get_filename_component(FCDP_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
list(PREPEND CMAKE_PREFIX_PATH ${FCDP_ROOT}/third_party)
include(${CMAKE_CURRENT_LIST_DIR}/FcdpSettings.cmake)
