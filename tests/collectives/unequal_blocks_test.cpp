// SPDX-License-Identifier: Apache-2.0
// Pieces between any ranks, blocks of any sizes for each of them, several buffers as one: random,
// against serial loops. For one block for each rank see unequal_shares_test.cpp.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace unequal_blocks_test { namespace {

using blink::collective;
using blink_test::below;
using blink_test::input_element;

template <class Ranks>
class unequal_blocks : public testing::Test {
 protected:
  static blink::communicator_options options(std::mt19937_64& random) {
    blink::communicator_options result;
    result.window = 1 + static_cast<std::uint32_t>(random() % 3);
    result.slot_bytes = 64 + random() % 400;
    result.streaming_bytes = random() % 4 == 0 ? 0 : result.streaming_bytes;
    result.measured_bytes = random() % 2 == 0 ? 0 : result.measured_bytes;
    return result;
  }
  static std::size_t end_of(std::vector<blink::block> const& blocks) {
    std::size_t end = 0;
    for (auto const& one : blocks) end = std::max(end, one.begin + one.count);
    return end;
  }
  // By the blocking call, or started, with progress by the caller or by a thread.
  template <class Comm, class Call, class Make>
  static void run(Comm& comm, std::uint64_t seed, Call const& call, Make const& make) {
    if (seed % 3 == 0) return call();
    blink::call_queue queue(comm,
                            seed % 3 == 1 ? blink::progress::in_waits : blink::progress::thread);
    auto started = queue.start(make(queue));
    while (!started.test()) std::this_thread::yield();
  }
  template <class Call>
  static std::string refusal(Call const& call) {
    try {
      call();
    } catch (blink::precondition_error const& error) {
      return error.what();
    }
    return "no refusal";
  }
};
using rank_owners =
    testing::Types<blink::thread_ranks, blink::basic_thread_ranks<blink::slot_transport>>;
TYPED_TEST_SUITE(unequal_blocks, rank_owners);

constexpr int untouched = -77;

TYPED_TEST(unequal_blocks, from_all_to_all) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 6);
    auto const n = static_cast<std::size_t>(ranks);
    TypeParam threads(ranks, this->options(random));
    auto& prepared =
        threads.prepare(blink_test::random_schedule(random, ranks, collective::all_to_all));
    bool const in_place = random() % 2 == 0;
    std::vector<std::size_t> counts(n * n);  // sender * n + receiver
    for (std::size_t from = 0; from < n; ++from) {
      for (std::size_t to = 0; to < n; ++to) {
        counts[from * n + to] = in_place && from > to ? counts[to * n + from] : random() % 100;
      }
    }
    threads.run([&](auto& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      std::vector<std::size_t> to_counts, from_counts;
      for (std::size_t peer = 0; peer < n; ++peer) {
        to_counts.push_back(counts[rank * n + peer]);
        from_counts.push_back(counts[peer * n + rank]);
      }
      auto const sends = blink::consecutive_blocks(to_counts);
      auto const receives = blink::consecutive_blocks(from_counts);
      std::vector<int> in(this->end_of(sends) + 1);
      for (std::size_t to = 0; to < n; ++to) {
        for (std::size_t k = 0; k < sends[to].count; ++k) {
          in[sends[to].begin + k] = input_element<int>(seed + to, comm.rank(), k);
        }
      }
      std::vector<int> apart(this->end_of(receives) + 1, untouched);
      auto& out = in_place ? in : apart;
      this->run(
          comm, seed,
          [&] { blink::all_to_all_v(comm, prepared, in.data(), sends, out.data(), receives); },
          [&](auto& queue) {
            return queue.make_all_to_all_v(prepared, in.data(), sends, out.data(), receives);
          });
      for (std::size_t from = 0; from < n; ++from) {
        for (std::size_t k = 0; k < receives[from].count; ++k) {
          ASSERT_EQ(out[receives[from].begin + k],
                    input_element<int>(seed + rank, static_cast<int>(from), k));
        }
      }
      if (!in_place) {
        EXPECT_EQ(apart.back(), untouched);
      }
    });
  }
}

// Every rank lists its pieces in a different order; no order can deadlock.
TYPED_TEST(unequal_blocks, exchanged_in_any_order) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 5);
    TypeParam threads(ranks, this->options(random));
    auto& prepared =
        threads.prepare(blink_test::random_schedule(random, ranks, collective::all_to_all));
    struct planned {
      int from, to, number;
      std::size_t count;
    };
    std::vector<planned> all;
    for (std::uint64_t piece = random() % 12; piece > 0; --piece) {
      all.push_back({below(random, ranks), below(random, ranks), static_cast<int>(piece),
                     random() % 5 == 0 ? 0 : random() % 150});
    }
    threads.run([&](auto& comm) {
      std::mt19937_64 own(seed * 7 + static_cast<std::uint64_t>(comm.rank()));
      std::vector<std::vector<double>> sent(all.size()), received(all.size());
      blink::transfers list;
      bool const receives_first = own() % 2 == 0;
      for (bool const receives : {receives_first, !receives_first}) {
        for (std::size_t k = 0; k < all.size(); ++k) {  // the order matters between two ranks only
          auto const& one = all[k];
          if (receives && one.to == comm.rank()) {
            received[k].resize(one.count);
            list.receive(one.from, received[k].data(), one.count);
          }
          if (!receives && one.from == comm.rank()) {
            for (std::size_t i = 0; i < one.count; ++i) {
              sent[k].push_back(one.number + static_cast<double>(i) / 1024);
            }
            list.send(one.to, sent[k].data(), one.count);
          }
        }
      }
      this->run(
          comm, seed, [&] { blink::exchange(comm, prepared, list); },
          [&](auto& queue) {
            auto call = queue.make_exchange(prepared, list);
            list.clear();  // the call no longer needs it
            return call;
          });
      for (std::size_t k = 0; k < all.size(); ++k) {
        for (std::size_t i = 0; i < received[k].size(); ++i) {
          ASSERT_EQ(received[k][i], all[k].number + static_cast<double>(i) / 1024);
        }
      }
    });
  }
}

TYPED_TEST(unequal_blocks, buffers_in_groups) {
  for (std::uint64_t seed = 0; seed < 44; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 4);
    auto const kind = static_cast<collective>(seed % (blink::collective_names.size() - 1));
    if (kind == collective::send_to_next && ranks == 1) continue;
    TypeParam threads(ranks, this->options(random));
    auto& prepared = threads.prepare(blink_test::random_schedule(random, ranks, kind));
    std::vector<blink_test::collective_case> cases;
    for (std::uint64_t part = random() % 6; part > 0; --part) {
      cases.push_back({kind, random() % 300, random() % 2 == 0, 0, seed * 100 + part});
    }
    threads.run([&](auto& comm) {
      std::vector<blink_test::rank_buffers<std::int32_t>> buffers;
      buffers.reserve(cases.size());
      std::vector<blink::buffer_part<std::int32_t>> parts;
      for (auto const& what : cases) {
        auto& mine = buffers.emplace_back(what, ranks, comm.rank());
        parts.push_back({mine.input, mine.output, what.count});
      }
      auto const run = [&](auto const& reduce) {
        this->run(
            comm, seed / 11, [&] { blink::grouped(comm, prepared, kind, parts, reduce, 1600); },
            [&](auto& queue) { return queue.make_grouped(prepared, kind, parts, reduce, 1600); });
      };
      if (blink::has_reduce_phase(kind)) {
        run(blink::sum{});
      } else {
        run(blink::detail::no_reducer{});
      }
      for (std::size_t k = 0; k < cases.size(); ++k) {
        EXPECT_EQ(blink_test::what_is_wrong(cases[k], prepared.source(), buffers[k], blink::sum{}),
                  "")
            << k;
      }
    });
  }
}

TYPED_TEST(unequal_blocks, mistakes_are_reported_and_the_next_call_works) {
  TypeParam threads(3);
  auto& star = threads.prepare(blink::star_schedule(3));
  auto& flows = threads.prepare(blink::all_to_all_schedule(3));
  threads.run([&](auto& comm) {
    auto const names = [](std::string const& text, std::string const& part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    std::vector<int> in(100), out(100);
    int const* const from = in.data();
    int* const nothing = nullptr;
    std::vector<blink::block> const blocks{{0, 10}, {10, 10}, {20, 10}};
    if (comm.rank() == 1) {  // known to this rank only
      names(this->refusal([&] { blink::all_gather_v(comm, star, from, out.data(), {{0, 1}}); }),
            "1 blocks, expected one for each of 3 ranks");
      names(this->refusal([&] {
        blink::all_gather_v(comm, star, from, out.data(), {{0, 10}, {9, 10}, {20, 1}});
      }),
            "blocks of ranks 0 and 1 overlap");
      names(this->refusal([&] {
        blink::all_gather_v(comm, star, from, out.data(), {{0, 10}, {SIZE_MAX / 2, 10}, {20, 1}});
      }),
            "the block of rank 1 has more bytes");
      names(this->refusal([&] { blink::all_gather_v(comm, star, from, nothing, blocks); }),
            "the output is null");
      names(this->refusal([&] { blink::all_gather_v(comm, star, from, in.data() + 1, blocks); }),
            "overlap");
      names(this->refusal([&] { blink::all_gather_v(comm, flows, from, out.data(), blocks); }),
            "all_gather");
      names(
          this->refusal([&] { blink::all_to_all_v(comm, star, from, blocks, out.data(), blocks); }),
          "all_to_all");
      blink::transfers list;
      list.send(3, from, 1);
      names(this->refusal([&] { blink::exchange(comm, flows, list); }), "sends to rank 3 of 3");
      list.clear();
      list.receive(0, nothing, 1);
      names(this->refusal([&] { blink::exchange(comm, flows, list); }), "a piece is null");
      list.clear();
      list.receive(0, in.data(), 4);
      list.send(2, from + 3, 4);
      names(this->refusal([&] { blink::exchange(comm, flows, list); }), "overlaps another piece");
      names(this->refusal([&] { list.send(0, from, SIZE_MAX / 4); }), "overflows an address");
      auto const overlaps = [&](int const* input, int* output) {
        std::vector<blink::buffer_part<int>> parts{{from, out.data(), 8}, {input, output, 8}};
        names(this->refusal([&] {
          blink::grouped(comm, star, blink::collective::all_reduce, parts, blink::sum{});
        }),
              "the output of a part overlaps another part");
      };
      overlaps(from + 50, out.data() + 4);        // two results in one place
      overlaps(out.data() + 7, out.data() + 20);  // a reduced buffer is also a result
      overlaps(out.data() + 20, in.data() + 4);   // a result in a reduced buffer
      overlaps(out.data() + 4, out.data() + 4);   // in place, but shifted
    }
    // Parts may share buffers that they only read, and lie in place beside each other.
    blink::grouped(comm, star, blink::collective::all_reduce,
                   std::vector<blink::buffer_part<int>>{{from, out.data(), 8},
                                                        {from + 4, out.data() + 8, 8},
                                                        {out.data() + 16, out.data() + 16, 8}},
                   blink::sum{});
    // Only both ends together know it: all ranks report it, and no data is lost.
    auto wanted = blocks;
    if (comm.rank() == 2) wanted[0].count = 9;
    names(
        this->refusal([&] { blink::all_to_all_v(comm, flows, from, blocks, out.data(), wanted); }),
        "rank 0 sends rank 2 10, which expects 9");
    blink::transfers list;
    if (comm.rank() == 0) {
      list.send(1, from, 1);
      list.send(1, from, 2);
    }
    if (comm.rank() == 1) {
      list.receive(0, in.data(), 2);
      list.receive(0, in.data() + 2, 1);
    }
    names(this->refusal([&] { blink::exchange(comm, flows, list); }), "other pieces");
    blink::transfers typed;  // as many bytes
    if (comm.rank() == 0) typed.send(1, from, 1);
    std::vector<float> floats(1);
    if (comm.rank() == 1) typed.receive(0, floats.data(), 1);
    names(this->refusal([&] { blink::exchange(comm, flows, typed); }), "of other types");
    blink::all_to_all_v(comm, flows, from, blocks, out.data(), blocks);
  });
}

/// Both ranks of a communicator make mismatched calls. Returns the number of ranks that report
/// "sizes of blocks".
template <class Ranks, class Call>
int reported_of_other_sizes(Call const& call) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(20);
  Ranks threads(2, options);
  int reported = 0;
  std::mutex mutex;
  EXPECT_THROW(threads.run([&](auto& comm) {
    try {
      call(comm);
    } catch (blink::collective_error const& error) {
      std::lock_guard const lock(mutex);
      reported += std::string(error.what()).find("sizes of blocks") != std::string::npos ? 1 : 0;
      throw;
    }
  }),
               blink::collective_error);
  return reported;
}

TYPED_TEST(unequal_blocks, other_blocks_are_reported_by_all) {
  EXPECT_EQ(2, reported_of_other_sizes<TypeParam>([](auto& comm) {
              std::vector<int> in(10), out(10);
              std::vector<blink::block> blocks{{0, 5}, {5, 5}};
              if (comm.rank() == 1) blocks = {{0, 4}, {4, 6}};
              blink::all_gather_v(comm, blink::star_schedule(2), static_cast<int const*>(in.data()),
                                  out.data(), blocks);
            }));
}

TYPED_TEST(unequal_blocks, parts_of_a_group_in_another_order_are_reported_by_all) {
  EXPECT_EQ(2, reported_of_other_sizes<TypeParam>([](auto& comm) {
              std::vector<int> few(40), more(60);
              std::vector<blink::buffer_part<int>> parts{{few.data(), few.data(), few.size()},
                                                         {more.data(), more.data(), more.size()}};
              if (comm.rank() == 1) std::swap(parts[0], parts[1]);
              auto& prepared = comm.prepare(blink::star_schedule(2));
              blink::grouped(comm, prepared, blink::collective::all_reduce, parts, blink::sum{});
            }));
}

}}  // namespace unequal_blocks_test
