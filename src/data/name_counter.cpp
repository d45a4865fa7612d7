#include "data/name_counter.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace inkling {

namespace {

std::vector<std::string> names_to_count(const std::vector<AddedToken>& special) {
  std::vector<std::string> names(std::begin(common_separators), std::end(common_separators));
  for (const AddedToken& one : special) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  }
  return names;
}

}  // namespace

NameCounter::NameCounter(const std::vector<AddedToken>& special) : names_(names_to_count(special)) {}

void NameCounter::watch(TextVisitor& visitor) {
  visitor.part = [this, take = std::move(visitor.part)](const PartOfText& part) {
    add(part);
    take(part);
  };
  visitor.end_document = [this, end = std::move(visitor.end_document)](Split split, const Place& place) {
    tail_.clear();
    end(split, place);
  };
}

void NameCounter::add(const PartOfText& part) {
  const std::size_t reach = names_.longest() - 1;
  std::size_t from = 0;  // of the part, behind a name that began in the part before
  if (!tail_.empty()) {
    const std::string seam = str(tail_, part.text.substr(0, reach));
    for (auto found = names_.find(seam); found && found->offset < tail_.size();) {
      const std::size_t end = found->offset + found->name.size();
      if (end > tail_.size()) {
        note(found->name, part, 0);
        from = end - tail_.size();
      }
      found = names_.find(seam, end);
    }
  }
  for (auto found = names_.find(part.text, from); found; found = names_.find(part.text, from)) {
    note(found->name, part, found->offset);
    from = found->offset + found->name.size();
  }
  if (part.text.size() < reach) tail_ += part.text;
  if (part.text.size() >= reach) tail_ = part.text.substr(part.text.size() - reach);
  tail_.erase(0, tail_.size() - std::min(tail_.size(), reach));
}

void NameCounter::note(std::string_view name, const PartOfText& part, std::size_t offset) {
  ++counts_[std::string(name)];
  if (!first_.empty()) return;
  Place place = part.place;
  if (place.line > 0 && !place.one_line) {
    const std::string_view before = part.text.substr(0, offset);
    place.line += static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n'));
  }
  first_ = place.text();
}

void NameCounter::warn(const std::string& separator) const {
  if (counts_.empty()) return;
  std::vector<std::string> found;
  std::string_view most;
  std::uint64_t times = 0;
  for (const auto& [name, count] : counts_) {
    found.push_back(str(name, " ", format_count(count), count == 1 ? " time" : " times"));
    if (count > times) most = name, times = count;
  }
  log_warning(str("the text holds names of special tokens, ", join(found, ", "), ", the first at ", first_,
                  ": they are ordinary text, letter by letter; ",
                  separator.empty() ? str("if ", most, " ends a document, write data.separator: ", quote(most))
                                    : str("only data.separator, ", quote(separator), ", ends a document")));
}

}  // namespace inkling
