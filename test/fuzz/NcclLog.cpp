// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the reader of logs of nccl-tests:
//   build-asan/bin/fcdp-fuzz-nccl-log -dict=test/fuzz/nccl-log.dict \
//     NEW test/fuzz/corpus/nccl-log
//
// Checked, besides the sanitizers: what is refused is refused with file and
// line, and what is read makes tables that a description may have.

#include "fcdp/Cluster/TableImport.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace llvm;

/// LLVM's allocators poison memory in our code but not in libLLVM.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0:allocator_may_return_null=1";
}

[[noreturn]] static void die(const Twine &what) {
  errs() << what << '\n';
  abort();
}

/// Dies unless a description with the tables can be read. It may be too long.
static void checkTables(fcdp::ImportedTables imported) {
  for (const fcdp::ClusterPreset &preset : fcdp::getClusterPresets()) {
    if (preset.name != "a40-rdma")
      continue;
    imported.tables.ranksPerNode = 8;
    auto text =
        fcdp::mergeTables({preset.yaml, preset.name}, imported, "fuzz.log");
    if (!text) {
      std::string message = toString(text.takeError());
      if (!StringRef(message).contains("expected a description of at most"))
        die(message);
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Read beyond the end would be found: the copy has no byte after it.
  std::vector<char> bytes(data, data + size);
  auto tests = fcdp::parseNcclLog(
      {StringRef(bytes.data(), bytes.size()), "fuzz.log"}, std::nullopt);
  if (!tests) {
    std::string message = toString(tests.takeError());
    if (!StringRef(message).starts_with("fuzz.log:") ||
        !StringRef(message).contains(": error: "))
      die("expected file and line, got '" + message + "'");
    return 0;
  }
  auto imported = fcdp::tabulate(*tests);
  if (!imported) {
    consumeError(imported.takeError());
    return 0;
  }
  checkTables(std::move(*imported));
  return 0;
}
