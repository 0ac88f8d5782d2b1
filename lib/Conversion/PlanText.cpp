// SPDX-License-Identifier: Apache-2.0
//
// Converts a plan to bytes and to text.

#include "fcdp/Conversion/Plan.h"

#include "flatbuffers/idl.h"
#include "flatbuffers/minireflect.h"
#include "plan/Plan_bfbs_generated.h"
#include "runtime/plan/Reflection.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

#include <charconv>
#include <cmath>

using namespace fcdp;

std::string fcdp::hashBytes(llvm::StringRef bytes) {
  return llvm::toHex(llvm::SHA1::hash(llvm::arrayRefFromStringRef(bytes)),
                     /*LowerCase=*/true);
}

static std::string pack(const plan::PlanT &plan, bool withDefaults) {
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(withDefaults);
  plan::FinishPlanBuffer(builder, plan::CreatePlan(builder, &plan));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

std::string fcdp::packPlan(const plan::PlanT &plan) {
  return pack(plan, /*withDefaults=*/false);
}

namespace {
/// Finds vectors that are not aligned.
class AlignmentCheck : public flatbuffers::IterationVisitor {
public:
  bool isAligned = true;

  void Element(size_t index, flatbuffers::ElementaryType type,
               const flatbuffers::TypeTable *table,
               const uint8_t *value) override {
    if (index == 0)
      isAligned &=
          reinterpret_cast<uintptr_t>(value) % plan::alignmentOf(type, table) ==
          0;
  }
};
} // namespace

template <typename Union>
static bool isKnown(Union type) {
  return type != Union::NONE && type <= Union::MAX;
}

/// Returns whether the bytes are a plan. FlatBuffers' verifier accepts unions
/// of unknown types, and vectors that are not aligned.
static bool isPlan(const std::string &bytes) {
  auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  constexpr int depth = 16;
  // A table has at least four bytes.
  flatbuffers::Verifier verifier(data, bytes.size(), depth, bytes.size() / 4);
  if (!plan::VerifyPlanBuffer(verifier))
    return false;
  const plan::Plan &plan = *plan::GetPlan(data);
  if (!isKnown(plan.optimizer_type()) ||
      !llvm::all_of(*plan.ops(), [](const plan::Op *op) {
        const plan::ShardUpdate *update = op->body_as_shard_update();
        if (const plan::HostUpdate *onHost = op->body_as_host_update())
          update = onHost->update();
        return isKnown(op->body_type()) &&
               (!update || update->optimizer_type() <= plan::Optimizer::MAX);
      }))
    return false;
  AlignmentCheck check;
  flatbuffers::IterateFlatBuffer(data, plan::PlanTypeTable(), &check);
  return check.isAligned;
}

llvm::Expected<std::unique_ptr<plan::PlanT>>
fcdp::unpackPlan(llvm::StringRef bytes, llvm::StringRef origin) {
  // Sections of files and attributes need not be aligned.
  std::string aligned = bytes.str();
  if (!isPlan(aligned))
    return llvm::createStringError(
        "'" + origin +
        "': the plan is damaged, or of another version of this compiler");
  return plan::UnPackPlan(aligned.data());
}

namespace {
/// Writes the text of FlatBuffers, with two changes: numbers keep all digits,
/// and each entry of a vector of tables has a line.
class JsonWriter : public flatbuffers::ToStringVisitor {
public:
  JsonWriter()
      : ToStringVisitor(/*delimiter=*/"", /*quotes=*/true, /*indent=*/"",
                        /*vdelimited=*/false) {}

  void Double(double number) override {
    if (!std::isfinite(number)) {
      s += std::isnan(number) ? "\"nan\"" : number > 0 ? "\"inf\"" : "\"-inf\"";
      return;
    }
    char digits[32];
    s.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
  }
  void UChar(uint8_t value, const char *name) override {
    ToStringVisitor::UChar(value,
                           name ? plan::fieldName(name).c_str() : nullptr);
  }
  void StartSequence() override {
    ++nesting;
    ToStringVisitor::StartSequence();
  }
  void EndSequence() override {
    --nesting;
    ToStringVisitor::EndSequence();
  }
  void Field(size_t index, size_t set, flatbuffers::ElementaryType type,
             bool isVector, const flatbuffers::TypeTable *table,
             const char *name, const uint8_t *value) override {
    size_t before = s.size();
    ToStringVisitor::Field(index, set, type, isVector, table,
                           plan::fieldName(name).c_str(), value);
    if (value && nesting == 1)
      s.insert(before + (set ? 1 : 0), "\n");
  }
  void Element(size_t index, flatbuffers::ElementaryType type,
               const flatbuffers::TypeTable *table,
               const uint8_t *value) override {
    ToStringVisitor::Element(index, type, table, value);
    if (nesting == 1)
      s += "\n  ";
  }

private:
  size_t nesting = 0;
};
} // namespace

std::string fcdp::printPlan(const plan::PlanT &plan) {
  std::string bytes = pack(plan, /*withDefaults=*/true);
  JsonWriter writer;
  flatbuffers::IterateFlatBuffer(
      reinterpret_cast<const uint8_t *>(bytes.data()), plan::PlanTypeTable(),
      &writer);
  return writer.s + "\n";
}

llvm::Expected<std::unique_ptr<plan::PlanT>>
fcdp::parsePlan(llvm::StringRef json, llvm::StringRef origin) {
  flatbuffers::IDLOptions options;
  options.strict_json = true;
  // Paths of source files may have any bytes. They are printed as \xNN.
  options.allow_non_utf8 = true;
  flatbuffers::Parser parser(options);
  if (!parser.Deserialize(plan::PlanBinarySchema::data(),
                          plan::PlanBinarySchema::size()))
    llvm_unreachable("flatc made the schema");
  if (!parser.ParseJson(json.str().c_str()))
    return llvm::createStringError("'" + origin + "': " + parser.error_);
  return unpackPlan(
      {reinterpret_cast<const char *>(parser.builder_.GetBufferPointer()),
       parser.builder_.GetSize()},
      origin);
}
