// SPDX-License-Identifier: Apache-2.0
//
// Reads raw files of tokens, split into consecutive windows.
#include "files/MappedFile.h"
#include "inputs/InputSource.h"
#include "policy/IntegerAccess.h"

#include <stdexcept>

namespace fcdp::run {

namespace {

class TokenInput final : public InputSource {
public:
  TokenInput(const std::string &path, IntegerForm form, int64_t shift,
             const plan::InputT &input)
      : path(path), file(path), form(form), shift(shift), input(input),
        window(numElements(input.shape)) {
    if (!isInteger(toDType(input.dtype)))
      fail(std::string("tokens are for integer inputs, this one is ") +
           name(toDType(input.dtype)));
    size_t bytes = file.bytes().size();
    if (bytes % form.bytes != 0)
      fail("expected a multiple of " + std::to_string(form.bytes) +
           " bytes, got " + std::to_string(bytes));
    tokens = bytes / form.bytes;
    if (window == 0 || tokens < window || tokens - window < shift)
      fail("expected at least " +
           std::to_string(uint64_t(shift) + uint64_t(window)) +
           " tokens for one batch of shape " + toString(input.shape) +
           (shift ? " shifted by " + std::to_string(shift) : "") + ", got " +
           std::to_string(tokens));
  }

  std::optional<int64_t> rows() const override {
    return (tokens - shift) / window;
  }
  bool isWindowed() const override { return true; }
  const Shape &rowShape() const override { return input.shape; }

  void read(int64_t row, std::span<std::byte> out) const override {
    int64_t first = row * window + shift;
    for (int64_t i = 0; i < window; ++i) {
      check(first + i);
      storeInteger(out.data(), i, toDType(input.dtype), at(first + i));
    }
    file.requireWhole();
  }

  void checkValues() const override {
    if (file.bytes().size() > kMostCheckedBytes)
      return;
    int64_t end = shift + *rows() * window;
    for (int64_t i = shift; i < end; ++i)
      check(i);
    file.requireWhole();
  }

private:
  void check(int64_t position) const {
    int64_t value = at(position);
    checkValue(value, position, path, input);
    if (!fits(value, toDType(input.dtype)))
      fail("value " + std::to_string(value) + " at position " +
           std::to_string(position) + " does not fit in " +
           name(toDType(input.dtype)));
  }
  int64_t at(int64_t position) const {
    return loadInteger(file.bytes().data(), position, form);
  }
  [[noreturn]] void fail(const std::string &message) const {
    throw std::runtime_error(describe(path, input) + message);
  }

  std::string path;
  MappedFile file;
  IntegerForm form;
  int64_t shift;
  const plan::InputT &input;
  int64_t window, tokens = 0;
};

} // namespace

std::unique_ptr<InputSource> openTokens(const std::string &path, DType stored,
                                        bool isUnsigned16, int64_t shift,
                                        const plan::InputT &input) {
  IntegerForm form{byteSize(stored), !isUnsigned16};
  return std::make_unique<TokenInput>(path, form, shift, input);
}

} // namespace fcdp::run
