// Checks of settings that must fit together, made when all of them are read.
#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "config/config.h"
#include "config/fields.h"
#include "config/limits.h"

namespace inkling {
namespace {

SourceKind kind_of(const DataConfig& data, std::string_view path) {
  if (data.raw) return SourceKind::text;
  const std::string ending = ending_of(path);
  if (ending == ".grammar") return SourceKind::grammar;
  if (ending == ".bin") return SourceKind::token_files;
  return SourceKind::text;
}

class FitChecker {
 public:
  explicit FitChecker(const Config& config) : config_(config), places_(config.written) {}

  void check() const {
    check_sources();
    check_vocab_size();
    check_separator();
    check_headerless();
    check_tokenizer();
    if (!config_.model.init_from) check_model();
    check_steps();
    check_learning_rates();
    check_histograms();
  }

  void require_source() const {
    if (!config_.data.source.empty()) return;
    refuse({"data.source"}, "data.source is missing; write the text to train on, such as source: my.txt, in data:");
  }

  void check_model() const {
    const ModelConfig& model = config_.model;
    check_head_size(model);
    if (model.logit_softcap > 0 && model.logit_softcap < least_softcap) {
      refuse({"model.logit_softcap"}, str("model.logit_softcap is ", format_shortest(model.logit_softcap),
                                          ", so small that all tokens are alike; write 0 for none, or at least ",
                                          format_shortest(least_softcap)));
    }
    if (model.n_head % model.attention().n_kv_head != 0) {
      refuse({"model.n_kv_head", "model.n_head"},
             str(stated("model.n_head", model.n_head), " is not divisible by model.n_kv_head ", *model.n_kv_head,
                 ", so that query heads cannot share keys and values evenly; write an n_kv_head that divides it, or "
                 "auto"));
    }
    if (has_rotation(model.position) && model.attention().head_size % 2 != 0) {
      refuse({"model.head_size", "model.position", "model.n_embd", "model.n_head"},
             str("model.position: rope turns pairs of channels, and a head has ", model.attention().head_size,
                 " of them, an odd number; write an even head_size",
                 model.head_size ? "" : ", or an n_embd that is an even multiple of n_head"));
    }
    if (!model.norm_weights && model.norm == NormKind::layernorm && !model.qk_norm) {
      refuse(
          {"model.norm_weights", "model.norm"},
          "model.norm_weights: false is for RMSNorms, and this model has none; write norm: rmsnorm or qk_norm: true, "
          "or leave it out");
    }
    check_initialization(model);
  }

 private:
  // What says how a tokenizer is learned has no meaning for one that exists.
  void check_beside_from(const TokenizerConfig& tokenizer) const {
    if (source_kind(config_.data) == SourceKind::token_files) {
      refuse({"data.tokenizer.from"},
             "data.tokenizer.from is for text, and data.source is ready token files; remove it");
    }
    const TokenizerConfig defaults;
    const auto refuse_changed = [&](const std::string& key, bool is_changed) {
      if (is_changed)
        refuse({key}, str(key, " is for a tokenizer that is learned, and this one exists (", *tokenizer.from,
                          "); leave it out"));
    };
    refuse_changed("data.tokenizer.vocab_size", tokenizer.vocab_size != defaults.vocab_size);
    refuse_changed("data.tokenizer.model_type", tokenizer.model_type != defaults.model_type);
    refuse_changed("data.tokenizer.character_coverage", tokenizer.character_coverage != defaults.character_coverage);
  }

  // Returns the place of the first of these keys that a flag wrote, or else that the file wrote.
  std::string place_of(std::initializer_list<std::string> keys) const {
    for (const auto* written : {&places_.flags, &places_.files}) {
      for (const std::string& key : keys) {
        const auto found = written->find(key);
        if (found != written->end()) return found->second;
      }
    }
    return places_.name;
  }

  [[noreturn]] void refuse(std::initializer_list<std::string> keys, std::string_view what) const {
    throw Error::input(str(place_of(keys), ": ", what));
  }

  // Returns "model.n_head 6 (the default)".
  template <typename Value>
  std::string stated(const std::string& key, const Value& value) const {
    const bool is_inherited = config_.model.init_from && key.starts_with("model.");
    return str(key, " ", value, places_.find(key) || is_inherited ? "" : " (the default)");
  }

  void check_sources() const {
    const DataConfig& data = config_.data;
    if (data.source.empty()) return;
    const SourceKind kind = kind_of(data, data.source.front());
    for (const auto& [key, sources] :
         {std::pair{"data.source", &data.source}, std::pair{"data.validation_source", &data.validation_source}}) {
      for (const std::string& path : *sources) {
        if (kind_of(data, path) != kind) {
          refuse({key}, str(key, " names ", shown(path), " beside ", shown(data.source.front()),
                            "; all sources are text, or all are .bin token files, or there is one .grammar"));
        }
      }
    }
    if (kind == SourceKind::grammar && (data.source.size() > 1 || !data.validation_source.empty())) {
      refuse({"data.validation_source", "data.source"},
             "a .grammar is the only source of its run; remove the others (it makes its own validation stories)");
    }
  }

  void check_vocab_size() const {
    const bool ready = source_kind(config_.data) == SourceKind::token_files;
    if (ready && config_.data.vocab_size == 0) {
      refuse({"data.vocab_size", "data.source"},
             "ready token files (.bin) do not say how large their vocabulary is; write data.vocab_size, such as 50257 "
             "for GPT-2's");
    }
    if (!ready && config_.data.vocab_size != 0) {
      refuse({"data.vocab_size"}, str("data.vocab_size is ", config_.data.vocab_size,
                                      ", but only ready token files (.bin) take it; remove it (sentencepiece takes "
                                      "data.tokenizer.vocab_size)"));
    }
  }

  void check_separator() const {
    const auto& separator = config_.data.separator;
    if (!separator) return;
    if (source_kind(config_.data) != SourceKind::text) {
      refuse({"data.separator"}, "data.separator is for text, and the source is none; leave it out");
    }
    constexpr std::size_t longest = 256;
    if (separator->empty() || separator->size() > longest) {
      refuse({"data.separator"}, str("data.separator has ", separator->size(), " bytes, and must have 1 to ", longest,
                                     "; write the text that ends a document, such as \"<|endoftext|>\", or auto"));
    }
  }

  void check_headerless() const {
    if (!config_.data.headerless) return;
    if (source_kind(config_.data) != SourceKind::token_files) {
      refuse({"data.headerless"},
             "data.headerless is for ready token files (.bin), and the source is none; leave it out");
    }
    constexpr std::uint64_t tokens_of_16_bits = 65'536;
    if (config_.data.vocab_size > tokens_of_16_bits) {
      refuse(
          {"data.vocab_size", "data.headerless"},
          str("data.vocab_size is ", config_.data.vocab_size, ", and token files without a header (data.headerless) ",
              "have tokens of 16 bits, so at most ", tokens_of_16_bits, " of them; write the vocabulary's own size"));
    }
  }

  void check_tokenizer() const {
    const TokenizerConfig& tokenizer = config_.data.tokenizer;
    if (tokenizer.from) check_beside_from(tokenizer);
    if (tokenizer.kind == TokenizerKind::bpe || !(tokenizer.from == "gpt2" || tokenizer.pattern)) return;
    const std::string key = tokenizer.pattern ? "data.tokenizer.pattern" : "data.tokenizer.from";
    refuse({key}, str(key, " is for data.tokenizer.kind: bpe, and the kind is ", word_of(tokenizer.kind),
                      "; write kind: bpe, or leave it out"));
  }

  void check_head_size(const ModelConfig& model) const {
    if (model.head_size || model.n_embd % model.n_head == 0) return;
    const std::int64_t below = model.n_embd / model.n_head * model.n_head, above = below + model.n_head;
    refuse({"model.n_embd", "model.n_head"},
           str(stated("model.n_embd", model.n_embd), " is not divisible by ", stated("model.n_head", model.n_head),
               "; write n_embd ", below > 0 ? str(below, " or ") : "", above, ", or another n_head, or a head_size"));
  }

  void check_initialization(const ModelConfig& model) const {
    const bool has_no_output = model.initialization != Initialization::gpt2;
    if (has_no_output && model.init_from) {
      refuse({"model.initialization", "model.init_from"},
             "model.initialization is for new weights, and this run starts from others (model.init_from); leave it "
             "out");
    }
    if (has_no_output && model.tie_embeddings) {
      refuse({"model.initialization", "model.tie_embeddings"},
             str("model.initialization: ", word_of(model.initialization),
                 " sets the output head to zero, and here that is the table of tokens; write tie_embeddings: false, or "
                 "initialization: gpt2"));
    }
    if (model.tie_embeddings && config_.optimizer.head_learning_rate) {
      refuse({"optimizer.head_learning_rate", "model.tie_embeddings"},
             "optimizer.head_learning_rate is for an output head of its own, and here the head is the table of tokens "
             "(embedding_learning_rate); write model.tie_embeddings: false, or leave out head_learning_rate");
    }
  }

  bool rate_falls() const { return config_.schedule.name != ScheduleName::constant; }

  void check_steps() const {
    const TrainingConfig& training = config_.training;
    const ScheduleConfig& schedule = config_.schedule;
    const std::optional<std::int64_t>& micro = training.micro_batch_size;
    if (micro && training.batch_size % *micro != 0) {
      refuse({"training.micro_batch_size", "training.batch_size"},
             str(stated("training.batch_size", training.batch_size), " is not divisible by training.micro_batch_size ",
                 *micro, "; write a micro_batch_size that divides it, or auto"));
    }
    if (training.max_steps > 0 && schedule.warmup_steps > training.max_steps) {
      refuse({"schedule.warmup_steps", "training.max_steps"},
             str(stated("schedule.warmup_steps", schedule.warmup_steps), " is above ",
                 stated("training.max_steps", training.max_steps),
                 ", so the learning rate would never be reached; write at most ", training.max_steps,
                 " for warmup_steps"));
    }
    if (rate_falls() && schedule.decay_steps && *schedule.decay_steps < schedule.warmup_steps) {
      refuse({"schedule.decay_steps", "schedule.warmup_steps"},
             str("schedule.decay_steps ", *schedule.decay_steps, " is below ",
                 stated("schedule.warmup_steps", schedule.warmup_steps), "; write at least ", schedule.warmup_steps,
                 " for decay_steps, or auto"));
    }
  }

  void check_learning_rates() const {
    const double highest = config_.optimizer.learning_rate, lowest = config_.schedule.min_learning_rate;
    if (!rate_falls() || lowest <= highest) return;
    refuse({"schedule.min_learning_rate", "optimizer.learning_rate"},
           str(stated("schedule.min_learning_rate", format_shortest(lowest)), " is above ",
               stated("optimizer.learning_rate", format_shortest(highest)),
               "; write a smaller min_learning_rate, usually a tenth of it"));
  }

  void check_histograms() const {
    if (config_.logging.histograms == 0 || config_.logging.tensorboard) return;
    refuse({"logging.histograms"}, str("logging.histograms is ", config_.logging.histograms,
                                       ", and only TensorBoard's files hold histograms; write tensorboard: true "
                                       "beside it, or leave it out"));
  }

  const Config& config_;
  const WrittenPlaces& places_;
};

}  // namespace

std::optional<std::string> WrittenPlaces::find(const std::string& key) const {
  for (const auto* written : {&flags, &files}) {
    if (const auto found = written->find(key); found != written->end()) return found->second;
  }
  return std::nullopt;
}

void require_source(const Config& config) { FitChecker(config).require_source(); }

void check_fit(const Config& config) { FitChecker(config).check(); }

void check_model_fit(const Config& config) { FitChecker(config).check_model(); }

SourceKind source_kind(const DataConfig& data) {
  return data.source.empty() ? SourceKind::text : kind_of(data, data.source.front());
}

}  // namespace inkling
