# Parses the headers that most files of a part read once a part, not once a
# file: three quarters of the time to compile a file goes there.
option(FCDP_PRECOMPILE_HEADERS "Precompile headers of MLIR and libtorch" ON)

# fcdp_precompile(TARGET USERS target ... HEADERS <header> ...)
#   USERS  further targets, compiled with the same flags and definitions
function(fcdp_precompile target)
  if(NOT FCDP_PRECOMPILE_HEADERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "USERS;HEADERS" ${ARGN})
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
  foreach(user ${ARG_USERS})
    target_precompile_headers(${user} REUSE_FROM ${target})
  endforeach()
  foreach(user ${target} ${ARG_USERS})
    # -fPIC also for executables, as clang wants the headers' and the file's to
    # be the same. A time stamp would keep ccache from finding what it has.
    target_compile_options(${user} PRIVATE -fPIC
      $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
  endforeach()
endfunction()
