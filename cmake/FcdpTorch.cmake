# Finds the libtorch of the PyPI wheel and makes the target `fcdp_torch`.
#   FCDP_TORCH_DIR  the wheel's folder `torch`; default: that of .venv
if(NOT FCDP_TORCH_DIR)
  file(GLOB candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(POP_FRONT candidates FCDP_TORCH_DIR)
endif()
if(NOT EXISTS "${FCDP_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch found in '${FCDP_TORCH_DIR}': run scripts/setup, "
                      "or pass -DFCDP_TORCH_DIR=<site-packages>/torch")
endif()
add_library(fcdp_torch INTERFACE)
target_include_directories(fcdp_torch SYSTEM INTERFACE
  ${FCDP_TORCH_DIR}/include ${FCDP_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(fcdp_torch INTERFACE USE_C10D_GLOO)
target_link_libraries(fcdp_torch INTERFACE
  ${FCDP_TORCH_DIR}/lib/libtorch_cpu.so ${FCDP_TORCH_DIR}/lib/libc10.so)
target_link_options(fcdp_torch INTERFACE -Wl,-rpath,${FCDP_TORCH_DIR}/lib)
