# Writes OUT/plan/PlanUnions.h: for each union of the schema SCHEMA a function
# `visit`, which calls a visitor with the table that the union holds. Included
# by FcdpPlanHeader.cmake.
file(READ ${SCHEMA} schema)
string(REGEX REPLACE "//[^\n]*" "" schema "${schema}")
# These have a meaning in lists of CMake's.
string(REGEX REPLACE "[][;]" " " schema "${schema}")
set(name "[A-Za-z_][A-Za-z0-9_]*")

string(CONCAT header
  "// Made of the plan's schema by cmake/FcdpPlanUnions.cmake.\n"
  "#pragma once\n\n"
  "#include \"plan/Plan_generated.h\"\n\n"
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
string(APPEND header "\n} // namespace fcdp::plan\n")
file(WRITE ${OUT}/plan/PlanUnions.h "${header}")
