// SPDX-License-Identifier: Apache-2.0

#include "ObjectSeal.h"

#include "runtime/include/fcdp/runtime.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

using namespace fcdp;
using llvm::StringRef;

static constexpr llvm::StringLiteral kSeal = FCDP_OBJECT_SEAL;

std::string fcdp::makeSeal(StringRef object) {
  auto hash = llvm::SHA1::hash(llvm::arrayRefFromStringRef(object));
  return kSeal.str() + llvm::toHex(hash, /*LowerCase=*/true);
}

llvm::Error fcdp::checkSeal(StringRef file) {
  size_t bytes = makeSeal("").size();
  StringRef seal = file.take_back(bytes);
  if (!seal.starts_with(kSeal) || seal == makeSeal(file.drop_back(bytes)))
    return llvm::Error::success();
  return llvm::createStringError(
      "its checksum is wrong: the object is damaged or was edited; compile it "
      "again");
}
