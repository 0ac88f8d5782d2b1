# Writes to OUT/plan what is made of the plan's schema: by flatc, accessors for
# the compiler and the runtime, and the schema itself, with which the compiler
# reads and writes plans as text; and the visitors of its unions.
#   cmake -DOUT=<folder> [-DFLATC=<program>] -P cmake/FcdpPlanHeader.cmake
if(NOT FLATC)
  find_program(FLATC flatc REQUIRED)
endif()
set(SCHEMA ${CMAKE_CURRENT_LIST_DIR}/../runtime/plan/Plan.fbs)
execute_process(
  COMMAND ${FLATC} --cpp --cpp-std c++17 --scoped-enums --gen-object-api --reflect-names
          --cpp-field-case-style lower --bfbs-gen-embed -o ${OUT}/plan ${SCHEMA}
  COMMAND_ERROR_IS_FATAL ANY)
include(${CMAKE_CURRENT_LIST_DIR}/FcdpPlanUnions.cmake)
