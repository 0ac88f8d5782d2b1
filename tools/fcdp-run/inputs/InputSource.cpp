// SPDX-License-Identifier: Apache-2.0
#include "inputs/InputSource.h"

#include "session/InputCheck.h"

#include <regex>
#include <stdexcept>
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

int64_t parseNumber(const std::string &text, const std::string &spec) {
  try {
    return std::stoll(text);
  } catch (const std::out_of_range &) {
    throw std::runtime_error("--input: the number " + text + " in '" + spec +
                             "' is too large");
  }
}

std::unique_ptr<InputSource> openRandom(const std::string &spec,
                                        const plan::InputT &input) {
  static const std::regex form("random:([0-9]+)(?::([0-9]+))?");
  std::smatch parts;
  if (!std::regex_match(spec, parts, form))
    throw std::runtime_error("--input " + input.name +
                             ": expected random:SEED or random:SEED:LIMIT, "
                             "got '" +
                             spec + "'");
  std::optional<int64_t> limit;
  if (parts[2].matched)
    limit = parseNumber(parts[2], spec);
  return makeRandom(parseNumber(parts[1], spec), limit, input);
}

/// Whether `text` is a whole element of a list of files.
bool endsAsFile(const std::string &text) {
  static const std::regex type(":(u16|i32|i64)(\\+[0-9]+)?$");
  return text.ends_with(".npy") || std::regex_search(text, type);
}

} // namespace

bool isRandom(const std::string &spec) { return spec.starts_with("random:"); }

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

std::unique_ptr<InputSource> openInput(const std::string &spec,
                                       const plan::InputT &input) {
  if (isRandom(spec))
    return openRandom(spec, input);
  static const std::regex tokens("(.+):(u16|i32|i64)(?:\\+([0-9]+))?");
  std::smatch parts;
  if (!std::regex_match(spec, parts, tokens))
    return openNpy(spec, input);
  DType stored = parts[2] == "i64"   ? DType::I64
                 : parts[2] == "i32" ? DType::I32
                                     : DType::I16;
  int64_t shift = parts[3].matched ? parseNumber(parts[3], spec) : 0;
  return openTokens(parts[1], stored, parts[2] == "u16", shift, input);
}

} // namespace fcdp::run
