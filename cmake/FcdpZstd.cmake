# Makes the target `fcdp_zstd`: zstd's static library, whose contexts in memory
# of the caller the shared one does not promise to have, and XXH3's header.
if(TARGET fcdp_zstd)
  return()
endif()
find_path(FCDP_ZSTD_INCLUDE_DIR zstd.h)
find_path(FCDP_XXHASH_INCLUDE_DIR xxhash.h)
find_library(FCDP_ZSTD_LIBRARY libzstd.a)
if(NOT FCDP_ZSTD_INCLUDE_DIR OR NOT FCDP_ZSTD_LIBRARY OR NOT FCDP_XXHASH_INCLUDE_DIR)
  message(FATAL_ERROR "no zstd or xxHash found: install libzstd-dev and libxxhash-dev, or bring a folder that "
                      "scripts/pack-runtime made on a machine that has them")
endif()
add_library(fcdp_zstd INTERFACE)
target_include_directories(fcdp_zstd SYSTEM INTERFACE ${FCDP_ZSTD_INCLUDE_DIR} ${FCDP_XXHASH_INCLUDE_DIR})
target_link_libraries(fcdp_zstd INTERFACE ${FCDP_ZSTD_LIBRARY})
# Shared libraries keep its symbols to themselves, apart from those of another zstd in the process.
target_link_options(fcdp_zstd INTERFACE -Wl,--exclude-libs,libzstd.a)
