// SPDX-License-Identifier: Apache-2.0
#include "files/DiskMemory.h"

#include "files/FileErrors.h"
#include "files/UnnamedFile.h"

#include <cerrno>
#include <sys/mman.h>

namespace fcdp {

DiskMemory::DiskMemory(const std::string &folder, uint64_t bytes)
    : folder(folder), file(openUnnamed(folder, 0)) {
  if (!file)
    throwErrno(folder, "used for copies of states");
  refuseMemory(file, folder);
  if (bytes == 0)
    return;
  allocateSpace(file, folder, bytes, "copies of states");
  void *data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED)
    throwErrno(folder, "mapped");
  memory = {static_cast<std::byte *>(data), bytes};
  guarded = guard(memory.data(), memory.size());
}

DiskMemory::~DiskMemory() {
  if (guarded)
    unguard(guarded);
  if (!memory.empty())
    munmap(memory.data(), memory.size());
}

void DiskMemory::flush() const {
  if (!memory.empty() && msync(memory.data(), memory.size(), MS_SYNC) != 0)
    throwErrno(folder, "written with copies of states");
}

void DiskMemory::requireRead() const {
  if (guarded && guarded->isCut)
    throwAt(folder, "cannot be read for copies of states: the disk has failed");
}

} // namespace fcdp
