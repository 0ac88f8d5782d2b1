# Finds the libtorch of a PyTorch installation and makes the target
# `fcdp_torch`.
#   FCDP_TORCH_DIR  the installation's folder `torch`; default: that of
#                   Torch_DIR, of .venv, or what python3 imports
get_filename_component(fcdp_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

if(NOT FCDP_TORCH_DIR AND Torch_DIR) # torch/share/cmake/Torch
  get_filename_component(FCDP_TORCH_DIR ${Torch_DIR}/../../.. ABSOLUTE)
endif()
if(NOT FCDP_TORCH_DIR)
  file(GLOB candidates ${fcdp_root}/.venv/lib/python3*/site-packages/torch)
  list(POP_FRONT candidates FCDP_TORCH_DIR)
endif()
if(NOT FCDP_TORCH_DIR)
  # Found without importing it, which takes seconds.
  execute_process(
    COMMAND python3 -c "import importlib.util as u; print(*u.find_spec('torch').submodule_search_locations)"
    OUTPUT_VARIABLE FCDP_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${FCDP_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch found in '${FCDP_TORCH_DIR}': run scripts/setup, "
                      "or pass -DFCDP_TORCH_DIR=<site-packages>/torch")
endif()

# Older ones lack functions of c10d that are called here.
set(least 2.11)
set(FCDP_TORCH_VERSION 0)
if(EXISTS ${FCDP_TORCH_DIR}/version.py)
  file(STRINGS ${FCDP_TORCH_DIR}/version.py line REGEX "^__version__ = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" FCDP_TORCH_VERSION "${line}")
endif()
if(FCDP_TORCH_VERSION VERSION_LESS ${least})
  message(FATAL_ERROR "expected PyTorch ${least} or newer, got ${FCDP_TORCH_VERSION} in "
                      "'${FCDP_TORCH_DIR}': pass -DFCDP_TORCH_DIR=<site-packages>/torch of a newer one")
endif()
message(STATUS "PyTorch ${FCDP_TORCH_VERSION}: ${FCDP_TORCH_DIR}")

# PyTorch has Gloo's code, and includes its headers, but does not ship them.
find_path(FCDP_GLOO_INCLUDE_DIR gloo/algorithm.h)
if(NOT FCDP_GLOO_INCLUDE_DIR)
  message(FATAL_ERROR "no headers of Gloo found: install libgloo-dev, or bring a folder "
                      "that scripts/pack-runtime made on a machine that has them")
endif()

add_library(fcdp_torch INTERFACE)
target_include_directories(fcdp_torch SYSTEM INTERFACE
  ${FCDP_TORCH_DIR}/include ${FCDP_TORCH_DIR}/include/torch/csrc/api/include
  ${FCDP_GLOO_INCLUDE_DIR})
target_compile_definitions(fcdp_torch INTERFACE USE_C10D_GLOO)
target_link_libraries(fcdp_torch INTERFACE
  ${FCDP_TORCH_DIR}/lib/libtorch_cpu.so ${FCDP_TORCH_DIR}/lib/libc10.so)
set(FCDP_TORCH_HAS_CUDA OFF)
if(EXISTS ${FCDP_TORCH_DIR}/lib/libtorch_cuda.so)
  set(FCDP_TORCH_HAS_CUDA ON)
  # Hardly anything calls it by name: that it is loaded registers the CUDA kernels.
  target_link_libraries(fcdp_torch INTERFACE
    -Wl,--push-state,--no-as-needed ${FCDP_TORCH_DIR}/lib/libtorch_cuda.so
    ${FCDP_TORCH_DIR}/lib/libc10_cuda.so -Wl,--pop-state)
  # The libraries of CUDA lie in other folders, which it finds by itself.
  target_link_options(fcdp_torch INTERFACE -Wl,--allow-shlib-undefined)
endif()
target_link_options(fcdp_torch INTERFACE -Wl,-rpath,${FCDP_TORCH_DIR}/lib)
