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
  fcdp_set_precompile_options(${target})
  foreach(user ${ARG_USERS})
    fcdp_use_precompiled(${user} ${target})
  endforeach()
endfunction()

# fcdp_use_precompiled(USER TARGET): USER is compiled with TARGET's headers,
# flags and definitions.
function(fcdp_use_precompiled user target)
  if(FCDP_PRECOMPILE_HEADERS)
    target_precompile_headers(${user} REUSE_FROM ${target})
    fcdp_set_precompile_options(${user})
  endif()
endfunction()

function(fcdp_set_precompile_options target)
  # -fPIC also for executables, as clang wants the headers' and the file's to
  # be the same. A time stamp would keep ccache from finding what it has.
  target_compile_options(${target} PRIVATE -fPIC
    $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
endfunction()
