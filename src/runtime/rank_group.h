// How ranks meet, and how each knows that the others are there. Only ranks.cpp and rank_group.cpp include it, because
// it includes c10d.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/rank_place.h"
#include "runtime/ranks.h"

namespace inkling {

// Of ranks that are there and do not come to an exchange.
inline constexpr std::chrono::minutes longest_work{30};

// Two groups over gloo: one for the work, and one in which each rank tells each other four times per timeout that it is
// there. A thread listens to each other rank, so that a rank that is gone is noticed at once, and a silent one after
// the timeout, whatever this one is doing.
struct Ranks::Group {
  using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

  const RankPlace place;
  const std::chrono::milliseconds timeout;
  c10::intrusive_ptr<c10d::Store> store;
  Gloo work, pulse;
  GpuGroup gpus;                   // where they have met there
  std::vector<std::string> names;  // of the ranks' processes
  int times_alone = 0;             // first_alone() was called

  // Returns when all are there. Throws what the constructor of Ranks throws.
  Group(const RankPlace& where, std::chrono::milliseconds longest_silence);
  ~Group();  // takes leave
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::string name_of(int rank) const;
  void note(std::string where);

  // Waits for what c10d does. Ends the process where another rank has gone meanwhile.
  void wait(const c10::intrusive_ptr<c10d::Work>& done);
  // Says it in the store, in rank 0.
  void say(const std::string& key, std::string_view word) const;
  // Returns what rank 0 says there, however long that takes.
  std::string await_word(const std::string& key);

 private:
  void send(std::int64_t word, std::chrono::milliseconds longest) const;
  void send_beats();
  void listen(int rank);
  int silent_rank(int rank) const;
  [[noreturn]] void end_without(int rank);

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::string whereabouts_;
  bool is_leaving_ = false, is_deaf_ = false;                    // nobody listens any more
  std::vector<c10::intrusive_ptr<c10d::Work>> heard_;            // from each rank, what is waited for
  std::vector<std::chrono::steady_clock::time_point> heard_at_;  // when each was last heard
  std::vector<int> gone_;                                        // ranks that have taken leave, the first in front
  std::thread heart_;                                            // sends beats
  std::vector<std::thread> listeners_;
};

}  // namespace inkling
