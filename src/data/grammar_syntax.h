// A grammar's source as a syntax tree: rules, productions and what they write, with every name resolved.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace inkling::grammar {

struct Place {
  std::size_t line = 0, column = 0;  // from 1
};

// The longest text a grammar may make, in bytes: a guard against productions that double each other.
inline constexpr std::size_t longest_text = std::size_t{1} << 16;

inline constexpr std::size_t none = static_cast<std::size_t>(-1);

// One step of writing a text.
struct Part {
  enum class Kind {
    text,     // writes `text`
    choose,   // chooses a production of `rule`, remembers it as `variable` unless that is none, writes its `column`
    mention,  // writes `column` of the production that `variable` remembers
  };
  Kind kind = Kind::text;
  std::string text;
  std::size_t rule = none, variable = none;
  std::size_t column = 0;  // index into Syntax::columns
  bool capital = false;    // what is written begins with a capital letter
  Place place;
};

using Template = std::vector<Part>;

struct Production {
  double weight = 1;
  double probability = 1;        // weight over the sum of the rule's weights
  std::vector<Template> fields;  // one for each of the rule's columns
  Place place;
};

struct Rule {
  std::string name;
  std::vector<std::size_t> columns;  // ids of its columns; the first is 0, the column without a name
  std::vector<Production> productions;
  Place place;
  bool plain = true;  // all fields are mere text
};

// What a variable remembers.
struct Choice {
  std::size_t rule = none, production = none;
  bool operator==(const Choice&) const = default;
  auto operator<=>(const Choice&) const = default;
};

struct Syntax {
  std::string file;  // for messages
  std::vector<Rule> rules;
  std::vector<std::string> variables;                 // names
  std::vector<std::vector<std::size_t>> bound_rules;  // by variable: the rules it may remember a production of
  std::vector<std::string> columns;                   // names of all rules' columns; 0 is the column without a name
  std::size_t start = none;                           // the rule `story`

  // What a production writes in a column (which the rule must have).
  const Template& field(Choice choice, std::size_t column) const;
  bool has_column(std::size_t rule, std::size_t column) const;
  Error error(Place place, std::string_view message) const;  // Error input: "file:line:column: message"
};

// Reads and resolves a grammar: every name is known, every rule is used, nothing recurses. Throws Error input with
// file:line:column otherwise.
Syntax read_syntax(std::string_view source, std::string_view file);

// What the two halves of read_syntax() hand over: the names in braces are still texts in it.
struct Reference {
  std::string variable, name, column;  // {variable=name.column}; variable and column may be empty
};
struct UnresolvedSyntax {
  Syntax syntax;
  std::vector<Reference> references;  // a choose part's `rule` is an index into these until it is resolved
};

// The second half of read_syntax(), with its errors.
Syntax resolve_names(UnresolvedSyntax unresolved);

}  // namespace inkling::grammar
