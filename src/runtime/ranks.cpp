#include "runtime/ranks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "runtime/rank_group.h"

namespace inkling {

Ranks join_ranks(double timeout) {
  const RankPlace place = find_rank_place();
  if (place.rank > 0) log_errors_alone(str("rank ", place.rank, ": "));
  return {place, std::chrono::milliseconds(static_cast<std::int64_t>(1000 * timeout))};
}

void tell_launcher(const std::string& message) {
  const char* const path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  std::ofstream(path) << nlohmann::json{{"message", message}, {"timestamp", std::time(nullptr)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Ranks::Ranks(const RankPlace& place, std::chrono::milliseconds timeout) : place_(place) {
  if (place.is_alone()) return;
  std::signal(SIGPIPE, SIG_IGN);  // gloo writes to ranks that are gone
  // c10d tells of each connection that fails, with its stack; we do so in a line.
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  group_ = std::make_shared<Group>(place, timeout);
}

void Ranks::note(std::string whereabouts) const {
  if (!is_alone()) group_->note(std::move(whereabouts));
}

std::string Ranks::name_of(int rank) const { return is_alone() ? "this process" : group_->name_of(rank); }

void Ranks::meet_on_gpus(at::Device device, const std::function<GpuGroup(const GpuMeeting&)>& meet) const {
  if (is_alone()) return;
  group_->gpus = meet({*group_->store, rank(), count(), longest_work, device});
}

Transfer Ranks::exchange(at::Tensor out, std::vector<std::int64_t> counts_out, at::Tensor in,
                         std::vector<std::int64_t> counts_in) const {
  if (!out.is_cpu()) {
    return group_->gpus.exchange(std::move(out), std::move(counts_out), std::move(in), std::move(counts_in));
  }
  // Gloo does not know every dtype.
  const auto size = static_cast<std::int64_t>(out.element_size());
  for (std::vector<std::int64_t>* counts : {&counts_out, &counts_in}) {
    for (std::int64_t& count : *counts) count *= size;
  }
  at::Tensor to = out.view(at::kByte), from = in.view(at::kByte);
  auto work = group_->work->alltoall_base(to, from, counts_out, counts_in);
  return [group = group_, work = std::move(work), to, from] { group->wait(work); };
}

void Ranks::add(const at::Tensor& numbers) const {
  if (!numbers.is_cpu()) return group_->gpus.add(numbers);
  add({numbers.data_ptr<double>(), static_cast<std::size_t>(numbers.numel())});
}

void Ranks::add(std::span<double> numbers) const {
  if (is_alone() || numbers.empty()) return;
  std::vector<at::Tensor> tensors = {
      at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble)};
  group_->wait(group_->work->allreduce(tensors));
}

bool Ranks::add(std::vector<double>& numbers, bool yes) const {
  const std::size_t count_of_numbers = numbers.size();
  numbers.resize(count_of_numbers + static_cast<std::size_t>(count()));  // an answer of each behind them
  const auto answers = numbers.begin() + static_cast<std::ptrdiff_t>(count_of_numbers);
  answers[rank()] = yes ? 1.0 : 0.0;
  add(numbers);
  const bool any = std::any_of(answers, numbers.end(), [](double answer) { return answer > 0; });
  numbers.resize(count_of_numbers);
  return any;
}

std::int64_t Ranks::least(std::int64_t number) const {
  for (const std::string& of_rank : gather(str(number))) {
    number = std::min(number, whole_number(of_rank).value_or(number));
  }
  return number;
}

std::vector<std::string> Ranks::gather(const std::string& said) const {
  if (is_alone()) return {said};
  const auto ranks = static_cast<std::size_t>(count());
  std::vector<double> lengths(ranks);
  lengths[static_cast<std::size_t>(rank())] = static_cast<double>(said.size());
  add(lengths);
  std::vector<std::int64_t> out(ranks);
  std::transform(lengths.begin(), lengths.end(), out.begin(), [](double n) { return static_cast<std::int64_t>(n); });
  std::string to_all;
  for (std::size_t i = 0; i < ranks; ++i) to_all += said;
  const at::Tensor in = at::from_blob(to_all.data(), {static_cast<std::int64_t>(to_all.size())}, at::kByte);
  const at::Tensor all = at::empty({std::accumulate(out.begin(), out.end(), std::int64_t{0})}, at::kByte);
  exchange(all, out, in, std::vector(ranks, static_cast<std::int64_t>(said.size())))();
  std::vector<std::string> texts;
  const char* at = reinterpret_cast<const char*>(all.const_data_ptr<std::uint8_t>());
  for (const std::int64_t length : out) {
    texts.emplace_back(at, static_cast<std::size_t>(length));
    at += length;
  }
  return texts;
}

namespace {

// What a rank tells of its error: "2 no such file"; "" where it has none.
std::string told(const std::function<void()>& work, std::exception_ptr& thrown) {
  try {
    work();
  } catch (const Error& error) {
    thrown = std::current_exception();
    return str(static_cast<int>(error.kind()), " ", error.message());
  } catch (...) {
    thrown = std::current_exception();
    return str(static_cast<int>(ErrorKind::environment), " it was stopped");
  }
  return "";
}

void rethrow(const std::string& name, const std::string& told) {
  if (told.empty()) return;
  const std::size_t end = told.find(' ');
  const auto kind = static_cast<ErrorKind>(whole_number(std::string_view(told).substr(0, end)).value_or(1));
  throw Error(kind, str(name, " could not go on: ", told.substr(end + 1)));
}

}  // namespace

void Ranks::first_alone(const std::function<void()>& work) const {
  if (is_alone()) return work();
  const std::string key = str("alone/", group_->times_alone++);
  if (!is_first()) return rethrow(name_of(0), group_->await_word(key).substr(1));
  std::exception_ptr thrown;
  group_->say(key, "." + told(work, thrown));
  if (thrown) std::rethrow_exception(thrown);
}

void Ranks::first_then_others(const std::function<void()>& work) const {
  first_alone(work);
  if (is_alone()) return;
  std::exception_ptr thrown;
  const std::vector<std::string> all = gather(is_first() ? "" : told(work, thrown));
  if (thrown) std::rethrow_exception(thrown);
  for (int rank = 0; rank < count(); ++rank) rethrow(name_of(rank), all[static_cast<std::size_t>(rank)]);
}

}  // namespace inkling
