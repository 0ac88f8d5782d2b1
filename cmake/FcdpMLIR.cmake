# Finds MLIR and sets up the macros of the compiler's folders.
set(CMAKE_CXX_STANDARD 17)
find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(MLIR_LINK_MLIR_DYLIB ON)
set(LLVM_TABLEGEN_EXE llvm-tblgen) # a target of LLVM's; LLVMConfig.cmake does not name it
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR}) # where mlir-doc writes
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
set(LLVM_EXTERNAL_LIT ${LLVM_TOOLS_BINARY_DIR}/lit) # Debian has no llvm-lit
separate_arguments(FCDP_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${FCDP_LLVM_DEFINITIONS})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include
                    ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
