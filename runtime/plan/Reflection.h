// SPDX-License-Identifier: Apache-2.0
//
// Completes FlatBuffers' reflection. Depends only on FlatBuffers, because the
// compiler uses it, too.
#pragma once

#include <algorithm>
#include <cctype>
#include <flatbuffers/minireflect.h>
#include <string>
#include <string_view>

namespace fcdp::plan {

/// Returns the name of a field or enumerator as the schema spells it,
/// "constant_offset" and "mutable". Reflection spells it as C++ does,
/// "constantOffset" and "mutable_".
inline std::string fieldName(std::string_view reflected) {
  std::string name;
  for (char c : reflected) {
    if (std::isupper(static_cast<unsigned char>(c)))
      name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (!name.empty() && name.back() == '_')
    name.pop_back();
  return name;
}

/// Returns the alignment of a value, for example of the elements of a vector,
/// which FlatBuffers' verifier does not check.
inline size_t alignmentOf(flatbuffers::ElementaryType type,
                          const flatbuffers::TypeTable *table) {
  if (type != flatbuffers::ET_SEQUENCE || table->st != flatbuffers::ST_STRUCT)
    return flatbuffers::InlineSize(type, table);
  size_t alignment = 1;
  for (size_t i = 0; i < table->num_elems; ++i) {
    flatbuffers::TypeCode code = table->type_codes[i];
    alignment = std::max(
        alignment,
        alignmentOf(static_cast<flatbuffers::ElementaryType>(code.base_type),
                    code.sequence_ref < 0
                        ? nullptr
                        : table->type_refs[code.sequence_ref]()));
  }
  return alignment;
}

} // namespace fcdp::plan
