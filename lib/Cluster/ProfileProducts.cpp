// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/ProfileProducts.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"

#include <optional>

using namespace fcdp;

namespace {
struct Matrix {
  RateType type;
  llvm::SmallVector<int64_t, 3> shape;
};
} // namespace

/// Removes a type such as `f32[4,2]` from the front of `text`, with a comma and
/// blanks before it. Returns nullopt if there is none, or if the device has no
/// rate for it.
static std::optional<Matrix> takeMatrix(llvm::StringRef &text) {
  text = text.ltrim(", ");
  auto [name, rest] = text.split('[');
  auto type = llvm::StringSwitch<std::optional<RateType>>(name)
                  .Case("f64", RateType::f64)
                  .Case("f32", RateType::f32)
                  .Case("bf16", RateType::bf16)
                  .Case("f16", RateType::f16)
                  .Default(std::nullopt);
  if (!type)
    return std::nullopt;
  auto [sizes, behind] = rest.split(']');
  Matrix matrix{*type, {}};
  llvm::SmallVector<llvm::StringRef> parts;
  sizes.split(parts, ',');
  for (llvm::StringRef part : parts) {
    int64_t size = 0;
    if (part.getAsInteger(10, size) || size <= 0)
      return std::nullopt;
    matrix.shape.push_back(size);
  }
  text = behind;
  return matrix;
}

/// Returns the product that an operator's key names, without its rate.
static std::optional<MeasuredProduct> readProduct(llvm::StringRef key) {
  bool isBatched = key.consume_front("aten.bmm.default(");
  if (!isBatched && !key.consume_front("aten.mm.default("))
    return std::nullopt;
  std::optional<Matrix> left = takeMatrix(key), right = takeMatrix(key);
  const size_t rank = isBatched ? 3 : 2;
  if (!left || !right || left->type != right->type ||
      left->shape.size() != rank || right->shape.size() != rank)
    return std::nullopt;
  double batch = isBatched ? static_cast<double>(left->shape[0]) : 1;
  return MeasuredProduct{left->type,
                         {batch, static_cast<double>(left->shape[rank - 2]),
                          static_cast<double>(right->shape[rank - 1]),
                          static_cast<double>(left->shape[rank - 1])},
                         0};
}

std::vector<MeasuredProduct> fcdp::collectProducts(const Profile &profile) {
  std::vector<MeasuredProduct> products;
  for (const auto &entry : profile.operators) {
    std::optional<MeasuredProduct> product = readProduct(entry.getKey());
    if (!product || entry.getValue() <= 0)
      continue;
    product->flops = product->shape.getFlops() / entry.getValue();
    products.push_back(*product);
  }
  return products;
}
