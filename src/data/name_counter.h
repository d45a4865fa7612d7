// Counts the names of special tokens that stand in texts, where they are learnt or scored as ordinary text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/source_reader.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace inkling {

class NameCounter {
 public:
  // Those of `special`, the tokenizer's own, and what other programs write at the end of a document.
  explicit NameCounter(const std::vector<AddedToken>& special);

  // Counts in the visitor's parts from now on, also across their ends. This must outlive the visitor.
  void watch(TextVisitor& visitor);

  // Warns once, if there are any: how often, where first, and the setting that ends documents there. `separator` is
  // what that setting is.
  void warn(const std::string& separator) const;

 private:
  void add(const PartOfText& part);
  void note(std::string_view name, const PartOfText& part, std::size_t offset);

  SpecialNames names_;
  std::string tail_;  // the end of the document so far, which a name may have begun in
  std::map<std::string, std::uint64_t> counts_;
  std::string first_;  // "a.txt:12"
};

}  // namespace inkling
