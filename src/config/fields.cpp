#include "config/fields.h"

#include <algorithm>
#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/strings.h"
#include "config/config.h"
#include "config/limits.h"

namespace inkling {
namespace {

using enum OnResume;
constexpr std::int64_t largest_seed = INT64_MAX;
constexpr double largest_beta = 0.99999;  // of AdamW, which computes 1 - beta in float32

WholeRange whole(std::int64_t lowest, std::int64_t highest) { return {lowest, highest}; }
WholeRange whole_or_0(std::int64_t lowest, std::int64_t highest) { return {lowest, highest, true}; }
RealRange real(double lowest, double highest) { return {lowest, highest}; }
RealRange above(double lowest, double highest) { return {lowest, highest, true, false}; }
RealRange above_or_0(double lowest, double highest) { return {lowest, highest, true, false, true}; }
RealRange below(double lowest, double highest) { return {lowest, highest, false, true}; }
RealRange between(double lowest, double highest) { return {lowest, highest, true, true}; }
// Fields::add() fills in the words, which the member's enum has.
OneOf its_words(std::vector<OldWord> old_words = {}) { return {{}, std::move(old_words)}; }

template <class Member>
struct Optional : std::false_type {
  using Inner = Member;
};
template <class Type>
struct Optional<std::optional<Type>> : std::true_type {
  using Inner = Type;
};

// The next two functions convert a member to a Value and back. They know every type that the structs of config.h use.
template <class Member>
Value value_of(const Member& member) {
  if constexpr (Optional<Member>::value) {
    return member ? value_of(*member) : Value(Auto{});
  } else if constexpr (std::is_enum_v<Member>) {
    const std::string word(word_of(member));
    return word == "true" || word == "false" ? Value(word == "true") : Value(word);
  } else if constexpr (std::same_as<Member, DeviceChoice>) {
    return device_text(member);
  } else if constexpr (std::same_as<Member, std::vector<AttentionPattern>>) {
    const std::vector<std::string> texts = pattern_texts(member);
    return texts.size() > 1 ? Value(texts) : Value(texts.empty() ? "full" : texts.front());
  } else if constexpr (std::same_as<Member, RopeScaling>) {
    return rope_scaling_text(member);
  } else if constexpr (std::same_as<Member, std::uint64_t>) {
    return static_cast<std::int64_t>(member);
  } else {
    return member;
  }
}

template <class Member>
void set_member(Member& member, const Value& value) {
  if constexpr (Optional<Member>::value) {
    member.reset();
    if (!std::holds_alternative<Auto>(value)) set_member(member.emplace(), value);
  } else if constexpr (std::is_enum_v<Member>) {
    const auto* flag = std::get_if<bool>(&value);
    const std::string word = flag != nullptr ? (*flag ? "true" : "false") : std::get<std::string>(value);
    const auto& words = words_of<Member>;
    member = static_cast<Member>(std::find(words.begin(), words.end(), word) - words.begin());
  } else if constexpr (std::same_as<Member, DeviceChoice>) {
    member = find_device(std::get<std::string>(value)).value();
  } else if constexpr (std::same_as<Member, std::vector<AttentionPattern>>) {
    member.clear();
    const auto* single = std::get_if<std::string>(&value);
    for (const std::string& text : single ? std::vector{*single} : std::get<std::vector<std::string>>(value)) {
      member.push_back(read_pattern(text).value.value());
    }
    member = shortest_patterns(std::move(member));
  } else if constexpr (std::same_as<Member, RopeScaling>) {
    member = read_rope_scaling(std::get<std::string>(value)).value.value();
  } else if constexpr (std::same_as<Member, std::uint64_t>) {
    member = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
  } else {
    member = std::get<Member>(value);
  }
}

// Fields collects what the lists below say.
class Fields {
 public:
  template <class Member>
  void add(const std::string& name, Member& member, Allowed allowed, OnResume on_resume, const std::string& about,
           const std::string& old_name = {}) {
    using Inner = typename Optional<Member>::Inner;
    if constexpr (std::is_enum_v<Inner>) {
      std::get<OneOf>(allowed).words.assign(words_of<Inner>.begin(), words_of<Inner>.end());
    }
    list_.settings.push_back({.key = prefix_ + name,
                              .allowed = std::move(allowed),
                              .takes_auto = Optional<Member>::value,
                              .on_resume = on_resume,
                              .about = about,
                              .old_key = old_name.empty() ? "" : prefix_ + old_name,
                              .get = [&member] { return value_of(member); },
                              .set = [&member](const Value& value) { set_member(member, value); }});
  }

  template <class SectionConfig>
  void section(const std::string& name, SectionConfig& config, std::string about) {
    list_.sections.push_back({prefix_ + name, std::move(about)});
    within(name, [&] { fields(*this, config); });
  }

  template <class AddFields>
  void within(const std::string& section, AddFields&& add_fields) {
    const std::string outer = prefix_;
    prefix_ += section + ".";
    add_fields();
    prefix_ = outer;
  }

  Settings take() { return std::move(list_); }

 private:
  Settings list_;
  std::string prefix_;
};

// clang-format off
// Each setting is one line: name, member, what it may be, what changing it on a resume means, what it is for. Where the
// struct is a type parameter, it is the section of the config or what a run resolved it to (Resolved).

void fields(Fields& f, TokenizerConfig& c) {
  f.add("kind", c.kind, its_words(), refuse, "How text becomes tokens: bytes, Unicode characters of the text, pieces learned from it, or byte-level BPE, as GPT-2 and its descendants have it.");
  f.add("from", c.from, Text{"gpt2 or a path"}, refuse, "A tokenizer that exists: a folder that holds one of this kind (data, a checkpoint, a model from elsewhere); for `bpe` also `gpt2`, or a file (tokenizer.json, tiktoken's ranks). `auto` makes one from the text, or takes that of `model.init_from`.");
  f.add("pattern", c.pattern, its_words(), refuse, "Which regular expression cuts a text into words for `bpe`; `auto` is what `from` says, and GPT-2's for one that is learned.");
  // The 256 bytes, "unknown", the separator and one piece; sentencepiece begins with a million candidates.
  f.add("vocab_size", c.vocab_size, whole(259, 1'000'000), refuse, "How many tokens `sentencepiece` and `bpe` learn; the other kinds take theirs from the text.");
  f.add("model_type", c.model_type, its_words(), refuse, "Which algorithm `sentencepiece` learns with.");
  f.add("character_coverage", c.character_coverage, real(0.98, 1), refuse, "Share of the text's characters that get a piece of `sentencepiece`; the rest is spelled in bytes.");
}

void fields(Fields& f, DataConfig& c) {
  f.add("source", c.source, TextList{"a path"}, refuse, "Text to train on: files, folders, `.jsonl` and `.json`, also compressed as `.gz` or `.zst`; or one `.grammar`; or ready token files, `.bin`. One path or a list; `*` stands for any part of a name.");
  f.add("validation_source", c.validation_source, TextList{"a path"}, refuse, "Text to validate on, likewise. Without one it is the tail of each source, the last stories of a grammar, or the token files with `val` in their name.");
  f.add("jsonl_field", c.jsonl_field, Text{"a name"}, refuse, "The field of a JSON object that holds the text.");
  // Older versions read .csv, .json and others as they are, so their runs need it to go on; a hash guards the text.
  f.add("raw", c.raw, TrueOrFalse{}, free, "Whether to take every file as one text, byte by byte, whatever it is (`.gz` and `.zst` decompressed): also JSON, tables, pages and files of other programs.");
  f.add("separator", c.separator, Text{"a text", true}, refuse, "Text that ends a document wherever it stands in a source, such as `</s>`: the tokenizer's separator takes its place. With `auto` a document is a file or a text of JSON.");
  f.add("vocab_size", c.vocab_size, whole(0, largest_vocabulary), refuse, "Vocabulary of ready token files, where it is required; 0 with every other source.");
  f.add("headerless", c.headerless, TrueOrFalse{}, refuse, "Whether ready token files have no header and are 16-bit tokens from their first byte on, as nanoGPT's train.bin and val.bin are.");
  f.section("tokenizer", c.tokenizer, "How text becomes tokens. Ready token files need none.");
  f.add("val_fraction", c.val_fraction, between(0, 1), refuse, "Share of each source that is kept for validation where there is no `validation_source`.");
  f.add("order", c.order, its_words(), ask, "`epoch` shows every window once before one comes again; `random` draws independent offsets as nanoGPT does.");
  f.add("documents", c.documents, its_words(), ask, "`join` trains on text as it lies in the files; `mask` keeps tokens from attending to other documents in their window; `align` also begins windows with documents, and leaves places empty where none fits.");
  f.add("dir", c.dir, Text{"a path"}, free, "Folder of the token files; `auto` is one in `data/`, named after the first source, the tokenizer and a hash of the settings that make them.");
  f.add("stories", c.stories, whole(2, 1'000'000'000), refuse, "How many stories a grammar is expanded into.");
  f.add("grammar_seed", c.grammar_seed, whole(0, largest_seed), refuse, "Which stories these are.");
}

void fields(Fields& f, ModelConfig& c) {
  f.add("init_from", c.init_from, Text{"a path"}, refuse, "A checkpoint, a run or a folder from elsewhere whose weights the run starts from. What is left out of the shape is taken from there, and so is the tokenizer; `auto` draws new weights.");
  f.add("n_layer", c.n_layer, whole(1, most_layers), refuse, "Blocks, one after the other.");
  f.add("n_head", c.n_head, whole(1, most_heads), refuse, "Attention heads in each block.");
  f.add("n_kv_head", c.n_kv_head, whole(1, most_heads), refuse, "Heads of keys and values, each shared by the same number of query heads; divides `n_head`. Fewer make generating cheaper; `auto` is `n_head`.");
  f.add("head_size", c.head_size, whole(1, widest), refuse, "Channels of a head; `auto` is `n_embd` / `n_head`, which must then be a whole number.");
  f.add("n_embd", c.n_embd, whole(1, widest), refuse, "Width of the embedding: how many channels a token has inside the model.");
  f.add("block_size", c.block_size, whole(2, longest_block), refuse, "Tokens the model sees at once (context).");
  f.add("dropout", c.dropout, below(0, 1), ask, "Share of values switched off at random while training; helps where a text is seen many times.");
  f.add("bias", c.bias, its_words(), refuse, "Biases in linear layers and LayerNorms, as GPT-2 has them; with `qkv` in queries, keys and values alone (Qwen2). RMSNorm has none.");
  f.add("tie_embeddings", c.tie_embeddings, TrueOrFalse{}, refuse, "Whether the output head is the table of token vectors, as in GPT-2, or a matrix of its own.");
  f.add("logit_softcap", c.logit_softcap, real(0, most_softcap), refuse, "Bound of the logits x, which become logit_softcap * tanh(x / logit_softcap); 0 leaves them as they are.");
  f.add("n_inner", c.n_inner, whole(1, widest_inner), refuse, "Channels between the two layers of the MLP; `auto` is four times `n_embd`, or for a gated activation 8/3 of it, rounded up to a multiple of 64.");
  f.add("activation", c.activation, its_words({{"tanh", "gelu_tanh"}, {"exact", "gelu"}}), refuse, "Function between the two layers of the MLP: GELU, approximated by tanh as in GPT-2 or exact as in nanoGPT, ReLU, or its square; or gated, with a third matrix: SwiGLU (Llama) or GEGLU.", "gelu");
  f.add("qk_norm", c.qk_norm, TrueOrFalse{}, refuse, "RMSNorm of each query and each key (Qwen3): one weight of the size of a head for all queries of a layer, and one for all keys.");
  f.add("position", c.position, its_words(), refuse, "How a token knows where it stands: `learned` adds a vector for each position of the block (GPT-2); `rope` rotates queries and keys by angles that grow with the position, so that attention sees distances (Llama); `alibi` lowers attention's scores by slope times distance, with a slope for each head (BLOOM, MPT; no fused kernels yet); with `none` only the causal mask tells.");
  f.add("rope_theta", c.rope_theta, real(1, 1e12), refuse, "Base of these angles: pair i of a head of size D turns by position / rope_theta^(2i/D).");
  f.add("rope_scaling", c.rope_scaling, ScalingText{}, refuse, "How these angles shrink, for texts longer than those that a model learned from: `none`; all of them by a factor, as `linear 2`; or, as Llama 3.1's, `llama3 FACTOR LOW HIGH ORIGINAL`: those of pairs that turn less often than LOW times in ORIGINAL positions by FACTOR, of pairs that turn more often than HIGH times not at all, and of those between in part.");
  f.add("attention", c.patterns, PatternList{}, refuse, "What a token sees: `full`, all tokens before it; `local W`, itself and the W - 1 before it; `dilated W R`, W tokens that lie R apart, the last of them itself. A list repeats over the layers, as `[full, local 128, dilated 64 4]`.");
  f.add("norm", c.norm, its_words(), refuse, "What stands in front of attention and MLP: LayerNorm, or RMSNorm, which has no mean and no bias (Llama).");
  f.add("norm_epsilon", c.norm_epsilon, real(least_norm_epsilon, 1), refuse, "Added to the variance that a norm divides by.");
  f.add("norm_weights", c.norm_weights, TrueOrFalse{}, refuse, "Whether RMSNorms, those of `qk_norm` too, have weights to learn; without them they are saved as ones.");
  f.add("embedding_norm", c.embedding_norm, TrueOrFalse{}, refuse, "One more norm of this kind, right behind the embeddings.");
  f.add("conv", c.conv, whole(0, longest_conv), refuse, "Positions that a causal depthwise convolution after each of the two norms of a block sees: y_t = x_t (1 + w_0) + w_1 x_(t-1) + …; 0 is none.");
  f.add("initialization", c.initialization, its_words(), refuse, "How new weights begin: as GPT-2's, or with `zero_output`: zeros in the head and in the projections that write to the residual stream, a standard deviation of 1 in tables and of 0.5 / sqrt(n_embd) in other matrices. `short_run`, for a hundred steps or so, is the same with 0.5 in convolutions, which else begin with zeros, and 1 / sqrt(n_embd) in what widens the MLP.");
}

void fields(Fields& f, MuonConfig& c) {
  f.add("learning_rate", c.learning_rate, above(0, 10), ask, "Peak learning rate of the hidden matrices, reached after warm-up, instead of `optimizer.learning_rate`.");
  f.add("momentum", c.momentum, below(0, 1), ask, "Momentum: the decay rate of the sum of gradients (Nesterov's form).");
  f.add("weight_decay", c.weight_decay, real(0, 10), ask, "Pull of the hidden matrices towards zero.");
  f.add("newton_schulz_steps", c.newton_schulz_steps, whole(1, 20), ask, "Steps of the iteration that makes an update nearly orthogonal.");
}

void fields(Fields& f, OptimizerConfig& c) {
  f.add("name", c.name, its_words(), ask, "The algorithm: AdamW (Loshchilov and Hutter 2019) for all weights, or Muon (Jordan et al. 2024) for the hidden matrices and AdamW for the rest.");
  f.add("learning_rate", c.learning_rate, above(0, 10), ask, "Peak learning rate of AdamW, reached after warm-up; 1e-3 suits small models, 6e-4 suits GPT-2 small.");
  f.add("embedding_learning_rate", c.embedding_learning_rate, above(0, 10), ask, "The same for the tables of tokens and positions, also where the head is the table; `auto` is `learning_rate`. All rates follow one schedule.");
  f.add("head_learning_rate", c.head_learning_rate, above(0, 10), ask, "The same for an output head of its own (`model.tie_embeddings: false`).");
  f.add("vector_learning_rate", c.vector_learning_rate, above(0, 10), ask, "The same for norms, biases and convolutions.");
  f.add("beta1", c.beta1, real(0, largest_beta), ask, "Decay rate of the first moment, the running mean of the gradient.");
  f.add("beta2", c.beta2, real(0, largest_beta), ask, "Decay rate of the second moment, the running mean of the squared gradient; 0.99 suits small batches.");
  f.add("epsilon", c.epsilon, above(0, 1), ask, "Added to the divisor, against division by zero.");
  f.add("weight_decay", c.weight_decay, real(0, 10), ask, "Pull towards zero of what AdamW updates; norms, biases and convolutions are left alone.");
  f.add("grad_clip", c.grad_clip, real(0, 1000), ask, "Largest global norm of the gradient; 0 does not clip.");
  f.section("muon", c.muon, "What Muon does with the hidden matrices. AdamW leaves these settings unread.");
}

void fields(Fields& f, ScheduleConfig& c) {
  f.add("name", c.name, its_words(), ask, "Learning rate after warm-up: falling along half a cosine or a line, unchanged until it falls along a line at the end (`wsd`), or unchanged.");
  f.add("warmup_steps", c.warmup_steps, whole(0, 1'000'000'000), ask, "Steps over which the learning rate rises from near 0; at most `training.max_steps`.");
  f.add("decay_steps", c.decay_steps, whole_or_0(1, 1'000'000'000), ask, "Step at which a falling rate reaches its end; `auto` is `training.max_steps`, so that changing that one moves the end.");
  f.add("min_learning_rate", c.min_learning_rate, real(0, 10), ask, "Where a falling rate ends; usually a tenth of `optimizer.learning_rate`, or 0.");
  f.add("decay_fraction", c.decay_fraction, above(0, 1), ask, "Share of `decay_steps`, at their end, over which `wsd` falls.");
}

template <class Training>
void micro_batch_field(Fields& f, Training& c) {
  f.add("micro_batch_size", c.micro_batch_size, whole_or_0(1, 100'000), ask, "Windows that go through the model together; it divides `batch_size`, and the gradients add up over the batch. `auto` on a CPU shares the batch out over the threads that the run begins with; on a GPU it takes as many as fit into the memory that is free, and half of that where it turns out too little when it is tried. Another size changes how results are rounded.");
}

void fields(Fields& f, StopConfig& c) {
  f.add("patience", c.patience, whole(0, 1'000'000), free, "Evaluations in a row without a better validation loss after which training ends; 0 never ends it.");
}

void fields(Fields& f, TrainingConfig& c) {
  f.add("max_steps", c.max_steps, whole(0, 1'000'000'000), free, "Steps to train; each takes one batch. 0 saves the model as initialised.");
  f.add("max_hours", c.max_hours, real(0, 10'000), free, "Hours after which the run saves and ends with exit code 75, counted from this start of the program, like a job's time limit; the same command continues the run. Set it a few minutes below that limit, for the last step and saving. 0 is no limit.");
  f.add("batch_size", c.batch_size, whole(1, 100'000), ask, "Windows of `block_size` tokens in one step.");
  micro_batch_field(f, c);
  f.add("recompute", c.recompute, its_words(), free, "What the backward pass computes again instead of keeping it: nothing (`none`); the output of the MLP's activation (`gelu`), a sixth to a quarter of what is kept, for little time (fused kernels only); or whole blocks (`block`), most of it, whose forward pass is then computed twice. The numbers stay the same (with `gelu` on a GPU: except for rounding).");
  f.add("seed", c.seed, whole(0, largest_seed), ask, "Decides initial weights, order of the windows and dropout.");
  f.add("ema", c.ema, below(0, 1), ask, "Decay rate of a moving average of the weights, average = ema * average + (1 - ema) * weights after each step, which is evaluated and saved beside them; 0 keeps none.");
  f.section("stop_when", c.stop_when, "What ends training before `max_steps`. The run is saved, and goes on when the setting or `max_steps` is raised.");
}

void fields(Fields& f, EvaluationConfig& c) {
  f.add("interval", c.interval, whole(1, 1'000'000'000), free, "Steps between two evaluations.");
  f.add("batches", c.batches, whole(1, 1'000'000), free, "Batches of each split that an evaluation reads; always the same ones.");
}

void fields(Fields& f, CheckpointConfig& c) {
  f.add("interval", c.interval, whole(1, 1'000'000'000), free, "Steps between two checkpoints; one more is made at the end.");
  f.add("keep", c.keep, whole(1, 1'000'000), free, "How many of the newest checkpoints stay on disk; the best one stays as well.");
}

void fields(Fields& f, LoggingConfig& c) {
  f.add("interval", c.interval, whole(1, 1'000'000'000), free, "Steps between two lines on the console and in `log.jsonl`.");
  f.add("tensorboard", c.tensorboard, TrueOrFalse{}, free, "Whether the run also writes event files for TensorBoard into its folder: `tensorboard --logdir runs` shows them, while it trains too.");
  f.add("histograms", c.histograms, whole(0, 1'000'000'000), free, "Steps between two histograms of all weights and gradients in these files; 0 makes none.");
}

void fields(Fields& f, SamplingConfig& c) {
  f.add("interval", c.interval, whole(0, 1'000'000'000), free, "Steps between samples of what the model writes, shown on the console, in `log.jsonl` and for TensorBoard; 0 is never.");
  f.add("prompts", c.prompts, TextList{"a text", true}, free, "Prompts to continue, one sample for each; `[]` is one from the beginning of a document.");
  f.add("max_tokens", c.max_tokens, whole(1, 1'000'000), free, "Most tokens in a sample, the prompt not counted.");
  f.add("temperature", c.settings.temperature, real(0, 1000), free, "0 always takes the likeliest token, 1 follows the model.");
  f.add("top_k", c.settings.top_k, whole(0, 1'000'000'000), free, "Choose among the K likeliest tokens; 0 is off.");
  f.add("top_p", c.settings.top_p, above(0, 1), free, "Choose among the fewest likeliest tokens whose probabilities add up to P; 1 is off.");
  f.add("seed", c.seed, whole(0, largest_seed), free, "Another seed, other random numbers; they are the same each time, so that only the model changes.");
}

template <class Runtime>
void runtime_fields(Fields& f, Runtime& c) {
  f.add("device", c.device, DeviceName{}, ask, "Where it runs; `auto` takes a GPU if there is one.");
  f.add("dtype", c.dtype, its_words(), ask, "Numbers the model computes in; `auto` is bfloat16 on GPUs that have it, float32 elsewhere.");
  f.add("threads", c.threads, whole_or_0(1, 4096), ask, "CPU threads; `auto` is one per physical core, but no more than the affinity mask, the CPU quota of a control group, `OMP_NUM_THREADS`, `OMP_THREAD_LIMIT` and `SLURM_CPUS_PER_TASK` allow; several ranks on a machine divide them.");
  f.add("split", c.split, its_words(), ask, "What a training step on a CPU shares out over the threads: its batch, of which each thread takes whole micro-batches (`batch`), so that another number of threads gives the same bits; or each product and loop (`products`). `auto` is `batch` where there are at least as many micro-batches as threads, and the gradients that one thread would hold for so many of them (2 for 2 micro-batches, 3 for up to 4, 5 for up to 16) are at most 384 MiB. On a GPU `batch` adds up micro-batches as several ranks do, so that these go on with the same bits; `auto` is `batch` there for several ranks, and else `products`, which adds each to those before and needs no second gradient.");
  f.add("kernels", c.kernels, its_words({{"aten", "reference"}}), ask, "`fused` computes with our own kernels, `reference` with LibTorch's operations one by one; `auto` is `fused` on CPUs (except to train in bfloat16) and on GPUs from compute capability 8.0 on, else `reference`.");
  if constexpr (std::same_as<Runtime, RuntimeConfig>) {
    f.add("memory_limit_gib", c.memory_limit_gib, above_or_0(0, 1'000'000), free, "GiB that training may hold; `auto` is four fifths of the machine's free memory, or all of the GPU's, when the run begins. A run that needs more does not begin. On a CPU `split: auto` becomes `products` where that is within a limit that is set here.");
  }
  f.add("deterministic", c.deterministic, TrueOrFalse{}, ask, "The same bits from every run on the same machine with the same micro-batches, and where `split` is `products` with as many threads.");
}

void fields(Fields& f, RuntimeConfig& c) { runtime_fields(f, c); }

void fields(Fields& f, RanksConfig& c) {
  f.add("timeout", c.timeout, above(0, 100'000), free, "Seconds after which a rank that is silent counts as lost; the others then end with exit code 3. One whose process is gone is noticed at once.");
  f.add("shard_optimizer", c.shard_optimizer, TrueOrFalse{}, free, "Whether each rank updates a share of the weights, and keeps what the optimizer and the average of the weights need for it alone (ZeRO-1). `false` keeps all of it in every rank. The numbers are the same.");
}

void fields(Fields& f, Config& c) {
  f.section("data", c.data, "What to learn from.");
  f.section("model", c.model, "The transformer's shape. Its vocabulary comes from the tokenizer.");
  f.section("optimizer", c.optimizer, "How a gradient changes the weights.");
  f.section("schedule", c.schedule, "How the learning rate changes over the run.");
  f.section("training", c.training, "How long, and how much at once.");
  f.section("evaluation", c.evaluation, "Looking at the loss on text that is not trained on.");
  f.section("checkpoint", c.checkpoint, "Saving the run, to resume it or to sample from it.");
  f.section("logging", c.logging, "What is reported while training.");
  f.section("sampling", c.sampling, "Reading what the model writes while it trains, as `inkling-sample` would show it.");
  f.section("runtime", c.runtime, "The machine's part.");
  f.section("ranks", c.ranks, "Several processes that train one model together, started by torchrun, mpirun or srun.");
}
// clang-format on

}  // namespace

const Setting* Settings::find(const std::string& key) const {
  const auto has_it = [&](const Setting& setting) {
    return setting.key == key || (setting.old_key == key && !key.empty());
  };
  const auto found = std::find_if(settings.begin(), settings.end(), has_it);
  return found == settings.end() ? nullptr : &*found;
}

bool Settings::has_section(const std::string& key) const {
  return std::any_of(sections.begin(), sections.end(), [&](const Section& section) { return section.key == key; });
}

Settings all_settings(Config& config) {
  Fields list;
  fields(list, config);
  return list.take();
}

Settings resolved_settings(Resolved& resolved) {
  Fields list;
  list.within("runtime", [&] { runtime_fields(list, resolved); });
  list.within("training", [&] { micro_batch_field(list, resolved); });
  return list.take();
}

std::string section_of(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string name_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::optional<DeviceChoice> find_device(std::string_view text) {
  constexpr std::string_view numbered = "cuda:";
  if (text == "cpu") return DeviceChoice{};
  if (text == "cuda") return DeviceChoice{.cuda = true, .index = {}};
  if (!text.starts_with(numbered)) return std::nullopt;
  const auto index = whole_number(text.substr(numbered.size()));
  if (!index || *index > 99) return std::nullopt;
  const DeviceChoice device{.cuda = true, .index = static_cast<int>(*index)};
  return device_text(device) == text ? std::optional(device) : std::nullopt;  // not for cuda:01
}

std::string device_text(const DeviceChoice& device) {
  if (!device.cuda) return "cpu";
  return device.index ? str("cuda:", *device.index) : "cuda";
}

}  // namespace inkling
