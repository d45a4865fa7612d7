#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

// The text of a YAML file by line and column, with the checks that need the text itself rather than its structure.
class YamlText {
 public:
  // Throws an Error input with the place for text that is too large, is not UTF-8, or holds control characters, tabs in
  // the indentation or directives. CR LF becomes LF, and a byte order mark is removed.
  YamlText(std::string_view text, std::string_view name);

  std::string_view contents() const { return contents_; }

  // Lines and columns count from 0 here and columns are bytes, as yaml-cpp has them.
  std::string place(int line, int column) const;  // "name:line:column" for people: from 1, in characters
  char at(int line, int column) const;            // '\n' past the end

  // Says whether the value that begins here is plain or quoted. Throws an Error input if it does not end on the same
  // line: yaml-cpp would fold such lines into one text, and takes the end of the file for a closing quote.
  YamlNode::Kind check_scalar(int line, int column, std::string_view value) const;

 private:
  std::size_t offset(int line, int column) const;
  void check_lines() const;

  std::string contents_;
  std::string name_;
  std::vector<std::size_t> line_starts_;
};

constexpr std::size_t max_config_bytes = 256 * 1024;

// Turns CR LF into LF and removes a byte order mark.
std::string normalised(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    result += text[i];
  }
  return result;
}

bool is_control(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return (byte < 0x20 && character != '\n' && character != '\t') || byte == 0x7f;
}

// Says whether the quotes that open the text close again on the same line.
bool closes_on_its_line(std::string_view text) {
  const char quote = text.front();
  for (std::size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
      if (i < text.size() && text[i] == '\n') return false;
    } else if (text[i] == quote) {
      const bool doubled = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!doubled) return true;
      ++i;
    }
  }
  return false;
}

YamlText::YamlText(std::string_view text, std::string_view name) : name_(name) {
  if (text.size() > max_config_bytes) {
    throw Error::input(str(name, ": the file has more than ", format_bytes(max_config_bytes),
                           "; give the YAML file, not the text to train on"));
  }
  contents_ = normalised(text);
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    if (contents_[i] == '\n') line_starts_.push_back(i + 1);
  }
  check_lines();
}

void YamlText::check_lines() const {
  const std::optional<std::size_t> invalid = find_invalid_utf8(contents_);
  for (std::size_t line = 0; line < line_starts_.size(); ++line) {
    const std::size_t end = line + 1 < line_starts_.size() ? line_starts_[line + 1] : contents_.size();
    const std::string_view text = std::string_view(contents_).substr(line_starts_[line], end - line_starts_[line]);
    const auto refuse = [&](std::size_t column, std::string_view what) {
      throw Error::input(str(place(static_cast<int>(line), static_cast<int>(column)), ": ", what));
    };
    if (invalid && *invalid >= line_starts_[line] && *invalid < end) {
      refuse(*invalid - line_starts_[line], "this is not UTF-8 text; save the file as UTF-8");
    }
    const auto control = std::find_if(text.begin(), text.end(), is_control);
    if (control != text.end()) {
      refuse(static_cast<std::size_t>(control - text.begin()),
             str("the control character ", quote(std::string(1, *control)), " stands here; remove it"));
    }
    const std::size_t first = std::min(text.find_first_not_of(" \t\n"), text.size());
    const std::size_t tab = text.substr(0, first).find('\t');
    if (tab != std::string_view::npos && first < text.size() && text[first] != '#') {
      refuse(tab, "a tab in the indentation; indent with spaces");
    }
    if (!text.empty() && text.front() == '%') {
      refuse(0, "YAML directives (%) are not used here; remove the line");
    }
  }
}

std::size_t YamlText::offset(int line, int column) const {
  if (line < 0 || static_cast<std::size_t>(line) >= line_starts_.size()) return contents_.size();
  return std::min(line_starts_[static_cast<std::size_t>(line)] + static_cast<std::size_t>(std::max(column, 0)),
                  contents_.size());
}

std::string YamlText::place(int line, int column) const {
  const std::size_t end = offset(line, column);
  const std::size_t begin = std::min(offset(line, 0), end);
  const std::uint64_t characters = count_characters(contents().substr(begin, end - begin));
  return str(name_, ":", std::max(line, 0) + 1, ":", characters + 1);
}

char YamlText::at(int line, int column) const {
  const std::size_t position = offset(line, column);
  return position < contents_.size() ? contents_[position] : '\n';
}

YamlNode::Kind YamlText::check_scalar(int line, int column, std::string_view value) const {
  const std::string_view rest = std::string_view(contents_).substr(offset(line, column));
  const auto refuse = [&](std::string_view what) { throw Error::input(str(place(line, column), ": ", what)); };
  const char first = rest.empty() ? '\n' : rest.front();
  if (first == '"' || first == '\'') {
    if (!closes_on_its_line(rest)) refuse("the quotes that open here do not close on this line; close them");
    return YamlNode::Kind::quoted;
  }
  if (first == '|' || first == '>') {
    refuse("a text over several lines (| or >) is not used here; write it on one line, in quotes if need be");
  }
  if (!rest.starts_with(value)) {
    refuse("this value goes on in the next line; write it on one line, or indent the next line as its own key");
  }
  return YamlNode::Kind::plain;
}

constexpr std::size_t max_values = 10'000;
constexpr std::size_t max_nesting = 8;

// Builds the tree from yaml-cpp's events, so that nothing is expanded or merged before it has been looked at.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const YamlText& text) : text_(text) {}

  YamlNode take_root() { return std::move(root_); }
  bool has_root() const { return documents_ > 0; }
  // Returns where the innermost list or section that is still open begins; empty if there is none.
  std::string innermost_open() const { return open_.empty() ? "" : open_.back().place; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      refuse(mark, "a second YAML document begins here; write one document a file (no further \"---\" or \"...\")");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(mark, YamlNode::Kind::nothing);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark, 1); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const auto kind = text_.check_scalar(mark.line, mark.column, value);
    add(mark, kind, value);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, YamlNode::Kind::section);
  }
  void OnMapEnd() override { end(); }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
    throw Error::input(str(text_.place(mark.line, mark.column), ": ", what));
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse(mark, "anchors (&name) and aliases (*name) are not used here; write the value out");
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    const bool written = text_.at(mark.line, mark.column) == '!';
    if (written || !(tag.empty() || tag == "?" || tag == "!")) {
      refuse(mark, "tags (!name) are not used here; write the value alone, or text that begins with ! in quotes");
    }
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (expects_key()) refuse(mark, "a list or a section cannot be a key; write \"key: value\"");
    if (open_.size() == max_nesting) {
      refuse(mark, str("lists and sections are nested more than ", max_nesting,
                       " deep here; write section, setting and value"));
    }
    count(mark);
    open_.push_back({kind, "", text_.place(mark.line, mark.column), {}, {}});
  }

  void end() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    place(std::move(node));
  }

  void add(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& value = "") {
    count(mark);
    YamlNode node{kind, value, text_.place(mark.line, mark.column), {}, {}};
    if (expects_key()) {
      add_key(mark, std::move(node));
      return;
    }
    // yaml-cpp notices a missing value in the next line; the person looks at the key.
    const bool in_section = !open_.empty() && open_.back().kind == YamlNode::Kind::section;
    if (kind == YamlNode::Kind::nothing && in_section) node.place = open_.back().keys.back().place;
    place(std::move(node));
  }

  void add_key(const YAML::Mark& mark, YamlNode node) {
    if (node.kind == YamlNode::Kind::nothing) refuse(mark, "a key is missing before \":\"; write \"key: value\"");
    std::vector<YamlNode>& keys = open_.back().keys;
    for (const YamlNode& key : keys) {
      if (key.text == node.text) {
        refuse(mark, str(quote(node.text), " is written twice, first at ", key.place, "; remove one of the two"));
      }
    }
    keys.push_back(std::move(node));
  }

  void place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().kind == YamlNode::Kind::section &&
           open_.back().keys.size() == open_.back().items.size();
  }

  void count(const YAML::Mark& mark) {
    if (++values_ > max_values) {
      refuse(mark, str("more than ", max_values, " values; a config is smaller (name a folder instead of its files)"));
    }
  }

  const YamlText& text_;
  YamlNode root_;
  std::vector<YamlNode> open_;  // lists and sections that have begun and not ended, outermost first
  std::size_t values_ = 0;
  int documents_ = 0;
};

constexpr std::string_view one_line_text =
    "a text over several lines (| or >) is not used here; write it on one line, in quotes if need be";

struct Explanation {
  std::string_view library;  // how yaml-cpp's message begins
  std::string_view what;     // what is wrong; what to write
};

constexpr std::array explanations{
    Explanation{"illegal map value",
                "this \":\" belongs to no key; write one \"key: value\" a line, line keys up below each other, and put "
                "text that contains \": \" in quotes"},
    Explanation{"end of map not found",
                "this does not line up with the keys above, or follows a value that has ended; indent the settings of "
                "a section by the same number of spaces"},
    Explanation{"end of sequence not found",
                "this does not line up with the list above; indent its \"- item\" lines by the same number of spaces"},
    Explanation{"end of map flow not found", "the { here is not closed, or a comma is missing; write {key: value, …}"},
    Explanation{"end of sequence flow not found", "the [ here is not closed, or a comma is missing; write [a, b]"},
    Explanation{"illegal tab", "a tab in the indentation; indent with spaces"},
    Explanation{"illegal EOF in scalar", "the file ends inside a text in quotes; close the quotes"},
    Explanation{"illegal document indicator", "a text in quotes is not closed before this line; close the quotes"},
    Explanation{"unknown token", "a value cannot begin with this character; put the value in quotes"},
    Explanation{"unknown escape character",
                "no such escape; write \\\\ for a backslash in double quotes, or use single quotes"},
    Explanation{"invalid unicode", "no such character; write a Unicode code point after \\u"},
    Explanation{"bad character found while scanning hex",
                "an escape needs hexadecimal digits here; write \\\\ for a backslash, or use single quotes"},
    Explanation{"illegal block entry", "a list item cannot begin here; write each \"- item\" on its own line"},
    Explanation{"illegal flow end", "there is no open [ or { for this; remove it"},
    Explanation{"illegal map key", "a key cannot begin here; write one \"key: value\" a line"},
    Explanation{"the referenced anchor", "anchors (&name) and aliases (*name) are not used here; write the value out"},
    Explanation{"unexpected character in block scalar", one_line_text},
    Explanation{"cannot set zero indentation", one_line_text},
    Explanation{"alias not found", "a value cannot begin with *; put it in quotes"},
    Explanation{"anchor not found", "a value cannot begin with &; put it in quotes"},
};

Error explain(const YAML::Exception& error, const YamlText& text, const TreeBuilder& tree) {
  std::string place = text.place(error.mark.line, error.mark.column);
  // yaml-cpp does not know where an unclosed bracket began; the tree does.
  if (error.msg.find("flow not found") != std::string::npos) place = tree.innermost_open();
  for (const auto& [library, what] : explanations) {
    if (error.msg.starts_with(library)) return Error::input(str(place, ": ", what));
  }
  return Error::input(str(place, ": this is not valid YAML (", error.msg, "); write \"key: value\" lines"));
}

}  // namespace

YamlNode parse_yaml(std::string_view source, std::string_view name) {
  const YamlText text(source, name);
  std::istringstream stream{std::string(text.contents())};
  TreeBuilder tree(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(tree)) {
    }
  } catch (const YAML::Exception& error) {
    throw explain(error, text, tree);
  }
  if (!tree.has_root()) {
    throw Error::input(str(name, ": the file is empty; write at least \"data:\" and below it \"  source: my.txt\""));
  }
  return tree.take_root();
}

}  // namespace inkling
