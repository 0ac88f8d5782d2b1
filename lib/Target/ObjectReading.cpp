// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Target/ObjectReading.h"

#include "ObjectSeal.h"
#include "runtime/include/fcdp/runtime.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"

using namespace fcdp;
using llvm::StringRef;

/// Returns the bytes of a data symbol.
static llvm::Expected<StringRef>
readSymbol(const llvm::object::ELFObjectFileBase &object, StringRef name) {
  auto find = [&](auto symbols) -> llvm::Expected<StringRef> {
    for (const llvm::object::ELFSymbolRef &symbol : symbols) {
      llvm::Expected<StringRef> found = symbol.getName();
      if (!found)
        return found.takeError();
      if (*found != name)
        continue;
      auto section = symbol.getSection();
      if (!section)
        return section.takeError();
      if (*section == object.section_end())
        break;
      auto address = symbol.getAddress();
      auto contents = (*section)->getContents();
      if (!address || !contents)
        return joinErrors(address.takeError(), contents.takeError());
      uint64_t offset = *address - (*section)->getAddress();
      if (offset > contents->size() ||
          symbol.getSize() > contents->size() - offset)
        return llvm::createStringError("the symbol '" + name +
                                       "' ends after its section");
      return contents->substr(offset, symbol.getSize());
    }
    return llvm::createStringError("not a compiled step: the symbol '" + name +
                                   "' is missing");
  };
  if (object.isRelocatableObject())
    return find(object.symbols());
  return find(object.getDynamicSymbolIterators());
}

llvm::Expected<ObjectData> fcdp::readObject(llvm::MemoryBufferRef file) {
  auto fail = [&](llvm::Error error) {
    return llvm::createStringError("'" + file.getBufferIdentifier() +
                                   "': " + toString(std::move(error)));
  };
  if (llvm::Error error = checkSeal(file.getBuffer()))
    return fail(std::move(error));
  auto object = llvm::object::ObjectFile::createELFObjectFile(file);
  if (!object)
    return fail(object.takeError());
  auto &elf = llvm::cast<llvm::object::ELFObjectFileBase>(**object);
  llvm::Expected<StringRef> version = readSymbol(elf, "fcdp_abi_version");
  if (!version)
    return fail(version.takeError());
  uint32_t abi = version->size() == sizeof(uint32_t)
                     ? llvm::support::endian::read32le(version->data())
                     : 0;
  if (abi != FCDP_ABI_VERSION)
    return fail(llvm::createStringError("expected ABI version " +
                                        llvm::Twine(FCDP_ABI_VERSION) +
                                        ", got " + llvm::Twine(abi)));
  llvm::Expected<StringRef> plan = readSymbol(elf, "fcdp_plan");
  llvm::Expected<StringRef> constants = readSymbol(elf, "fcdp_constants");
  if (!plan || !constants)
    return fail(joinErrors(plan.takeError(), constants.takeError()));
  return ObjectData{plan->str(), constants->str()};
}
