// SPDX-License-Identifier: Apache-2.0
#include "inputs/InputSource.h"

#include "policy/InputCheck.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace fcdp::run {

bool isInteger(DType type) {
  return type == DType::I8 || type == DType::I16 || type == DType::I32 ||
         type == DType::I64 || type == DType::U8;
}

std::string describe(const std::string &file, const plan::InputT &input) {
  return file + ": input '" + input.name + "': ";
}

void checkValue(int64_t value, int64_t position, const std::string &file,
                const plan::InputT &input) {
  std::string problem = describeBadValue(value, position, input);
  if (!problem.empty())
    throw std::runtime_error(describe(file, input) + problem);
}

namespace {

constexpr std::string_view kRandom = "random:";

int64_t parseNumber(const std::string &text, const std::string &spec) {
  try {
    return std::stoll(text);
  } catch (const std::out_of_range &) {
    throw std::runtime_error("--input: the number " + text + " in '" + spec +
                             "' is too large");
  }
}

bool isNumber(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::unique_ptr<InputSource> openRandom(const std::string &spec,
                                        const plan::InputT &input) {
  std::string seed = spec.substr(kRandom.size());
  std::optional<std::string> limit;
  if (size_t colon = seed.find(':'); colon != seed.npos) {
    limit = seed.substr(colon + 1);
    seed.resize(colon);
  }
  if (!isNumber(seed) || (limit && !isNumber(*limit)))
    throw std::runtime_error("--input " + input.name +
                             ": expected random:SEED or random:SEED:LIMIT, "
                             "got '" +
                             spec + "'");
  return makeRandom(
      parseNumber(seed, spec),
      limit ? std::optional(parseNumber(*limit, spec)) : std::nullopt, input);
}

/// The parts of `FILE:TYPE` or `FILE:TYPE+SHIFT`.
struct TokenSpec {
  std::string file, type, shift;
};

std::optional<TokenSpec> parseTokens(const std::string &spec) {
  size_t colon = spec.rfind(':');
  if (colon == 0 || colon == spec.npos)
    return std::nullopt;
  size_t plus = std::min(spec.find('+', colon), spec.size());
  TokenSpec tokens{spec.substr(0, colon),
                   spec.substr(colon + 1, plus - colon - 1),
                   plus < spec.size() ? spec.substr(plus + 1) : "0"};
  bool isType =
      tokens.type == "u16" || tokens.type == "i32" || tokens.type == "i64";
  return isType && isNumber(tokens.shift) ? std::optional(tokens)
                                          : std::nullopt;
}

/// Returns whether `text` is a whole element of a list of files.
bool endsAsFile(const std::string &text) {
  return text.ends_with(".npy") || parseTokens(text);
}

} // namespace

InputFile fileOf(const std::string &spec) {
  auto tokens = parseTokens(spec);
  if (!tokens)
    return {spec, ""};
  return {tokens->file, tokens->type + "+" + tokens->shift};
}

bool isRandom(const std::string &spec) { return spec.starts_with(kRandom); }

std::vector<std::string> splitFiles(const std::string &spec) {
  std::vector<std::string> files;
  std::string file;
  for (char c : spec) {
    if (c == ',' && endsAsFile(file))
      files.push_back(std::exchange(file, ""));
    else
      file += c;
  }
  files.push_back(file);
  return files;
}

std::string pathOf(const std::string &file) {
  auto tokens = parseTokens(file);
  return tokens ? tokens->file : file;
}

std::unique_ptr<InputSource> openInput(const std::string &spec,
                                       const plan::InputT &input,
                                       const PadElement *pad) {
  if (isRandom(spec))
    return openRandom(spec, input);
  auto tokens = parseTokens(spec);
  if (!tokens)
    return openNpy(spec, input, pad);
  DType stored = tokens->type == "i64"   ? DType::I64
                 : tokens->type == "i32" ? DType::I32
                                         : DType::I16;
  return openTokens(tokens->file, stored, tokens->type == "u16",
                    parseNumber(tokens->shift, spec), input);
}

} // namespace fcdp::run
