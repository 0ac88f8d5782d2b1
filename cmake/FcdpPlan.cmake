# fcdp_list_tables(<path> <macro> <name>...)
#
# Writes the header <path> in the folder `generated` of the current binary folder: a use of the macro for each named
# table of the plan's schema.
function(fcdp_list_tables path macro)
  list(TRANSFORM ARGN REPLACE "(.+)" "${macro}(\\1T)\n" OUTPUT_VARIABLE lines)
  list(JOIN lines "" text)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/${path} CONTENT "${text}")
endfunction()

# Makes the target `fcdp_plan_schema`: the headers that FcdpPlanHeader.cmake
# makes of runtime/plan/Plan.fbs, and FlatBuffers'. A folder that
# scripts/pack-runtime made has both.
if(TARGET fcdp_plan_schema)
  return()
endif()
get_filename_component(fcdp_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
find_path(FCDP_FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h)
if(NOT FCDP_FLATBUFFERS_INCLUDE_DIR)
  message(FATAL_ERROR "no headers of FlatBuffers found: install libflatbuffers-dev, or bring a folder "
                      "that scripts/pack-runtime made on a machine that has them")
endif()
add_library(fcdp_plan_schema INTERFACE)
target_include_directories(fcdp_plan_schema SYSTEM INTERFACE ${FCDP_FLATBUFFERS_INCLUDE_DIR})
if(EXISTS ${fcdp_root}/third_party/include/plan/Plan_generated.h)
  target_include_directories(fcdp_plan_schema SYSTEM INTERFACE ${fcdp_root}/third_party/include)
  return()
endif()
find_program(FCDP_FLATC flatc)
if(NOT FCDP_FLATC)
  message(FATAL_ERROR "no flatc found: install flatbuffers-compiler")
endif()
set(generated ${CMAKE_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${generated}/plan/Plan_generated.h ${generated}/plan/Plan_bfbs_generated.h ${generated}/plan/PlanUnions.h
  COMMAND ${CMAKE_COMMAND} -DOUT=${generated} -DFLATC=${FCDP_FLATC} -P ${CMAKE_CURRENT_LIST_DIR}/FcdpPlanHeader.cmake
  DEPENDS ${fcdp_root}/runtime/plan/Plan.fbs ${CMAKE_CURRENT_LIST_DIR}/FcdpPlanHeader.cmake
          ${CMAKE_CURRENT_LIST_DIR}/FcdpPlanUnions.cmake
  COMMENT "Generating the plan's accessors")
add_custom_target(fcdp_plan_header DEPENDS ${generated}/plan/Plan_generated.h)
add_dependencies(fcdp_plan_schema fcdp_plan_header)
target_include_directories(fcdp_plan_schema SYSTEM INTERFACE ${generated})
