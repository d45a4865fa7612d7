#include "data/grammar_syntax.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/strings.h"

namespace inkling::grammar {

const Template& Syntax::field(Choice choice, std::size_t column) const {
  const Rule& rule = rules[choice.rule];
  const auto found = std::find(rule.columns.begin(), rule.columns.end(), column);
  return rule.productions[choice.production].fields[static_cast<std::size_t>(found - rule.columns.begin())];
}

bool Syntax::has_column(std::size_t rule, std::size_t column) const {
  const std::vector<std::size_t>& columns_of_rule = rules[rule].columns;
  return std::find(columns_of_rule.begin(), columns_of_rule.end(), column) != columns_of_rule.end();
}

Error Syntax::error(Place place, std::string_view message) const {
  return Error::input(str(file, ":", place.line, ":", place.column, ": ", message));
}

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_name(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' && std::all_of(text.begin(), text.end(), allowed);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Characters that still know where they were in the file.
struct Placed {
  std::string text;
  std::vector<Place> places;

  void append(std::string_view line_text, Place place) {
    for (const char c : line_text) {
      text.push_back(c);
      places.push_back(place);
      ++place.column;
    }
  }
};

// One production's lines joined, before its columns are read.
struct Block {
  std::size_t rule = none;
  double weight = 1;
  Place place;
  Placed body;
};

class SourceReader {
 public:
  SourceReader(std::string_view source, std::string_view file) : source_(source) { result_.syntax.file = file; }

  UnresolvedSyntax read() {
    if (const auto invalid = find_invalid_utf8(source_)) {
      const auto line = 1 + std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(*invalid), '\n');
      throw syntax().error({static_cast<std::size_t>(line), 1}, "this line is not UTF-8; save the grammar as UTF-8");
    }
    syntax().columns.emplace_back();
    std::size_t number = 0;
    for (std::string_view rest = source_; !rest.empty();) {
      const std::size_t length = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, length);
      rest.remove_prefix(std::min(length + 1, rest.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(line, ++number);
    }
    for (const Block& block : blocks_) read_production(block);
    return std::move(result_);
  }

 private:
  Syntax& syntax() { return result_.syntax; }

  void read_line(std::string_view line, std::size_t number) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') return;
    const Place place{number, static_cast<std::size_t>(content.data() - line.data()) + 1};
    if (place.column == 1) return read_rule_head(content, place);
    if (syntax().rules.empty()) throw syntax().error(place, "a production needs a rule above it, such as `story:`");
    if (!begin_production(content, place)) continue_production(content, place);
  }

  void read_rule_head(std::string_view content, Place place) {
    if (!content.ends_with(':')) {
      throw syntax().error(place,
                           "a rule ends with `:`, as in `story:`; productions and their further lines are indented");
    }
    content.remove_suffix(1);
    Rule rule{.name = {}, .columns = {}, .productions = {}, .place = place};
    for (std::size_t begin = 0; begin <= content.size();) {
      const std::size_t end = std::min(content.find('|', begin), content.size());
      const std::string name(trim(content.substr(begin, end - begin)));
      const Place at{place.line, place.column + begin};
      if (!is_name(name)) throw syntax().error(at, str(quote(name), " is not a name; use a to z, 0 to 9 and _"));
      if (rule.name.empty()) {
        rule.name = name;
        rule.columns.push_back(0);
      } else {
        const std::size_t id = column_id(name);
        if (std::count(rule.columns.begin(), rule.columns.end(), id)) {
          throw syntax().error(at, str("the column ", quote(name), " appears twice in this rule"));
        }
        rule.columns.push_back(id);
      }
      begin = end + 1;
    }
    for (const Rule& other : syntax().rules) {
      if (other.name == rule.name) {
        throw syntax().error(place, str("the rule ", quote(rule.name), " was begun in line ", other.place.line,
                                        " already; put its productions together"));
      }
    }
    syntax().rules.push_back(std::move(rule));
  }

  std::size_t column_id(const std::string& name) {
    std::vector<std::string>& columns = syntax().columns;
    const auto found = std::find(columns.begin(), columns.end(), name);
    if (found != columns.end()) return static_cast<std::size_t>(found - columns.begin());
    columns.push_back(name);
    return columns.size() - 1;
  }

  // `* text` or `3 * text` begins a production; anything else goes on with the one above.
  bool begin_production(std::string_view content, Place place) {
    const std::size_t star = content.find('*');
    if (star == std::string_view::npos || (star > 0 && content[star - 1] == '\\')) return false;
    const std::string_view before = trim(content.substr(0, star));
    if (before.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return false;
    Block block{.rule = syntax().rules.size() - 1, .weight = 1, .place = place, .body = {}};
    if (!before.empty()) {
      const auto [end, problem] = std::from_chars(before.data(), before.data() + before.size(), block.weight);
      if (problem != std::errc{} || end != before.data() + before.size() || !(block.weight > 0) ||
          !std::isfinite(block.weight)) {
        throw syntax().error(place,
                             str("the weight ", quote(before), " is not a positive number; write for example `3 * `"));
      }
    }
    block.body.append(content.substr(star + 1), {place.line, place.column + star + 1});
    blocks_.push_back(std::move(block));
    return true;
  }

  void continue_production(std::string_view content, Place place) {
    if (blocks_.empty() || blocks_.back().rule != syntax().rules.size() - 1) {
      throw syntax().error(place, "a production begins with `*`, or with a weight and `*`");
    }
    Placed& body = blocks_.back().body;
    body.append(" ", place);
    body.append(content, place);
  }

  void read_production(const Block& block) {
    Production production{.weight = block.weight, .probability = 1, .fields = {}, .place = block.place};
    std::size_t begin = 0;
    const std::string& text = block.body.text;
    for (std::size_t at = 0; at <= text.size(); ++at) {
      if (at + 1 < text.size() && text[at] == '\\') {
        ++at;
      } else if (at == text.size() || text[at] == '|') {
        production.fields.push_back(read_template(block, begin, at));
        begin = at + 1;
      }
    }
    Rule& rule = syntax().rules[block.rule];
    if (production.fields.size() != rule.columns.size()) {
      throw syntax().error(block.place, str("this production has ", production.fields.size(), " column(s), the rule ",
                                            quote(rule.name), " has ", rule.columns.size(),
                                            "; separate columns with `|` and write `\\|` for the sign itself"));
    }
    rule.productions.push_back(std::move(production));
  }

  // The characters [begin, end) of a production, without the blanks around them.
  Template read_template(const Block& block, std::size_t begin, std::size_t end) {
    const auto& [text, places] = block.body;
    while (begin < end && is_blank(text[begin])) ++begin;
    while (end > begin && is_blank(text[end - 1])) --end;
    Template result;
    for (std::size_t at = begin; at < end; ++at) {
      if (text[at] == '}')
        throw syntax().error(places[at], "`}` without `{` before it; write `\\}` for the sign itself");
      if (text[at] == '{') {
        const std::size_t close = text.find_first_of("{}|", at + 1);
        if (close >= end || text[close] != '}') throw syntax().error(places[at], "`{` without `}` after it");
        result.push_back(read_reference(std::string_view(text).substr(at + 1, close - at - 1), places[at]));
        at = close;
      } else {
        if (result.empty() || result.back().kind != Part::Kind::text)
          result.push_back({.text = {}, .place = places[at]});
        const Place place = places[at];
        result.back().text.push_back(text[at] == '\\' ? unescape(++at < end ? text[at] : '\0', place) : text[at]);
      }
    }
    return result;
  }

  char unescape(char c, Place place) const {
    if (c == 'n') return '\n';
    if (c == '_') return ' ';
    if (c != '\0' && std::string_view("{}|*#\\").find(c) != std::string_view::npos) return c;
    throw result_.syntax.error(place, "after `\\` comes one of n _ { } | * # \\");
  }

  // The inside of {^variable=name.column}.
  Part read_reference(std::string_view inside, Place place) {
    Part part{.kind = Part::Kind::choose, .text = {}, .place = place};
    std::string_view rest = trim(inside);
    if (rest.starts_with('^')) {
      part.capital = true;
      rest = trim(rest.substr(1));
    }
    Reference reference;
    if (const std::size_t equals = rest.find('='); equals != std::string_view::npos) {
      reference.variable = trim(rest.substr(0, equals));
      if (!is_name(reference.variable)) throw bad_name(reference.variable, place);
      rest = trim(rest.substr(equals + 1));
    }
    if (const std::size_t dot = rest.find('.'); dot != std::string_view::npos) {
      reference.column = trim(rest.substr(dot + 1));
      if (!is_name(reference.column)) throw bad_name(reference.column, place);
      rest = trim(rest.substr(0, dot));
    }
    reference.name = rest;
    if (!is_name(reference.name)) throw bad_name(reference.name, place);
    part.rule = result_.references.size();
    result_.references.push_back(std::move(reference));
    return part;
  }

  Error bad_name(const std::string& name, Place place) const {
    return result_.syntax.error(place,
                                str(quote(name),
                                    " is not a name; braces hold {rule}, {rule.column}, "
                                    "{variable=rule}, {variable} or {variable.column}, with ^ in front for a capital"));
  }

  std::string_view source_;
  UnresolvedSyntax result_;
  std::vector<Block> blocks_;
};

}  // namespace

Syntax read_syntax(std::string_view source, std::string_view file) {
  return resolve_names(SourceReader(source, file).read());
}

}  // namespace inkling::grammar
