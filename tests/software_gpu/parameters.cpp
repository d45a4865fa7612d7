#include "parameters.h"

#include <cstdlib>
#include <string_view>

namespace software_gpu {
namespace {

constexpr std::string_view brackets_open = "(<{[", brackets_close = ")>}]";

bool opens(char c) { return brackets_open.find(c) != std::string_view::npos; }
bool closes(char c) { return brackets_close.find(c) != std::string_view::npos; }

int pointers_of(std::string_view parameter) {
  constexpr std::string_view array = "std::array<char*, ";
  while (parameter.starts_with(' ')) parameter.remove_prefix(1);
  while (parameter.ends_with(' ')) parameter.remove_suffix(1);
  if (parameter.starts_with(array)) return std::atoi(std::string(parameter.substr(array.size())).c_str());
  return parameter.ends_with('*') || parameter.ends_with("*const") ? 1 : 0;
}

}  // namespace

std::vector<int> pointers_of_parameters(const std::string& name) {
  if (!name.ends_with(')')) return {};
  std::size_t begin = name.size();
  for (int depth = 0; begin-- > 0;) {  // the bracket that the last one closes
    if (closes(name[begin])) ++depth;
    if (opens(name[begin]) && --depth == 0) break;
  }
  if (begin >= name.size()) return {};
  const std::string_view list = std::string_view(name).substr(begin + 1, name.size() - begin - 2);
  if (list.empty() || list == "void") return {};
  std::vector<int> pointers;
  std::size_t first = 0;
  int depth = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (opens(list[i])) ++depth;
    if (closes(list[i])) --depth;
    if (list[i] != ',' || depth != 0) continue;
    pointers.push_back(pointers_of(list.substr(first, i - first)));
    first = i + 1;
  }
  pointers.push_back(pointers_of(list.substr(first)));
  return pointers;
}

}  // namespace software_gpu
