# Writes what flatc makes of the plan's schema to OUT/plan: accessors for the
# compiler and the runtime, and the schema itself, with which the compiler reads
# and writes plans as text.
#   cmake -DOUT=<folder> [-DFLATC=<program>] -P cmake/FcdpPlanHeader.cmake
if(NOT FLATC)
  find_program(FLATC flatc REQUIRED)
endif()
execute_process(
  COMMAND ${FLATC} --cpp --cpp-std c++17 --scoped-enums --gen-object-api --reflect-names
          --cpp-field-case-style lower --bfbs-gen-embed -o ${OUT}/plan
          ${CMAKE_CURRENT_LIST_DIR}/../runtime/plan/Plan.fbs
  COMMAND_ERROR_IS_FATAL ANY)
