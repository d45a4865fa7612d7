// inkling-recipe TEXT --minutes N: writes a configuration made for this text, this machine and this time.
#include "program.h"
#include "recipe/recipe.h"
#include "recipe_flags.h"

int main(int argc, char** argv) {
  return inkling::run_program([&] {
    CLI::App app(
        "Writes the settings that suit a text, this machine and a time, as YAML with the reason of each line. "
        "inkling-train TEXT --minutes NUMBER also trains from them.",
        "inkling-recipe");
    inkling::recipe::Request request;
    bool explain = false;
    app.add_option("TEXT", request.text, "files or folders of text")->required();
    inkling::add_recipe_flags(app, request);
    app.get_option("--minutes")->required();
    inkling::add_set_flag(app, request.overrides, "set this whatever else is chosen, as data.jsonl_field=body");
    app.add_flag("--explain", explain, "show the candidates that were weighed, on standard error");
    if (!inkling::parse_flags(app, argc, argv)) return 0;
    const inkling::recipe::Recipe recipe = inkling::recipe::make_recipe(request);
    if (explain) std::cerr << recipe.explanation;
    std::cout << recipe.yaml;
    return 0;
  });
}
