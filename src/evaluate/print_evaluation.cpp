#include "evaluate/print_evaluation.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/strings.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

// What is not a number is null, and bytes that are not UTF-8 (of a file's name) are replaced.
void print_line(std::ostream& out, const Json& line) {
  out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

std::string plus_minus(double value, double error, int decimals) {
  return str(format_fixed(value, decimals), std::isnan(error) ? "" : str(" +- ", format_fixed(error, decimals)));
}

void print_loss(std::ostream& out, double loss, double standard_error, const std::optional<double>& bits_per_byte) {
  out << "loss           " << plus_minus(loss, standard_error, 4) << " nats per token\n"
      << "perplexity     " << format_fixed(std::exp(loss), 3) << '\n';
  if (bits_per_byte) out << "bits per byte  " << format_fixed(*bits_per_byte, 4) << '\n';
}

void add_score(Json& line, const TextScore& score) {
  const double loss = score.loss();
  line["loss"] = loss;
  line["perplexity"] = std::exp(loss);
  line["bits_per_byte"] = score.bits_per_byte();
  line["tokens"] = score.piece.tokens;
  line["bytes"] = score.bytes;
}

void print_document(std::ostream& out, const DocumentScore& score, const std::string& file,
                    const PrintSettings& settings) {
  if (settings.json) {
    Json line{{"file", file}, {"line", score.line}};
    add_score(line, score);
    return print_line(out, line);
  }
  const double loss = score.loss();
  out << file << ':' << score.line << "  loss " << format_fixed(loss, 4) << "  perplexity "
      << format_fixed(std::exp(loss), 3) << "  bits per byte " << format_fixed(score.bits_per_byte(), 4) << "  tokens "
      << score.piece.tokens << "  bytes " << score.bytes << '\n';
}

constexpr std::array<const char*, choice_rules> rule_names = {"accuracy", "accuracy_per_token",
                                                              "accuracy_per_character"};

void print_example(std::ostream& out, const ChoiceResult& result, const ChoiceExample& example, const ChoiceFile& file,
                   const PrintSettings& settings) {
  std::vector<double> log_likelihoods;
  std::vector<std::uint64_t> tokens;
  for (const ScoredPiece& ending : result.endings) {
    log_likelihoods.push_back(-ending.nats);
    tokens.push_back(ending.tokens);
  }
  if (!settings.json) {
    out << file.path.string() << ':' << example.number << "  label " << example.label << "  chosen";
    for (const std::size_t chosen : result.chosen) out << ' ' << chosen;
    out << "  log-likelihoods";
    for (const double value : log_likelihoods) out << ' ' << format_fixed(value, 4);
    out << '\n';
    return;
  }
  Json line{{"file", file.path.string()}, {file.has_text ? "line" : "example", example.number}};
  line["label"] = example.label;
  line["chosen"] = result.chosen;
  line["log_likelihoods"] = log_likelihoods;
  line["tokens"] = tokens;
  if (file.has_text) line["characters"] = example.characters;
  print_line(out, line);
}

// What every object of the totals begins with.
Json scored_model(const PrintSettings& settings) {
  Json line{{"checkpoint", settings.checkpoint}};
  if (settings.of_average) line["weights"] = "ema";
  return line;
}

void print_json(std::ostream& out, const Evaluation& result, const PrintSettings& settings) {
  Json line = scored_model(settings);
  line.update({{"loss", result.loss},
               {"standard_error", result.standard_error},
               {"perplexity", result.perplexity()},
               {"tokens", result.tokens},
               {"pieces", result.pieces}});
  if (result.bits_per_byte) line["bits_per_byte"] = *result.bits_per_byte;
  if (result.bound) {
    line["best_possible"] = result.bound->best_possible;
    line["excess_ratio"] = result.bound->excess_ratio();
    line["excess_standard_error"] = result.bound->excess_standard_error;
  }
  print_line(out, line);
}

}  // namespace

void print(std::ostream& out, const Evaluation& result, const PrintSettings& settings) {
  if (settings.json) return print_json(out, result, settings);
  print_loss(out, result.loss, result.standard_error, result.bits_per_byte);
  if (result.bound) {
    const BoundComparison& bound = *result.bound;
    out << "best possible  " << format_fixed(bound.best_possible, 4) << " nats per token\n"
        << "above it by    "
        << plus_minus(100 * bound.excess_ratio(), 100 * bound.excess_standard_error / bound.best_possible, 2) << " %\n";
  }
  out << "scored         " << format_count(result.tokens) << " tokens in " << format_count(result.pieces)
      << (result.bound ? " stories\n" : " windows\n");
}

void print(std::ostream& out, const TextEvaluation& result, const TextSettings& text, const PrintSettings& settings) {
  for (const DocumentScore& score : result.documents) {
    if (settings.each) print_document(out, score, text_name(text.files[score.file]), settings);
  }
  if (settings.json) {
    Json line = scored_model(settings);
    add_score(line, result.total);
    line["standard_error"] = result.standard_error;
    line["documents"] = result.documents.size();
    return print_line(out, line);
  }
  print_loss(out, result.total.loss(), result.standard_error, result.total.bits_per_byte());
  out << "scored         " << format_count(result.total.piece.tokens) << " tokens, " << format_count(result.total.bytes)
      << " bytes, in " << format_count(result.documents.size())
      << (result.documents.size() == 1 ? " document\n" : " documents\n");
}

void print(std::ostream& out, const ChoiceEvaluation& result, const ChoiceFile& file, const PrintSettings& settings) {
  for (std::size_t i = 0; i < result.results.size(); ++i) {
    if (settings.each) print_example(out, result.results[i], file.examples[i], file, settings);
  }
  Json line = scored_model(settings);
  for (std::size_t rule = 0; rule < result.accuracies.size(); ++rule) {
    const Accuracy& accuracy = result.accuracies[rule];
    const std::string name = rule_names[rule];
    line[name] = accuracy.value;
    line[name + "_standard_error"] = accuracy.standard_error;
    line[name + "_right"] = accuracy.right;
  }
  line["examples"] = file.examples.size();
  line["passed_over"] = file.passed_over;
  if (settings.json) return print_line(out, line);
  constexpr std::array<const char*, choice_rules> titles = {"accuracy       ", "per token      ", "per character  "};
  for (std::size_t rule = 0; rule < result.accuracies.size(); ++rule) {
    const Accuracy& accuracy = result.accuracies[rule];
    out << titles[rule] << plus_minus(100 * accuracy.value, 100 * accuracy.standard_error, 2) << " %, "
        << format_count(accuracy.right) << " right\n";
  }
  out << "scored         " << format_count(file.examples.size()) << " examples";
  if (file.passed_over > 0) {
    out << "; " << format_count(file.passed_over) << " of " << format_count(file.examples.size() + file.passed_over)
        << (file.has_text ? " lines" : " examples") << " passed over";
  }
  out << '\n';
}

}  // namespace inkling
