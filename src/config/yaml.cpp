#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "config/yaml_text.h"

namespace inkling {
namespace {

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
