// Opens the model in the folder that is named and writes how a text goes on.
#include <inkling/inkling.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) try {
  const inkling::TextModel model = inkling::load(argc > 1 ? argv[1] : "runs/fables");
  inkling::SampleOptions options;
  options.max_tokens = 40;
  std::cout << model.sample(argc > 2 ? argv[2] : "", options) << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
