# Writes OUT/plan/PlanUnions.h: for each union of the schema SCHEMA a function
# `visit`, which calls a visitor with the table that the union holds, and for
# each optimizer what the attributes of its table say. Included by
# FcdpPlanHeader.cmake.
file(READ ${SCHEMA} schema)
string(REGEX REPLACE "//[^\n]*" "" schema "${schema}")
# These have a meaning in lists of CMake's.
string(REGEX REPLACE "[][;]" " " schema "${schema}")
set(name "[A-Za-z_][A-Za-z0-9_]*")

string(CONCAT header
  "// Made of the plan's schema by cmake/FcdpPlanUnions.cmake.\n"
  "#pragma once\n\n"
  "#include \"plan/Plan_generated.h\"\n\n"
  "#include <array>\n"
  "#include <span>\n"
  "#include <stdexcept>\n"
  "#include <type_traits>\n\n"
  "namespace fcdp::plan {\n\n"
  "/// The kind of a table, for visitors that distinguish kinds of one table.\n"
  "template <auto kind>\n"
  "using Kind = std::integral_constant<decltype(kind), kind>;\n\n"
  "template <auto kind, typename Table, typename Visitor>\n"
  "decltype(auto) visitTable(const Table &table, Visitor &visitor) {\n"
  "  if constexpr (std::is_invocable_v<Visitor &, const Table &, Kind<kind>>)\n"
  "    return visitor(table, Kind<kind>());\n"
  "  else\n"
  "    return visitor(table);\n"
  "}\n")

string(REGEX MATCHALL "union[ \t\n]+${name}[ \t\n]*{[^}]*}" unions "${schema}")
if(NOT unions)
  message(FATAL_ERROR "expected unions in ${SCHEMA}, found none")
endif()
foreach(union IN LISTS unions)
  string(REGEX MATCH "union[ \t\n]+(${name})[ \t\n]*{([^}]*)}" union "${union}")
  set(type ${CMAKE_MATCH_1})
  set(body "${CMAKE_MATCH_2}")
  string(REGEX MATCHALL "${name}[ \t\n]*:[ \t\n]*${name}" members "${body}")
  string(REGEX REPLACE "${name}[ \t\n]*:[ \t\n]*${name}|[ \t\n,]" "" rest "${body}")
  if(rest OR NOT members)
    message(FATAL_ERROR "expected members 'kind: Table' in union ${type} of ${SCHEMA}, got '${body}'")
  endif()
  string(APPEND header
    "\n/// Calls `visitor` with the table that the union holds, and with its Kind if it\n"
    "/// takes both. Throws std::logic_error for a union without a table, which a\n"
    "/// checked plan does not have.\n"
    "template <typename Visitor>\n"
    "decltype(auto) visit(const ${type}Union &entry, Visitor &&visitor) {\n"
    "  switch (entry.type) {\n")
  foreach(member IN LISTS members)
    string(REGEX MATCH "^${name}" kind "${member}")
    string(APPEND header
      "  case ${type}::${kind}:\n"
      "    return visitTable<${type}::${kind}>(*entry.As${kind}(), visitor);\n")
  endforeach()
  string(APPEND header
    "  case ${type}::NONE:\n"
    "    break;\n"
    "  }\n"
    "  throw std::logic_error(\"expected a table of ${type}, got none\");\n"
    "}\n")
endforeach()

string(APPEND header
  "\n/// The elements that a shard may not split: see the layouts of the dialect.\n"
  "enum class MemberLayout { flat, owned, blocks, whole };\n\n"
  "/// What the schema says about an optimizer beside its settings.\n"
  "struct OptimizerFacts {\n"
  "  /// The roles of its states.\n"
  "  std::span<const StateRole> states;\n"
  "  MemberLayout layout;\n"
  "  /// Whether an update changes an element by about the learning rate.\n"
  "  bool isRateSized;\n"
  "};\n")
string(REGEX MATCH "union[ \t\n]+Optimizer[ \t\n]*{([^}]*)}" union "${schema}")
string(REGEX MATCHALL ":[ \t\n]*${name}" tables "${CMAKE_MATCH_1}")
set(all_states)
foreach(table IN LISTS tables)
  string(REGEX MATCH "${name}" table "${table}")
  if(NOT schema MATCHES "table[ \t\n]+${table}[ \t\n]*\\(([^)]*)\\)")
    message(FATAL_ERROR "expected the attribute 'states' of table ${table} in ${SCHEMA}, found no attributes")
  endif()
  set(attributes "${CMAKE_MATCH_1}")
  if(NOT attributes MATCHES "states:[ \t\n]*\"([^\"]*)\"")
    message(FATAL_ERROR "expected the attribute 'states' of table ${table} in ${SCHEMA}, got '${attributes}'")
  endif()
  string(REGEX MATCHALL "${name}" states "${CMAKE_MATCH_1}")
  list(APPEND all_states ${states})
  list(LENGTH states num_states)
  list(TRANSFORM states PREPEND "StateRole::")
  list(JOIN states ", " states)
  set(has_states "true")
  if(attributes MATCHES "states_if:[ \t\n]*\"(${name})\"")
    set(has_states "table.${CMAKE_MATCH_1} != 0")
  endif()
  set(layout flat)
  if(attributes MATCHES "layout:[ \t\n]*\"(${name})\"")
    set(layout ${CMAKE_MATCH_1})
  endif()
  set(is_rate_sized false)
  if(attributes MATCHES "rate_sized")
    set(is_rate_sized true)
  endif()
  string(APPEND header
    "\ninline OptimizerFacts factsOf([[maybe_unused]] const ${table}T &table) {\n"
    "  static constexpr std::array<StateRole, ${num_states}> states = {${states}};\n"
    "  return {std::span(states).first(${has_states} ? states.size() : 0),\n"
    "          MemberLayout::${layout}, ${is_rate_sized}};\n"
    "}\n")
endforeach()
list(REMOVE_DUPLICATES all_states)
list(TRANSFORM all_states REPLACE "(.+)" "  case StateRole::\\1:\n")
list(JOIN all_states "" all_states)
string(APPEND header
  "\n/// Returns whether a state belongs to an optimizer, so that a checkpoint\n"
  "/// contains it.\n"
  "inline bool isOptimizerState(StateRole role) {\n"
  "  switch (role) {\n"
  "${all_states}"
  "    return true;\n"
  "  default:\n"
  "    return false;\n"
  "  }\n"
  "}\n"
  "\n} // namespace fcdp::plan\n")
file(WRITE ${OUT}/plan/PlanUnions.h "${header}")
