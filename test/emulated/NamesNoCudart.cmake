# SPDX-License-Identifier: Apache-2.0
# Fails if one of the object files OBJECTS calls a function of libcudart that it does not define.
execute_process(COMMAND ${NM} --undefined-only ${OBJECTS} OUTPUT_VARIABLE undefined COMMAND_ERROR_IS_FATAL ANY)
if(NOT undefined MATCHES " U ")
  message(FATAL_ERROR "expected ${NM} to list the functions that ${OBJECTS} calls, got '${undefined}'")
endif()
string(REGEX MATCHALL " U cuda[A-Z][A-Za-z0-9_]*" called "${undefined}")
if(called)
  message(FATAL_ERROR "expected no call of libcudart by name, which programs are not linked with, got${called}")
endif()
