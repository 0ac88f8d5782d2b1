// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the reader of clusters' descriptions:
//   build-asan/bin/fcdp-fuzz-cluster -dict=test/fuzz/cluster.dict NEW cluster
//
// Checked, besides the sanitizers: what is refused is refused with file and
// line, and what is read holds what the cost model relies on.

#include "fcdp/Cluster/Cluster.h"

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Read beyond the end would be found: the copy has no byte after it.
  std::vector<char> bytes(data, data + size);
  auto cluster =
      fcdp::parseCluster({StringRef(bytes.data(), bytes.size()), "fuzz.yaml"});
  if (!cluster) {
    std::string message = toString(cluster.takeError());
    if (!StringRef(message).starts_with("fuzz.yaml:") ||
        !StringRef(message).contains(": error: "))
      die("expected file and line, got '" + message + "'");
    return 0;
  }
  if (Error error = cluster->check())
    die(toString(std::move(error)));
  return 0;
}
