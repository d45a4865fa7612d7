// Ranks as threads of one process, which hand each other parts of an arena.
#include "train/exchange.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "optim/optimizer.h"
#include "tests/oracle/tensors.h"
#include "train/leaves.h"

namespace inkling {
namespace {

using namespace std::chrono_literals;

std::uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(probe);
  return ntohs(address.sin_port);
}

// Calls `of_rank` in a thread for each rank; throws what the first of them threw.
void as_ranks(int count, const std::function<void(const Ranks&)>& of_rank) {
  const std::uint16_t port = free_port();
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        of_rank(Ranks({.rank = rank, .ranks = count, .address = "127.0.0.1", .port = port}, 20s));
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
}

// Three matrices of different sizes, tables longer than a chunk, and vectors.
ParameterLayout layout() {
  using Group = ParameterGroup;
  return ParameterLayout({{"table", {1700, 1000}, Group::embedding},
                          {"one", {100, 300}, Group::matrix},
                          {"two", {300, 700}, Group::matrix},
                          {"three", {90, 90}, Group::matrix},
                          {"bias", {7}, Group::vector}});
}

OptimizerConfig muon() {
  OptimizerConfig config;
  config.name = OptimizerName::muon;
  return config;
}

at::Tensor gradients_of(int rank) { return oracle::normal(static_cast<std::uint64_t>(rank) + 1, {layout().size()}); }

// Added up in the tree of a batch's leaves.
at::Tensor sum_of(int first, int end) {
  const LeafSum all = {first, end};
  if (all.count() == 1) return gradients_of(first);
  const LeafSum one = {first, first + LeafSum{0, end - first}.first().end};
  return sum_of(first, static_cast<int>(one.end)) + sum_of(static_cast<int>(one.end), end);
}

TEST(RankExchange, AddsUpInTheOrderOfTheTreeAndHandsRound) {
  for (const int count : {2, 3, 5}) {
    const auto owned = divide_update(muon(), layout(), count);
    for (int senders = count; senders > 0; senders -= 2) {
      const at::Tensor expected = sum_of(0, senders);
      as_ranks(count, [&](const Ranks& ranks) {
        RankExchange exchange(ranks, layout(), owned);
        const at::Tensor flat = gradients_of(ranks.rank());
        exchange.add_up(flat, senders);
        for (const ParameterRange& range : exchange.owned().ranges) {
          EXPECT_TRUE(
              oracle::identical(flat.slice(0, range.begin, range.end), expected.slice(0, range.begin, range.end)));
        }
        exchange.hand_round(flat);
        EXPECT_TRUE(oracle::identical(flat, expected)) << count << " ranks, " << senders << " of them send";
      });
    }
  }
}

TEST(RankExchange, CollectsInRank0WhatEachKeeps) {
  const auto owned = divide_update(muon(), layout(), 3);
  as_ranks(3, [&](const Ranks& ranks) {
    const RankExchange exchange(ranks, layout(), owned);
    const at::Tensor whole = gradients_of(0);
    for (const ParameterRange& part : {ParameterRange{0, layout().size()}, ParameterRange{1'000'000, 1'900'000}}) {
      std::vector<at::Tensor> mine = {whole.slice(0, 0, 0)};
      for (const auto& [begin, end] : exchange.owned().within(part).ranges) mine.push_back(whole.slice(0, begin, end));
      const at::Tensor all = exchange.collect(at::cat(mine), part);
      ASSERT_EQ(all.defined(), ranks.is_first());
      if (all.defined()) {
        EXPECT_TRUE(oracle::identical(all, whole.slice(0, part.begin, part.end)));
      }
    }
  });
}

TEST(Ranks, AddNumbersAndGatherWhatEachSays) {
  as_ranks(3, [](const Ranks& ranks) {
    std::vector<double> numbers(3);
    numbers[static_cast<std::size_t>(ranks.rank())] = 1.0 / (ranks.rank() + 3);
    ranks.add(numbers);
    EXPECT_EQ(numbers, (std::vector<double>{1.0 / 3, 1.0 / 4, 1.0 / 5}));
    const std::string said(static_cast<std::size_t>(ranks.rank()), 'x');
    EXPECT_EQ(ranks.gather(said), (std::vector<std::string>{"", "x", "xx"}));
  });
}

TEST(Ranks, WaitForTheFirstLongerThanTheirTimeout) {
  const std::uint16_t port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([=] {
      const Ranks ranks({.rank = rank, .ranks = 2, .address = "127.0.0.1", .port = port}, 1s);
      ranks.first_alone([] { std::this_thread::sleep_for(2500ms); });
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Ranks, EndTogetherWithTheErrorOfOne) {
  for (const int broken : {0, 1}) {
    as_ranks(2, [broken](const Ranks& ranks) {
      try {
        ranks.first_then_others([&] {
          if (ranks.rank() == broken) throw Error::input("no such file");
        });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::input);
        const bool is_its_own = ranks.rank() == broken;
        EXPECT_EQ(error.message() == "no such file", is_its_own) << error.message();
        if (!is_its_own) {
          EXPECT_NE(error.message().find(" could not go on: no such file"), std::string::npos) << error.message();
        }
      }
    });
  }
}

TEST(DivideUpdate, GivesEachElementToOneRankAndEachAboutAsMany) {
  ParameterLayout tables({{"table", {5000, 1000}, ParameterGroup::embedding}});
  for (const auto& [config, parameters] :
       {std::pair(muon(), layout()), {OptimizerConfig(), layout()}, {muon(), tables}}) {
    for (const int count : {1, 2, 3, 8}) {
      const auto owned = divide_update(config, parameters, count);
      ASSERT_EQ(std::ssize(owned), count);
      const at::Tensor owners = at::zeros({parameters.size()});
      for (const ParameterRanges& of_rank : owned) {
        for (const auto& [begin, end] : of_rank.ranges) owners.slice(0, begin, end).add_(1);
        if (count <= 3) {
          EXPECT_LT(std::abs(of_rank.count() - parameters.size() / count), 2 * elements_of_block);
        }
      }
      EXPECT_TRUE(owners.eq(1).all().item<bool>());
    }
  }
}

TEST(DivideUpdate, KeepsMatricesOfMuonWholeAndTheirProductsEven) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 24; ++i) {
    specs.push_back({std::to_string(i), {64, i % 3 == 0 ? 192 : 64}, ParameterGroup::matrix});
  }
  const ParameterLayout parameters(specs);
  const auto owned = divide_update(muon(), parameters, 4);
  std::vector<std::int64_t> elements;
  for (const ParameterRanges& of_rank : owned) {
    elements.push_back(of_rank.count());
    for (const Parameter& parameter : parameters.parameters()) {
      const std::int64_t have = of_rank.within({parameter.offset, parameter.offset + parameter.count}).count();
      EXPECT_TRUE(have == 0 || have == parameter.count);
    }
  }
  EXPECT_EQ(elements, std::vector(4, parameters.size() / 4));
}

}  // namespace
}  // namespace inkling
