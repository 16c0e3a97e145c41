// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random sends and receives between all ranks. Every rank derives the same plan from a seed and
// checks what it receives: contents, sizes, and the order in which messages match receives.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>

#include "expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink_test {

/// Messages of a seed. Each belongs to one class of receives at its destination: receives of equal
/// source and tag, as many as there are messages.
class message_traffic {
 public:
  struct message {
    int source, destination, tag;
    std::size_t bytes;
    int receive_source, receive_tag;  // of its class
  };

  message_traffic(int ranks, std::size_t messages, std::size_t most_bytes, std::uint64_t seed)
      : seed_(seed) {
    std::mt19937_64 random(seed);
    auto const below = [&](std::size_t end) { return static_cast<int>(random() % end); };
    std::vector<bool> takes_all, takes_any_tag;  // by destination; by destination and source
    for (int rank = 0; rank < ranks; ++rank) takes_all.push_back(below(4) == 0);
    for (int pair = 0; pair < ranks * ranks; ++pair) takes_any_tag.push_back(below(3) == 0);
    for (std::size_t k = 0; k < messages; ++k) {
      int const from = below(static_cast<std::size_t>(ranks));
      int const to = below(static_cast<std::size_t>(ranks));
      std::size_t const limits[] = {64, 3000, 70'000, most_bytes};
      auto const kind = std::min(below(16) / 5, 3);
      std::size_t const bytes = random() % (std::min(limits[kind], most_bytes) + 1);
      message one{from, to, below(2), bytes, from, 0};
      one.receive_tag = one.tag;
      if (takes_all[static_cast<std::size_t>(to)]) {
        one.receive_source = blink::any_source;
        one.receive_tag = blink::any_tag;
      } else if (takes_any_tag[static_cast<std::size_t>(to * ranks + from)]) {
        one.tag = 10 + below(5);
        one.receive_tag = blink::any_tag;
      } else if (below(2) == 0) {
        one.tag = one.receive_tag = 100 + below(2);
        one.receive_source = blink::any_source;
      }
      messages_.push_back(one);
    }
  }

  /// Sends and receives all messages of this rank. Returns the first fault; empty: there is none.
  template <class Comm>
  [[nodiscard]] std::string run(Comm& comm) const {
    int const rank = comm.rank();
    std::mt19937_64 random(seed_ * 1000 + static_cast<std::uint64_t>(rank));
    std::vector<receive> receives;
    for (auto const& one : messages_) {
      if (one.destination == rank)
        receives.push_back({one.receive_source, one.receive_tag, {}, {}});
    }
    std::shuffle(receives.begin(), receives.end(), random);
    std::map<std::pair<int, int>, std::size_t> most;  // bytes by class
    for (auto const& one : messages_) {
      auto& bytes = most[{one.receive_source, one.receive_tag}];
      if (one.destination == rank) bytes = std::max(bytes, one.bytes);
    }
    std::vector<std::vector<unsigned char>> sent;
    std::vector<blink::started_send> sends;
    sends.reserve(messages_.size());
    std::size_t next_send = 0, next_receive = 0;
    while (next_send < messages_.size() || next_receive < receives.size()) {
      if (next_send < messages_.size() && (random() % 2 == 0 || next_receive == receives.size())) {
        auto const number = next_send++;
        auto const& one = messages_[number];
        if (one.source != rank) continue;
        auto const& data = sent.emplace_back(content(number));
        if (random() % 3 == 0) {
          blink::send(comm, one.destination, data.data(), data.size(), one.tag);
        } else {
          sends.push_back(
              blink::start_send(comm, one.destination, data.data(), data.size(), one.tag));
        }
      } else if (next_receive < receives.size()) {
        auto& one = receives[next_receive++];
        std::size_t const room = most[{one.source, one.tag}] + random() % 3;
        one.buffer.assign(room + guard, mark);
        one.started = blink::start_receive(comm, one.source, one.buffer.data(), room, one.tag);
      }
      if (next_receive > 0 && random() % 4 == 0) {
        static_cast<void>(receives[random() % next_receive].started.test());
      }
      if (!sends.empty() && random() % 4 == 0) {
        static_cast<void>(sends[random() % sends.size()].test());
      }
    }
    std::vector<std::size_t> order(receives.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t const k : order) static_cast<void>(receives[k].started.wait());
    for (auto& one : sends) one.wait();
    return fault_of(rank, receives);
  }

 private:
  static constexpr std::size_t guard = 8;
  static constexpr unsigned char mark = 0xa5;

  struct receive {
    int source, tag;
    std::vector<unsigned char> buffer;
    blink::started_receive started;
  };

  [[nodiscard]] std::vector<unsigned char> content(std::size_t number) const {
    std::vector<unsigned char> result(messages_[number].bytes);
    std::uint64_t state = seed_ * 77 + number;
    for (auto& byte : result) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<unsigned char>(state >> 56);
    }
    return result;
  }
  // All messages of a class match all of its receives. So those of one source are in the order of
  // their sends where the receives are in the order of their starts.
  [[nodiscard]] std::string fault_of(int rank, std::vector<receive>& receives) const {
    struct key {
      int receive_source, receive_tag, source;
      auto operator<=>(key const&) const = default;
    };
    std::map<key, std::vector<std::size_t>> expected;
    for (std::size_t k = messages_.size(); k-- > 0;) {
      auto const& one = messages_[k];
      if (one.destination == rank)
        expected[{one.receive_source, one.receive_tag, one.source}].push_back(k);
    }
    for (auto& one : receives) {
      auto const got = one.started.wait();
      auto const where = "rank " + std::to_string(rank) + ", from rank " +
                         std::to_string(got.source) + ", tag " + std::to_string(got.tag) + ": ";
      auto& rest = expected[{one.source, one.tag, got.source}];
      if (rest.empty()) return where + "one message too many";
      auto const number = rest.back();
      rest.pop_back();
      auto const& sent = messages_[number];
      if (got.tag != sent.tag) return where + "expected tag " + std::to_string(sent.tag);
      if (got.bytes != sent.bytes) {
        return where + std::to_string(got.bytes) + " bytes, expected " + std::to_string(sent.bytes);
      }
      auto const data = content(number);
      if (!std::equal(data.begin(), data.end(), one.buffer.begin())) return where + "other bytes";
      for (auto byte = one.buffer.begin() + static_cast<std::ptrdiff_t>(got.bytes);
           byte != one.buffer.end(); ++byte) {
        if (*byte != mark) return where + "bytes behind the message were written";
      }
    }
    return {};
  }

  std::uint64_t seed_;
  std::vector<message> messages_;
};

/// Returns the cause of a message_error of a call, and checks a part of its text.
template <class Call>
blink::message_error::cause cause_of(Call const& call, std::string const& part) {
  try {
    call();
  } catch (blink::message_error const& failure) {
    EXPECT_SAYS(failure.what(), part);
    return failure.why;
  }
  ADD_FAILURE() << "no message_error, expected: " << part;
  return {};
}

/// Threads of each of three ranks exchange messages with tags of their own, while the rank calls
/// collectives. Returns the first fault; empty: there is none.
///
/// most: elements of every fifth message; the others are short
template <class Comm>
[[nodiscard]] std::string exchange_beside_collectives(Comm& comm, int threads, int rounds,
                                                      std::size_t most) {
  int const rank = comm.rank();
  std::vector<std::string> faults(static_cast<std::size_t>(threads) + 1);
  std::vector<std::thread> all;
  for (int tag = 0; tag < threads; ++tag) {
    all.emplace_back([&, tag] {
      auto& fault = faults[static_cast<std::size_t>(tag)];
      try {
        std::vector<int> data(most), got(most);
        for (int round = 0; round < rounds && fault.empty(); ++round) {
          auto const count = round % 5 == 0 ? most : static_cast<std::size_t>(1 + round % 700);
          int const to = (rank + 1 + round % 3) % 3, from = (rank + 5 - round % 3) % 3;
          std::fill(data.begin(), data.end(), 1000 * rank + round);
          auto incoming = blink::start_receive(comm, tag == 0 ? blink::any_source : from,
                                               got.data(), most, tag + 10 * (round % 3));
          blink::send(comm, to, data.data(), count, tag + 10 * (round % 3));
          auto const message = incoming.wait();
          auto const end = got.begin() + static_cast<std::ptrdiff_t>(count);
          if (message.source != from)
            fault = "a message from rank " + std::to_string(message.source);
          if (message.bytes != count * sizeof(int))
            fault = std::to_string(message.bytes) + " bytes";
          if (std::count(got.begin(), end, 1000 * from + round) != end - got.begin()) {
            fault = "other contents in round " + std::to_string(round);
          }
        }
      } catch (std::exception const& failure) {
        fault = failure.what();
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> data(1 + static_cast<std::size_t>(round) % 3 * 5000, rank + round);
    blink::all_reduce(comm, data);
    if (data.back() != 3 + 3 * round) faults.back() = "another sum";
    if (round % 10 == 0) blink::barrier(comm);
  }
  for (auto& one : all) one.join();
  auto const first = std::find_if(faults.begin(), faults.end(),
                                  [](std::string const& fault) { return !fault.empty(); });
  return first == faults.end() ? "" : *first;
}

}  // namespace blink_test
