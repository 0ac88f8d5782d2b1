// SPDX-License-Identifier: Apache-2.0
//
// Checks a plan's values before anything in it is read.
#include "plan/PlanCheck.h"
#include "plan/Reflection.h"

#include <stdexcept>

namespace fcdp {

namespace {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;

/// The greatest size. Sums of a few sizes up to this one cannot overflow.
constexpr uint64_t kGreatestSize = uint64_t(1) << 56;

/// Visits all values of a verified plan.
class ValueCheck final : public flatbuffers::IterationVisitor {
public:
  void StartSequence() override { path.emplace_back(); }
  void EndSequence() override { path.pop_back(); }
  void Field(size_t, size_t, ElementaryType type, bool, const TypeTable *table,
             const char *name, const uint8_t *value) override {
    path.back() = {name, -1};
    bool isUnion = table && table->st == flatbuffers::ST_UNION;
    // The type of a union comes before it.
    if (isUnion && type == flatbuffers::ET_SEQUENCE && value && !hadValue)
      fail("its type is missing");
    hadValue = value != nullptr;
    isEnum = table && table->st == flatbuffers::ST_ENUM;
  }
  void Element(size_t index, ElementaryType type, const TypeTable *table,
               const uint8_t *value) override {
    path.back().index = int64_t(index);
    if (index == 0 &&
        reinterpret_cast<uintptr_t>(value) % plan::alignmentOf(type, table) !=
            0)
      fail("it is not aligned");
  }
  void UType(uint8_t value, const char *name) override {
    if (!name || value == 0)
      unknown(value);
  }
  void UChar(uint8_t value, const char *name) override {
    if (isEnum && !name)
      unknown(value);
  }
  void ULong(uint64_t value) override {
    if (value > kGreatestSize)
      fail("expected at most ", kGreatestSize, ", got ", value);
  }

private:
  struct Step {
    const char *name = nullptr;
    int64_t index = -1;
  };

  [[noreturn]] void unknown(unsigned value) const {
    fail("the value ", value, " is unknown to this runtime");
  }
  template <typename... Parts>
  [[noreturn]] void fail(const Parts &...message) const {
    std::string where;
    for (const Step &step : path) {
      where += (where.empty() ? "" : ".") + plan::fieldName(step.name);
      if (step.index >= 0)
        where += "[" + std::to_string(step.index) + "]";
    }
    failCheck(where, message...);
  }

  std::vector<Step> path;
  bool hadValue = false, isEnum = false;
};

} // namespace

const plan::Plan &verifyPlan(std::span<const std::byte> bytes) {
  auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  constexpr int mostDepth = 16;
  // A table has at least four bytes.
  flatbuffers::Verifier verifier(data, bytes.size(), mostDepth,
                                 bytes.size() / 4);
  if (!plan::VerifyPlanBuffer(verifier))
    throw std::runtime_error("plan: FlatBuffers' verifier refuses it: the "
                             "object is damaged; compile it again");
  ValueCheck check;
  flatbuffers::IterateFlatBuffer(data, plan::PlanTypeTable(), &check);
  return *plan::GetPlan(data);
}

} // namespace fcdp
