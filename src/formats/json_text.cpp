#include "formats/json_text.h"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

// Looks on while the text is read, and refuses what the finished value no longer shows, or what it would cost too much
// to finish: code that walks a value calls itself once for every level.
class JsonWatch {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= deepest_json) throw Error::input(str("this JSON nests deeper than ", deepest_json, " levels"));
      names_.resize(static_cast<std::size_t>(depth));
      names_.emplace_back();
    }
    if (event == Event::key) {
      const auto& name = value.get_ref<const std::string&>();
      names_.resize(static_cast<std::size_t>(depth));  // those of what is closed go
      if (!names_.back().insert(name).second) throw Error::input(str(quote(name), " is given twice"));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> names_;  // given so far, in each object or list that is open
};

[[noreturn]] void refuse_from(std::size_t byte) {
  throw Error::input(str("this is not JSON, from byte ", byte, " on"));
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  // The library takes a zero byte for the end of its input and would not look at what follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) refuse_from(zero + 1);
  try {
    JsonWatch watch;
    return nlohmann::json::parse(text.begin(), text.end(), [&](int depth, auto event, nlohmann::json& value) {
      return watch(depth, event, value);
    });
  } catch (const nlohmann::json::parse_error& error) {
    refuse_from(error.byte);
  } catch (const nlohmann::json::exception&) {
    throw Error::input("this JSON holds a number out of range");
  }
}

}  // namespace inkling
