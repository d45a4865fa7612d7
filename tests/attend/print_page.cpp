// print_page LAYERS HEADS CHANNELS [LAYER.HEAD] [svg] < TOKENS: the page, or the picture of a head, for invented
// numbers. TOKENS is a JSON list of texts. For page_test.py and for looking at pages that no model was trained for.
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "attend/attended_text.h"
#include "tests/attend/invented_text.h"

int main(int argc, char** argv) {
  using namespace inkling;
  if (argc < 4) {
    std::cerr << "usage: print_page LAYERS HEADS CHANNELS [LAYER.HEAD] [svg] < TOKENS\n";
    return 2;
  }
  const InventedShape shape{
      .layers = std::stoul(argv[1]), .heads = std::stoul(argv[2]), .head_size = std::stoul(argv[3])};
  const HeadChoice shown = argc < 5 ? HeadChoice{} : read_head(argv[4], std::stol(argv[1]), std::stol(argv[2]));
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  const AttendedText text = invent_attention(nlohmann::json::parse(input), shape, shown);
  std::cout << (argc < 6 ? attention_page(text, shown) : head_picture(text, shown));
  return 0;
}
