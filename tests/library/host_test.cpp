// What libinkling.so leaves in a program that uses it: nothing. This one has settings of its own, and uses LibTorch.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <array>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <locale>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "data/dataset.h"
#include "library/inkling.h"
#include "tests/model/small_model.h"
#include "tests/needs_gpu.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr int pool = 3;  // OpenMP threads that the host uses, of which the library uses some

// As text, so that a test that fails shows what has changed.
std::vector<std::string> state_of_host() {
  std::vector<std::string> state;
  const auto note = [&](const std::string& name, const std::string& value) { state.push_back(name + "=" + value); };
  std::array<unsigned, pool> modes{};
#pragma omp parallel num_threads(pool)
  modes[static_cast<std::size_t>(omp_get_thread_num())] = _mm_getcsr();
  for (const unsigned mode : modes) note("mxcsr", std::to_string(mode));
  note("omp threads", std::to_string(omp_get_max_threads()));
  note("LibTorch's threads", std::to_string(at::get_num_threads()));
  const at::Context& torch = at::globalContext();
  note("deterministic", std::to_string(torch.deterministicAlgorithms()));
  note("warn only", std::to_string(torch.deterministicAlgorithmsWarnOnly()));
  note("fill", std::to_string(torch.deterministicFillUninitializedMemory()));
  note("cudnn", std::to_string(torch.deterministicCuDNN()));
  note("gradients", std::to_string(at::GradMode::is_enabled()));
  note("dtype", std::string(at::get_default_dtype().name()));
  note("locale", std::locale().name());
  note("C locale", std::setlocale(LC_ALL, nullptr));
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) != 0) continue;
    note(std::to_string(number), std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler)));
  }
  for (char** variable = environ; *variable != nullptr; ++variable) note("environment", *variable);
  note("folder", std::filesystem::current_path().string());
  const mode_t mask = umask(0);
  umask(mask);
  note("umask", std::to_string(mask));
  note("cout", std::to_string(std::cout.flags()) + " " + std::to_string(std::cout.precision()));
  return state;
}

class OddNumbers : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }  // 12 is 1.2
};

class Host : public testing::Test {
 protected:
  void SetUp() override {
    setenv("INKLING_TORCH", INKLING_TORCH, 1);
    write_file(folder / "text.txt", std::string(300, 'a') + "bcdefgh\n");
    const std::string yaml = "data: {source: " + (folder / "text.txt").string() +
                             ", dir: " + (folder / "data").string() +
                             "}\nmodel: {n_layer: 2, n_head: 3, n_embd: 30, block_size: 20}\n";
    const Config config = parse_config(yaml, "test", {});
    const Dataset dataset = prepare_dataset(config.data, {});
    GptShape shape = test::small_shape;
    shape.vocab_size = static_cast<std::int64_t>(dataset.vocab_size);
    const test::SmallModel model = test::make_lively_model(shape);
    const Optimizer optimizer(*model.arena, {}, model.model->backend());
    save_checkpoint(folder / "model", config, shape, *model.arena, optimizer, {}, dataset.tokenizer.get());
    at::globalContext().setFlushDenormal(false);
    at::set_num_threads(pool);
  }

  // What it writes, with settings of which the library's own are others.
  std::string text(int threads = 2, const std::function<bool(std::string_view)>& on_text = {}) const {
    LoadOptions options;
    options.device = "cpu";
    options.threads = threads;
    SampleOptions sampling;
    sampling.max_tokens = 30;
    sampling.on_text = on_text;
    return load(folder / "model", options).sample("a", sampling);
  }

  TemporaryFolder folder;
};

TEST_F(Host, HasAllOfItsSettingsAfterACallAndWhileItIsCalled) {
  at::globalContext().setDeterministicAlgorithms(false, true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
  std::signal(SIGXFSZ, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  const std::vector<std::string> before = state_of_host();
  std::optional<std::vector<std::string>> while_called;
  const std::string written = text(2, [&](std::string_view) {
    if (!while_called) while_called = state_of_host();
    return true;
  });
  EXPECT_EQ(written.size(), 30u);
  EXPECT_EQ(while_called, before);
  EXPECT_EQ(state_of_host(), before);
}

TEST_F(Host, KeepsItsSettingsWhereACallFails) {
  const std::vector<std::string> before = state_of_host();
  EXPECT_THROW(load(folder / "nowhere"), std::invalid_argument);
  EXPECT_EQ(state_of_host(), before);
  EXPECT_THROW(text(2, [](std::string_view) -> bool { throw std::runtime_error("the reader has gone"); }),
               std::runtime_error);
  EXPECT_EQ(state_of_host(), before);
}

TEST_F(Host, MayRoundAsItLikes) {
  const std::string usual = text();
  const unsigned towards_zero = 0x7f80, host_flushes = 0xffc0, exceptions_seen = 0x3f;
  for (const unsigned mode : {towards_zero, host_flushes}) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(mode);
    const std::string written = text();
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & ~exceptions_seen, mode);
    EXPECT_EQ(written, usual);
  }
}

TEST_F(Host, MayWriteNumbersAsItLikes) {
  const std::string usual = text(12);
  const std::locale before = std::locale::global(std::locale(std::locale(), new OddNumbers));
  std::string written, message;
  try {
    written = text(12);
    LoadOptions options;
    options.threads = 5000;
    load(folder / "model", options);
  } catch (const std::exception& error) {
    message = error.what();
  }
  std::locale::global(before);
  EXPECT_EQ(written, usual);
  EXPECT_NE(message.find("from 1 to 4096"), std::string::npos) << message;
}

// On the GPU in software alone, which runs what is queued as late as it may: where the order of two threads' work is
// left to chance, it shows.
TEST_F(Host, OnAGpuMayCallFromSeveralThreads) {
  INKLING_NEEDS_SOFTWARE_GPU();
  LoadOptions options;
  options.device = "cuda";
  const TextModel first = load(folder / "model", options), second = load(folder / "model", options);
  SampleOptions sampling;
  sampling.max_tokens = 12;
  const auto texts = [&](const TextModel& model, std::uint64_t count) { return model.samples("a", count, sampling); };
  const std::vector<std::string> wanted = texts(first, 3);
  std::vector<std::vector<std::string>> found(4);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {  // two texts need recordings of their own, made while others run
    threads.emplace_back([&, i] { found[i] = texts(i % 2 == 0 ? first : second, i < 2 ? 3 : 2); });
  }
  threads.clear();
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], std::vector<std::string>(wanted.begin(), wanted.end() - (i < 2 ? 0 : 1)));
  }
}

}  // namespace
}  // namespace inkling
