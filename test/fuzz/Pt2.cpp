// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the reader of .pt2 archives:
//   build-asan/bin/fcdp-fuzz-pt2 -dict=test/fuzz/pt2.dict NEW
//   test/fuzz/corpus/pt2
//
// Inputs are archives. The mutator changes the content of an entry and zips it
// anew, and sometimes the archive's own bytes. Checked, besides the sanitizers:
// an import that fails says why, and one that succeeds gives a module whose
// text parses.

#include "fcdp/Import/Pt2.h"
#include "ZipBytes.h"
#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Import/Pt2Tensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <random>

using namespace llvm;
using namespace fcdp::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// LLVM's allocators poison memory in our code but not in libMLIR.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0:allocator_may_return_null=1";
}

[[noreturn]] static void die(const Twine &what) {
  errs() << what << '\n';
  abort();
}

/// A context grows with every new attribute, and takes a while to make.
static mlir::MLIRContext &getContext() {
  constexpr unsigned kRuns = 256;
  static std::unique_ptr<mlir::MLIRContext> context;
  static unsigned runs = 0;
  if (runs++ % kRuns == 0) {
    mlir::DialectRegistry registry;
    registry.insert<fcdp::FcdpDialect, fcdp::aten::AtenDialect,
                    mlir::func::FuncDialect>();
    context = std::make_unique<mlir::MLIRContext>(
        registry, mlir::MLIRContext::Threading::DISABLED);
  }
  return *context;
}

static void checkText(mlir::ModuleOp module) {
  std::string text;
  raw_string_ostream stream(text);
  module.print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  if (!mlir::parseSourceString<mlir::ModuleOp>(text, module.getContext()))
    die("the module does not parse:\n" + text);
}

static void readTensors(MemoryBufferRef bytes, mlir::ModuleOp module) {
  Expected<fcdp::Pt2Tensors> tensors = fcdp::Pt2Tensors::open(bytes);
  if (!tensors) {
    consumeError(tensors.takeError());
    return;
  }
  auto read = [&](StringRef name) {
    Expected<std::vector<char>> value = tensors->readTensor(name);
    if (!value)
      consumeError(value.takeError());
  };
  for (auto buffer : module.getOps<fcdp::BufferOp>())
    read(buffer.getName());
  for (auto parameter : module.getOps<fcdp::ParameterOp>())
    for (auto name : parameter.getNames().getAsRange<mlir::StringAttr>())
      read(name);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MemoryBufferRef bytes(StringRef(reinterpret_cast<const char *>(data), size),
                        "fuzz.pt2");
  mlir::MLIRContext &context = getContext();
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          errors += diagnostic.str();
                                          return mlir::success();
                                        });
  mlir::OwningOpRef<mlir::ModuleOp> module = fcdp::importPt2(bytes, &context);
  if (!module) {
    if (errors.empty())
      die("the import failed without an error");
    return 0;
  }
  if (!errors.empty())
    die("the import succeeded with the error " + errors);
  checkText(*module);
  readTensors(bytes, *module);
  return 0;
}

/// Changes `text` as libFuzzer would, within `limit` bytes.
static void mutateBytes(std::string &text, size_t limit) {
  size_t size = text.size();
  text.resize(std::max(limit, size));
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(text.data()), size,
                               text.size()));
}

namespace {
/// Changes of JSON text that mostly leave it valid.
class TextMutator {
public:
  TextMutator(std::string &text, std::minstd_rand &random)
      : text(text), random(random) {}

  void mutate() {
    switch (random() % 4) {
    case 0:
      return replaceNumber();
    case 1:
      return renameValue();
    case 2:
      return moveValue(/*erase=*/false);
    default:
      return moveValue(/*erase=*/true);
    }
  }

private:
  size_t pick(StringRef characters) {
    if (text.empty())
      return std::string::npos;
    size_t at = text.find_first_of(characters.str(), random() % text.size());
    return at == std::string::npos ? text.find_first_of(characters.str()) : at;
  }

  void replaceNumber() {
    static const char *const numbers[] = {"0",          "10",
                                          "12",         "13",
                                          "29",         "-1",
                                          "1",          "7",
                                          "64",         "1e9",
                                          "-100",       "0.5",
                                          "4294967296", "9223372036854775807",
                                          "null",       "true",
                                          "\"NaN\"",    "[]",
                                          "{}"};
    size_t at = pick("0123456789");
    if (at == std::string::npos)
      return;
    size_t end = at;
    while (end < text.size() && isDigit(text[end]))
      ++end;
    text.replace(at, end - at, numbers[random() % std::size(numbers)]);
  }

  /// The place of a string with its quotes; size 0 if there is none.
  std::pair<size_t, size_t> pickString() {
    size_t at = pick("\"");
    if (at == std::string::npos)
      return {0, 0};
    size_t end = text.find('"', at + 1);
    return {at, end == std::string::npos ? 0 : end + 1 - at};
  }

  /// Puts one string in the place of another: kinds, keys and names move.
  void renameValue() {
    auto [from, fromSize] = pickString();
    std::string value = text.substr(from, fromSize);
    auto [to, toSize] = pickString();
    if (fromSize && toSize)
      text.replace(to, toSize, value);
  }

  /// Copies or erases an element from one ',' to the next.
  void moveValue(bool erase) {
    size_t at = pick(",");
    if (at == std::string::npos)
      return;
    size_t end = at + 1;
    int depth = 0;
    for (; end < text.size(); ++end) {
      char c = text[end];
      if (depth == 0 && (c == ',' || c == ']' || c == '}'))
        break;
      depth += c == '{' || c == '[';
      depth -= c == '}' || c == ']';
    }
    std::string element = text.substr(at, end - at);
    if (erase) {
      text.erase(at, end - at);
      return;
    }
    size_t to = pick(",");
    text.insert(to, element);
  }

  std::string &text;
  std::minstd_rand &random;
};
} // namespace

/// The model, mostly; sometimes another entry.
static ZipEntry &pickEntry(std::vector<ZipEntry> &entries,
                           std::minstd_rand &random) {
  if (random() % 4 != 0)
    for (ZipEntry &entry : entries)
      if (StringRef(entry.name).contains("models/"))
        return entry;
  return entries[random() % entries.size()];
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<ZipEntry> entries;
  if (random() % 16 != 0)
    entries = unpack(StringRef(reinterpret_cast<const char *>(data), size));
  if (entries.empty())
    return LLVMFuzzerMutate(data, size, maxSize);
  ZipEntry &entry = pickEntry(entries, random);
  if (random() % 2 == 0)
    for (unsigned i = 0, e = 1 + random() % 3; i < e; ++i)
      TextMutator(entry.content, random).mutate();
  else
    mutateBytes(entry.content,
                std::min(entry.content.size() * 2 + 64, maxSize));
  std::string packed = pack(entries);
  if (packed.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::copy(packed.begin(), packed.end(), data);
  return packed.size();
}
