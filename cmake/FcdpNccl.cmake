# Finds nccl.h, which the PyPI wheel of NCCL has, and makes the target
# `fcdp_nccl_headers`. The library itself is loaded by the program as it runs.
#   FCDP_NCCL_DIR  the wheel's folder `nvidia/nccl`; default: that of .venv
set(FCDP_WITH_NCCL OFF)
if(NOT FCDP_NCCL_DIR)
  file(GLOB candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/nccl)
  list(POP_FRONT candidates FCDP_NCCL_DIR)
endif()
find_path(FCDP_NCCL_INCLUDE_DIR nccl.h HINTS ${FCDP_NCCL_DIR}/include)
if(FCDP_NCCL_INCLUDE_DIR)
  set(FCDP_WITH_NCCL ON)
  add_library(fcdp_nccl_headers INTERFACE)
  target_include_directories(fcdp_nccl_headers SYSTEM INTERFACE ${FCDP_NCCL_INCLUDE_DIR})
elseif(FCDP_CUDA STREQUAL on)
  message(FATAL_ERROR "no nccl.h found: run scripts/setup, or pass -DFCDP_NCCL_DIR=<site-packages>/nvidia/nccl, "
                      "or -DFCDP_CUDA=off")
else()
  message(STATUS "NCCL: not built, no nccl.h found (run scripts/setup, or pass -DFCDP_NCCL_DIR=<site-packages>/nvidia/nccl)")
endif()
