#include "runtime/ranks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <future>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace inkling {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Survivors of a lost rank notice it within half a second of each other.
constexpr milliseconds roll_call{1000}, between_looks{20}, slack{500};
constexpr int beats_per_timeout = 4;

std::string this_process() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return str(host, ", process ", ::getpid());
}

// The address of this machine from which `host` is reached: a connection of UDP sends nothing. /etc/hosts often gives
// a machine's own name as 127.0.0.1, which others do not reach. "" where there is none.
std::string address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  std::string address;
  for (const addrinfo* at = found; at != nullptr && address.empty(); at = at->ai_next) {
    const int socket = ::socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    sockaddr_storage own = {};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST] = "";
    auto* const name = reinterpret_cast<sockaddr*>(&own);
    if (socket >= 0 && ::connect(socket, at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(socket, name, &length) == 0 &&
        ::getnameinfo(name, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      address = text;
    }
    if (socket >= 0) ::close(socket);
  }
  ::freeaddrinfo(found);
  return address;
}

std::string seconds_of(milliseconds time) {
  return str(format_shortest(static_cast<double>(time.count()) / 1000), " s");
}

std::string first_line(const std::exception& error) {
  const std::string_view what = error.what();
  return std::string(what.substr(0, what.find('\n')));
}

// Returns what `ask` returns, or throws what it throws; none if it has not come to an end by then. A store that is
// asked waits for ever for one that is stopped, or for a program that is no store.
template <typename Ask>
auto within(milliseconds limit, Ask ask) -> std::optional<decltype(ask())> {
  std::packaged_task<decltype(ask())()> task(std::move(ask));
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

c10::intrusive_ptr<c10d::Store> open_store(const RankPlace& place, milliseconds timeout) {
  using Opened = c10::intrusive_ptr<c10d::Store>;
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && !place.has_store;
  options.waitWorkers = false;
  options.timeout = timeout;
  std::string why = "what is there does not answer";
  try {
    const auto store = within(timeout + slack, [address = place.address, options]() -> Opened {
      return c10::make_intrusive<c10d::TCPStore>(address, options);
    });
    if (store) return c10::make_intrusive<c10d::PrefixStore>(str("inkling/", place.attempt), *store);
  } catch (const std::exception& error) {
    why = first_line(error);
  }
  const std::string where = str(place.address, ", port ", place.port);
  if (options.isServer) {
    throw Error::environment(str("rank 0 cannot open ", where, ", where the others look for it: ", why,
                                 "; another run may be there: set MASTER_PORT to a free port"));
  }
  throw Error::environment(str("rank ", place.rank, " has not reached rank 0 at ", where, " within ",
                               seconds_of(timeout), ": ", why,
                               "; see to it that rank 0 runs and that MASTER_ADDR and MASTER_PORT name it"));
}

// What rank 0 tells those that wait for it.
enum class Beat : std::int64_t { at_work, done, failed };

}  // namespace

struct Ranks::Group {
  RankPlace place;
  milliseconds timeout{0};
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  std::vector<std::string> names;  // of the ranks' processes

  std::string name_of(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return str("rank ", rank, i < names.size() && !names[i].empty() ? str(" (", names[i], ")") : "");
  }

  // Returns those of all ranks whose key is not in the store by then.
  std::vector<int> missing(const std::string& key, Clock::time_point until) const {
    std::vector<int> left(static_cast<std::size_t>(place.ranks));
    std::iota(left.begin(), left.end(), 0);
    while (true) {
      std::erase_if(left, [&](int rank) { return store->check({str(key, "/", rank)}); });
      if (left.empty() || Clock::now() >= until) return left;
      std::this_thread::sleep_for(between_looks);
    }
  }

  std::string list(const std::vector<int>& ranks) const {
    std::vector<std::string> all;
    for (const int rank : ranks) all.push_back(name_of(rank));
    return join(all, ", ");
  }

  void join_others();
  std::vector<int> call_roll() const;
  [[noreturn]] void report_loss(const std::string& why) const;

  // Waits for what c10d does.
  void wait(const c10::intrusive_ptr<c10d::Work>& work) const {
    try {
      work->wait();
    } catch (const std::exception& error) {
      report_loss(first_line(error));
    }
  }

  Beat beat(Beat own) const {
    at::Tensor number = at::full({1}, static_cast<std::int64_t>(own), at::kLong);
    std::vector<at::Tensor> tensors = {number};
    wait(gloo->broadcast(tensors));
    return static_cast<Beat>(number.item<std::int64_t>());
  }
};

void Ranks::Group::join_others() {
  const auto until = Clock::now() + timeout;
  store->set(str("name/", place.rank), bytes_of(this_process()));
  if (const std::vector<int> absent = missing("name", until); !absent.empty()) {
    throw Error::environment(str(list(absent), absent.size() == 1 ? " of " : ": of ", place.ranks,
                                 absent.size() == 1 ? " has not come within " : " ranks these have not come within ",
                                 seconds_of(timeout), " (ranks.timeout); see what that process has said, or ",
                                 "start as many as ", place.ranks));
  }
  for (int rank = 0; rank < place.ranks; ++rank) {
    const std::vector<std::uint8_t> name = store->get(str("name/", rank));
    names.emplace_back(name.begin(), name.end());
  }
  const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const std::string address = address_towards(place.address, place.port);
  options->devices.push_back(address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                                             : c10d::ProcessGroupGloo::createDeviceForHostname(address));
  options->threads = 1;
  gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.ranks, options);
}

// Each survivor comes to it when it notices; whom rank 0 has not seen then is lost to all. The store is rank 0's or its
// launcher's: where it does not answer, rank 0 is lost.
std::vector<int> Ranks::Group::call_roll() const {
  store->set(str("here/", place.rank), bytes_of("."));
  if (place.rank == 0) {
    const std::vector<int> lost = missing("here", Clock::now() + roll_call);
    std::vector<std::string> words;
    for (const int rank : lost) words.push_back(std::to_string(rank));
    store->set("lost", bytes_of(join(words, ",")));
    std::this_thread::sleep_for(5 * between_looks);  // while the others read it
    return lost;
  }
  const auto until = Clock::now() + roll_call + 5 * between_looks;
  while (Clock::now() < until) {
    if (store->check({"lost"})) {
      const std::vector<std::uint8_t> bytes = store->get("lost");
      std::vector<int> lost;
      std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        lost.push_back(static_cast<int>(whole_number(text.substr(0, end)).value_or(0)));
        text.remove_prefix(std::min(end + 1, text.size()));
      }
      return lost;
    }
    std::this_thread::sleep_for(between_looks);
  }
  return missing("here", Clock::now());
}

void Ranks::Group::report_loss(const std::string& why) const {
  std::vector<int> ranks = {0};
  try {
    ranks = within(roll_call + slack, [this] { return call_roll(); }).value_or(ranks);
  } catch (const std::exception&) {  // the store has gone with rank 0
  }
  std::erase(ranks, place.rank);
  throw LostContact(str("lost contact with ", ranks.empty() ? str("another rank (", why, ")") : list(ranks)));
}

Ranks join_ranks(double timeout) {
  const RankPlace place = find_rank_place();
  if (place.rank > 0) log_errors_alone(str("rank ", place.rank, ": "));
  return {place, milliseconds(static_cast<std::int64_t>(1000 * timeout))};
}

Ranks::Ranks(const RankPlace& place, milliseconds timeout) : place_(place) {
  if (place.is_alone()) return;
  std::signal(SIGPIPE, SIG_IGN);  // gloo writes to ranks that are gone
  // c10d tells of each connection that fails, with its stack; we do so in a line.
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  group_ = std::make_shared<Group>();
  group_->place = place;
  group_->timeout = timeout;
  group_->store = open_store(place, timeout);
  try {
    const auto joined = within(2 * timeout + slack, [group = group_] { return group->join_others(), true; });
    if (!joined) group_->report_loss("it does not answer");
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    group_->report_loss(first_line(error));
  }
}

std::string Ranks::name_of(int rank) const { return is_alone() ? "this process" : group_->name_of(rank); }

Transfer Ranks::exchange(at::Tensor out, std::vector<std::int64_t> counts_out, at::Tensor in,
                         std::vector<std::int64_t> counts_in) const {
  auto work = group_->gloo->alltoall_base(out, in, counts_out, counts_in);
  return [group = group_, work = std::move(work), out, in] { group->wait(work); };
}

void Ranks::add(std::span<double> numbers) const {
  if (is_alone() || numbers.empty()) return;
  std::vector<at::Tensor> tensors = {
      at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble)};
  group_->wait(group_->gloo->allreduce(tensors));
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

void Ranks::first_alone(const std::function<void()>& work) const {
  if (is_alone()) return work();
  if (!is_first()) {
    Beat beat = Beat::at_work;
    while (beat == Beat::at_work) beat = group_->beat(beat);
    if (beat == Beat::done) return;
    const std::string told = gather("").front();
    const std::size_t end = told.find(' ');
    const auto kind = static_cast<ErrorKind>(whole_number(told.substr(0, end)).value_or(1));
    throw Error(kind, str(name_of(0), " could not go on: ", told.substr(end + 1)));
  }
  std::mutex mutex;
  std::condition_variable ended;
  bool is_done = false;
  std::exception_ptr lost;
  std::thread heart([&] {
    std::unique_lock lock(mutex);
    try {
      while (!ended.wait_for(lock, group_->timeout / beats_per_timeout, [&] { return is_done; })) {
        group_->beat(Beat::at_work);
      }
    } catch (...) {
      lost = std::current_exception();
    }
  });
  std::exception_ptr thrown;
  std::string why = str(static_cast<int>(ErrorKind::environment), " it was stopped");
  try {
    work();
  } catch (const Error& error) {
    thrown = std::current_exception();
    why = str(static_cast<int>(error.kind()), " ", error.message());
  } catch (...) {
    thrown = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    is_done = true;
  }
  ended.notify_one();
  heart.join();
  if (!lost) group_->beat(thrown ? Beat::failed : Beat::done);
  if (thrown) {
    if (!lost) gather(why);
    std::rethrow_exception(thrown);
  }
  if (lost) std::rethrow_exception(lost);
}

void Ranks::first_then_others(const std::function<void()>& work) const {
  first_alone(work);
  if (is_alone()) return;
  std::exception_ptr thrown;
  std::string why;
  try {
    if (!is_first()) work();
  } catch (const Error& error) {
    thrown = std::current_exception();
    why = str(static_cast<int>(error.kind()), " ", error.message());
  }
  const std::vector<std::string> all = gather(why);
  if (thrown) std::rethrow_exception(thrown);
  for (int rank = 0; rank < count(); ++rank) {
    const std::string& told = all[static_cast<std::size_t>(rank)];
    if (told.empty()) continue;
    const std::size_t end = told.find(' ');
    const auto kind = static_cast<ErrorKind>(whole_number(told.substr(0, end)).value_or(1));
    throw Error(kind, str(name_of(rank), " could not go on: ", told.substr(end + 1)));
  }
}

}  // namespace inkling
