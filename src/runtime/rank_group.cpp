#include "runtime/rank_group.h"

#include <ATen/ops/full.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <future>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"

namespace inkling {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds between_looks{20}, slack{500}, last_words{1000}, longest_farewell{10'000};
constexpr int beats_per_timeout = 4;

// What ranks send each other beside their work: that they are there, that they end by themselves, as they should or
// by an error, or, as the number of a rank and this, whom they have lost.
constexpr std::int64_t beat = 0, farewell = -1, failure = -2, lost_rank_0 = 1;

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

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

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

// A rank as a person knows it: "rank 2 (host, process 4711)".
std::string rank_name(int rank, const std::vector<std::string>& names) {
  const auto i = static_cast<std::size_t>(rank);
  return str("rank ", rank, i < names.size() ? str(" (", names[i], ")") : "");
}

// Returns the ranks that have not given their name by then.
std::vector<int> absent(c10d::Store& store, int ranks, Clock::time_point until) {
  std::vector<int> left(static_cast<std::size_t>(ranks));
  std::iota(left.begin(), left.end(), 0);
  while (true) {
    std::erase_if(left, [&](int rank) { return store.check({str("name/", rank)}); });
    if (left.empty() || Clock::now() >= until) return left;
    std::this_thread::sleep_for(between_looks);
  }
}

struct Met {
  std::vector<std::string> names;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> work, pulse;
};

Met meet(const RankPlace& place, milliseconds timeout, const c10::intrusive_ptr<c10d::Store>& store) {
  std::string address = address_towards(place.address, place.port);
  store->set(str("address/", place.rank), bytes_of(address));
  store->set(str("name/", place.rank), bytes_of(this_process()));
  if (const std::vector<int> missing = absent(*store, place.ranks, Clock::now() + timeout); !missing.empty()) {
    std::vector<std::string> names;
    for (const int rank : missing) names.push_back(rank_name(rank, {}));
    throw Error::environment(str(join(names, ", "), missing.size() == 1 ? " of " : ": of ", place.ranks,
                                 missing.size() == 1 ? " has not come within " : " ranks these have not come within ",
                                 seconds_of(timeout), " (ranks.timeout); see what that process has said, or ",
                                 "start as many as ", place.ranks));
  }
  const auto said = [&](const char* what, int rank) {
    const std::vector<std::uint8_t> text = store->get(str(what, rank));
    return std::string(text.begin(), text.end());
  };
  Met met;
  for (int rank = 0; rank < place.ranks; ++rank) {
    met.names.push_back(said("name/", rank));
    // What rank 0 calls itself may be a loopback address on its own machine: others tell where they are reached.
    const std::string other = said("address/", rank);
    if (is_loopback(address) && !other.empty() && !is_loopback(other)) address = address_towards(other, place.port);
  }
  const auto connect = [&](const char* name) {
    const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                                               : c10d::ProcessGroupGloo::createDeviceForHostname(address));
    options->threads = 1;
    return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(name, store), place.rank,
                                                       place.ranks, options);
  };
  met.work = connect("work");
  met.work->setTimeout(longest_work);
  met.pulse = connect("pulse");
  return met;
}

}  // namespace

Ranks::Group::Group(const RankPlace& where, milliseconds longest_silence)
    : place(where), timeout(longest_silence), store(open_store(where, longest_silence)) {
  std::string why = "it does not answer";
  std::optional<Met> met;
  try {
    met = within(2 * timeout + slack,
                 [place = place, timeout = timeout, store = store] { return meet(place, timeout, store); });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    why = first_line(error);
  }
  if (!met) throw Error::environment(str("rank ", place.rank, " has lost another one while they met: ", why));
  names = std::move(met->names);
  work = std::move(met->work);
  pulse = std::move(met->pulse);
  heard_.resize(names.size());
  heard_at_.assign(names.size(), Clock::now());
  heart_ = std::thread([this] { send_beats(); });
  for (int rank = 0; rank < place.ranks; ++rank) {
    if (rank != place.rank) listeners_.emplace_back([this, rank] { listen(rank); });
  }
}

Ranks::Group::~Group() {
  std::unique_lock lock(mutex_);
  is_leaving_ = true;
  changed_.notify_all();
  lock.unlock();
  heart_.join();
  send(std::uncaught_exceptions() > 0 ? failure : farewell, last_words);
  lock.lock();
  // The store of rank 0 goes with it, and the others may still read there why it ends.
  const auto all_gone = [&] { return std::ssize(gone_) == place.ranks - 1; };
  if (place.rank == 0 && !place.has_store) changed_.wait_for(lock, last_words, all_gone);
  is_deaf_ = true;
  for (const auto& word : heard_) {
    if (word) word->abort();
  }
  lock.unlock();
  for (std::thread& listener : listeners_) listener.join();
}

std::string Ranks::Group::name_of(int rank) const { return rank_name(rank, names); }

void Ranks::Group::note(std::string where) {
  const std::lock_guard lock(mutex_);
  whereabouts_ = std::move(where);
}

// What is sent to a rank that no longer listens stays on its way, even when that rank is gone.
void Ranks::Group::send(std::int64_t word, milliseconds longest) const {
  std::vector<at::Tensor> words = {at::full({1}, word, at::kLong)};
  std::vector<c10::intrusive_ptr<c10d::Work>> sent;
  const auto until = Clock::now() + longest;
  const auto try_to = [](const auto& act) {
    try {
      act();
    } catch (const std::exception&) {  // who listens to that rank notices
    }
  };
  for (int rank = 0; rank < place.ranks; ++rank) {
    if (rank != place.rank) try_to([&] { sent.push_back(pulse->send(words, rank, 0)); });
  }
  for (const auto& to_rank : sent) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    try_to([&] { to_rank->wait(std::max(left, milliseconds(1))); });
  }
}

void Ranks::Group::send_beats() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, timeout / beats_per_timeout, [&] { return is_leaving_; })) {
    lock.unlock();
    send(beat, timeout);
    lock.lock();
  }
}

void Ranks::Group::listen(int rank) {
  for (std::int64_t said = beat; said >= beat;) {
    std::vector<at::Tensor> words = {at::full({1}, beat, at::kLong)};
    bool is_cut = false;
    std::unique_lock lock(mutex_);
    if (is_deaf_) return;
    try {
      const auto word = heard_[static_cast<std::size_t>(rank)] = pulse->recv(words, rank, 0);
      lock.unlock();
      if (!word->wait(timeout)) return;  // we are leaving
      said = words[0].item<std::int64_t>();
    } catch (const std::exception&) {
      said = lost_rank_0 + rank;
      is_cut = true;
    }
    if (!lock) lock.lock();
    if (said >= lost_rank_0 && is_leaving_) return;
    if (said >= lost_rank_0) end_without(is_cut ? silent_rank(rank) : static_cast<int>(said - lost_rank_0));
    heard_at_[static_cast<std::size_t>(rank)] = Clock::now();
    if (said == beat) continue;
    heard_at_[static_cast<std::size_t>(rank)] = Clock::time_point::max();
    gone_.push_back(rank);
    changed_.notify_all();
    // What it did not come to, this rank may wait for on its GPU, where nothing else ends that.
    const auto longest = std::min(timeout, longest_farewell);
    if (said == failure && !changed_.wait_for(lock, longest, [&] { return is_leaving_; })) end_without(rank);
  }
}

// Returns the rank that is to blame for a connection that is closed. Gloo closes all of them when one is silent.
int Ranks::Group::silent_rank(int rank) const {
  auto heard = heard_at_;
  heard[static_cast<std::size_t>(place.rank)] = Clock::time_point::max();
  const auto longest = std::min_element(heard.begin(), heard.end());
  return Clock::now() - *longest > timeout / 2 ? static_cast<int>(longest - heard.begin()) : rank;
}

// To be called with the mutex held, so that one thread does it.
void Ranks::Group::end_without(int rank) {
  send(lost_rank_0 + rank, last_words / 4);
  const std::string message = str("lost contact with ", name_of(rank), whereabouts_);
  log_error(message);
  tell_launcher(message);
  std::_Exit(static_cast<int>(ErrorKind::environment));
}

void Ranks::Group::wait(const c10::intrusive_ptr<c10d::Work>& done) {
  try {
    done->wait();
  } catch (const std::exception& error) {  // a thread hears who is gone
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return !gone_.empty(); });
    if (!gone_.empty()) end_without(gone_.front());
    throw Error::environment(str("the ranks do not reach each other: ", first_line(error)));
  }
}

void Ranks::Group::say(const std::string& key, std::string_view word) const { store->set(key, bytes_of(word)); }

std::string Ranks::Group::await_word(const std::string& key) {
  while (true) {
    try {
      const std::vector<std::uint8_t> word = store->get(key);
      return {word.begin(), word.end()};
    } catch (const std::exception&) {  // it has not said it yet; or the store has gone with it
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, between_looks, [&] { return !gone_.empty(); });
      const bool has_gone = std::find(gone_.begin(), gone_.end(), 0) != gone_.end();
      if (has_gone) end_without(0);
    }
  }
}

}  // namespace inkling
