// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes: forked ones, and the environment by which other processes join.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/registered_memory.hpp>
#include <blink/transports/host/shared_memory_resource.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include "support/random_schedules.hpp"
#include "support/started_calls.hpp"
#include "support/unequal_case.hpp"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory_resource>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace processes_test { namespace {

using blink_test::collective_case;
using blink_test::forked_ranks;

blink::communicator_options small_slots() {
  blink::communicator_options options;
  options.slot_bytes = 512;
  options.waits.deadline = std::chrono::seconds(20);
  return options;
}

/// An array that peers can access: of the communicator, or on the heap in separate registered
/// pages.
template <class T>
class reached_array {
 public:
  template <class Ranks>
  reached_array(Ranks& comm, T const* from, std::size_t count, std::uint64_t seed) {
    if (seed % 2 == 0) {
      shared_.emplace(comm.template allocate<T>(count));
      data_ = shared_->data();
    } else {
      constexpr std::size_t page = 4096;
      heap_.resize(count * sizeof(T) + 4 * page);
      auto* at = heap_.data() + (page - reinterpret_cast<std::uintptr_t>(heap_.data()) % page);
      at += seed / 2 * alignof(T) % page;
      data_ = reinterpret_cast<T*>(at);
      registered_.emplace(comm, data_, count);
    }
    std::copy_n(from, count, data_);
  }
  [[nodiscard]] T* data() const { return data_; }

 private:
  std::optional<blink::shared_array<T>> shared_;
  std::vector<std::byte> heap_;
  std::optional<blink::registered_memory> registered_;
  T* data_ = nullptr;
};

/// One rank's part of a seeded case. Returns the fault; empty if nothing is wrong.
template <class T, class Ranks, class Reducer>
std::string run_seeded(Ranks& comm, std::uint64_t seed, Reducer const& reducer) {
  std::mt19937_64 random(seed);
  int const ranks = comm.rank_count();
  auto const kind = static_cast<blink::collective>(seed % blink::collective_names.size());
  if (kind == blink::collective::send_to_next && ranks == 1) return "";
  auto trees = blink_test::random_schedule(random, ranks, kind);
  auto const count = static_cast<std::size_t>(blink_test::below(random, 2000));
  constexpr bool is_direct = Ranks::transport_type::reaches;
  collective_case const what{kind, count, seed % 3 == 0, seed % 7, seed};
  blink_test::rank_buffers<T> mine(what, ranks, comm.rank());
  auto& prepared = comm.prepare(trees);
  auto const call = [&](T const* input, T* output) {
    blink_test::call_collective<blink::scheduled_chunks>(comm, prepared, what, input, output,
                                                         reducer);
  };
  if (is_direct && what.is_in_place) {
    if constexpr (is_direct) {
      T* const base = mine.inputs.data();
      std::size_t const elements = std::max(mine.input_count, mine.output_count);
      reached_array<T> const all(comm, base, elements, seed / 3);
      call(all.data() + (mine.input - base), all.data() + (mine.output - base));
      std::copy_n(all.data(), elements, base);
    }
  } else if constexpr (is_direct) {
    reached_array<T> const in(comm, mine.input, mine.input_count, seed / 3);
    reached_array<T> const out(comm, mine.output, mine.output_count, seed / 7);
    call(in.data(), out.data());
    std::copy_n(out.data(), mine.output_count, mine.output);
  } else {
    call(mine.input, mine.output);
  }
  auto const wrong = blink_test::what_is_wrong(what, trees, mine, reducer);
  return wrong.empty() ? "" : "seed " + std::to_string(seed) + ": " + wrong;
}

template <class Ranks>
class processes : public testing::Test {};
using rank_owners = testing::Types<blink::process_communicator, blink::direct_process_communicator,
                                   blink::shaped_process_communicator>;
TYPED_TEST_SUITE(processes, rank_owners);

TYPED_TEST(processes, random_cases_are_exact) {
  for (int const ranks : {1, 2, 3, 5}) {
    forked_ranks all(ranks);
    all.start([&](int rank) {
      TypeParam comm(all.path(), rank, small_slots());
      std::string wrong;
      for (std::uint64_t seed = 0; seed < 16; ++seed) {
        wrong += run_seeded<std::int32_t>(comm, seed * 8 + static_cast<std::uint64_t>(ranks),
                                          blink::sum{});
        wrong +=
            run_seeded<blink_test::triple>(comm, seed * 8 + 1000, blink_test::triple_reducer{});
      }
      return wrong;
    });
    for (auto const& end : all.finish()) {
      EXPECT_EQ(end.text, "");
      EXPECT_EQ(end.status, 0);
    }
  }
}

TYPED_TEST(processes, started_calls_of_every_form) {
  for (int const ranks : {2, 3}) {
    for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
      forked_ranks all(ranks);
      all.start([&](int rank) {
        TypeParam comm(all.path(), rank, small_slots());
        return blink_test::run_started_calls(comm, how, static_cast<std::uint64_t>(rank));
      });
      for (auto const& end : all.finish()) {
        EXPECT_EQ(end.text, "");
        EXPECT_EQ(end.status, 0);
      }
    }
  }
}

/// One rank's part of a seeded case with a block of any size for each rank. Returns the fault.
template <class T, class Ranks, class Reducer>
std::string run_unequal_seeded(Ranks& comm, std::uint64_t seed, Reducer const& reducer) {
  std::mt19937_64 random(seed);
  auto const [trees, what] = blink_test::random_unequal_case(random, comm.rank_count(), 1500);
  blink_test::unequal_buffers<T> mine(what, comm.rank());
  if constexpr (Ranks::transport_type::reaches) {
    std::size_t const own = what.of(comm.rank()).count;
    auto all = comm.template allocate<T>(mine.all_count);
    auto one = comm.template allocate<T>(own + 1);
    std::copy_n(mine.all.data(), mine.all_count, all.data());
    if (!what.is_in_place) std::copy_n(mine.one.data(), own, one.data());
    T* const block = what.is_in_place ? all.data() + what.of(comm.rank()).begin : one.data();
    blink_test::call_unequal(comm, comm.prepare(trees), what,
                             static_cast<T const*>(what.gathers() ? block : all.data()),
                             what.gathers() ? all.data() : block, reducer);
    std::copy_n(all.data(), mine.all_count, mine.all.data());
    if (!what.is_in_place) std::copy_n(one.data(), own, mine.one.data());
  } else {
    blink_test::call_unequal(comm, comm.prepare(trees), what, mine.input, mine.output, reducer);
  }
  auto const wrong = blink_test::what_is_wrong(what, mine, reducer);
  return wrong.empty() ? "" : "seed " + std::to_string(seed) + ": " + wrong;
}

TYPED_TEST(processes, blocks_of_unequal_sizes_are_exact) {
  for (int const ranks : {2, 4}) {
    forked_ranks all(ranks);
    all.start([&](int rank) {
      TypeParam comm(all.path(), rank, small_slots());
      std::string wrong;
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        wrong += run_unequal_seeded<std::int32_t>(comm, seed, blink::sum{});
        wrong +=
            run_unequal_seeded<blink_test::triple>(comm, seed + 100, blink_test::triple_reducer{});
      }
      return wrong;
    });
    for (auto const& end : all.finish()) {
      EXPECT_EQ(end.text, "");
      EXPECT_EQ(end.status, 0);
    }
  }
}

// The same protocol among threads with separate mappings, so that ThreadSanitizer sees all of them.
TYPED_TEST(processes, also_as_threads_of_one_process) {
  auto const segment = blink::shared_segment::create(3, std::size_t{1} << 28);
  std::vector<std::string> wrong(3);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        TypeParam comm(segment.path(), rank, small_slots());
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          wrong[static_cast<std::size_t>(rank)] +=
              run_seeded<std::int32_t>(comm, seed, blink::sum{});
        }
      });
    }
  }
  for (auto const& text : wrong) EXPECT_EQ(text, "");
}

TEST(process_communicator, prepares_a_schedule_once) {
  auto const segment = blink::shared_segment::create(2);
  blink::process_communicator comm(segment.path(), 0);
  auto& first = comm.prepare(blink::star_schedule(2));
  EXPECT_EQ(&comm.prepare(blink::star_schedule(2)), &first);
  EXPECT_NE(&comm.prepare(blink::chain_schedule(2, 0)), &first);
  EXPECT_THROW(comm.prepare(blink::star_schedule(3)), blink::precondition_error);
}

// Temporary memory of these calls also lies where peers can access it.
TEST(process_communicator, direct_ranks_exchange_pack_and_skip_zeros) {
  constexpr int ranks = 3;
  forked_ranks all(ranks, std::size_t{1} << 26);
  all.start([&](int rank) -> std::string {
    blink::direct_process_communicator comm(all.path(), rank, small_slots());
    auto const to_all = blink::all_to_all_schedule(ranks);
    auto const star = blink::star_schedule(ranks);

    auto sent = comm.allocate<int>(2 * ranks);
    auto got = comm.allocate<int>(2 * ranks);
    blink::transfers list;
    for (int peer = 0; peer < ranks; ++peer) {
      for (int half = 0; half < 2; ++half) {  // two pieces for each, which are joined
        auto const at = static_cast<std::size_t>(2 * peer + half);
        sent[at] = 100 * rank + 10 * peer + half;
        list.send(peer, sent.data() + at, 1);
        list.receive(peer, got.data() + at, 1);
      }
    }
    blink::exchange(comm, to_all, list);
    for (int peer = 0; peer < ranks; ++peer) {
      for (int half = 0; half < 2; ++half) {
        if (got[static_cast<std::size_t>(2 * peer + half)] != 100 * peer + 10 * rank + half) {
          return "exchange";
        }
      }
    }
    std::vector<int> own(2 * ranks);
    blink::transfers outside;
    outside.send(0, own.data(), 1);
    try {
      blink::exchange(comm, to_all, outside);
      return "a piece that peers do not reach was taken";
    } catch (blink::precondition_error const&) {
    }

    std::vector<blink::block> const blocks{{0, 2}, {2, 2}, {4, 2}};
    std::copy(sent.begin(), sent.end(), got.begin());
    blink::all_to_all_v(comm, to_all, got.data(), blocks, got.data(), blocks);  // in place
    for (int peer = 0; peer < ranks; ++peer) {
      if (got[static_cast<std::size_t>(2 * peer)] != 100 * peer + 10 * rank) return "all_to_all_v";
    }

    auto data = comm.allocate<float>(4096);
    data[1000] = 1;
    data[static_cast<std::size_t>(rank)] = 1;
    auto const report = blink::all_reduce_sparse(comm, comm.prepare(star), data.data(), data.size(),
                                                 64, blink::sum{});
    if (report.was_dense || report.elements != 128 || data[1000] != ranks || data[2] != 1) {
      return "all_reduce_sparse";
    }

    std::vector<blink::buffer_part<float>> parts;
    for (std::size_t k = 0; k < 4; ++k) {
      parts.push_back({data.data() + 100 * k, data.data() + 100 * k, 100});
    }
    blink::grouped(comm, star, blink::collective::all_reduce, parts, blink::sum{});
    return data[1] == ranks && data[3] == 0 ? "" : "grouped";
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

// The queue's thread allocates memory to pack data, while the caller creates and drops arrays.
TEST(process_communicator, arrays_are_made_while_calls_run) {
  constexpr std::size_t most = 1500;
  auto const segment = blink::shared_segment::create(2, std::size_t{1} << 28);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&segment, rank] {
      blink::direct_process_communicator comm(segment.path(), rank, small_slots());
      auto& star = comm.prepare(blink::star_schedule(2));
      auto a = comm.allocate<int>(most), b = comm.allocate<int>(most);
      blink::call_queue queue(comm, blink::progress::thread);
      for (std::size_t count = 10; count < most; count += 100) {
        std::fill_n(a.data(), count, 1);
        std::fill_n(b.data(), count, 2);
        auto call = queue.start(
            queue.make_grouped(star, blink::collective::all_reduce,
                               std::vector<blink::buffer_part<int>>{{a.data(), a.data(), count},
                                                                    {b.data(), b.data(), count}},
                               blink::sum{}));
        std::vector<blink::shared_array<int>> others;
        for (int k = 0; k < 6; ++k) {
          others.push_back(comm.allocate<int>(2 * count + 500));
          std::fill_n(others.back().data(), 2 * count, 77);
        }
        call.wait();
        EXPECT_EQ(std::count(a.data(), a.data() + count, 2), static_cast<std::ptrdiff_t>(count));
        EXPECT_EQ(std::count(b.data(), b.data() + count, 4), static_cast<std::ptrdiff_t>(count));
      }
    });
  }
}

// Each rank checks its own buffers, before the call touches any.
TEST(process_communicator, what_peers_do_not_reach_is_reported_when_a_call_is_made) {
  forked_ranks all(1);
  all.start([&](int rank) -> std::string {
    blink::direct_process_communicator comm(all.path(), rank, small_slots());
    auto& star = comm.prepare(blink::star_schedule(1));
    auto& flows = comm.prepare(blink::all_to_all_schedule(1));
    auto near = comm.allocate<int>(8);
    std::vector<int> far(8);
    blink::block_mask mask(8, 1);
    std::vector<blink::block> const blocks{{0, 8}};
    std::vector<blink::buffer_part<int>> const parts{{near.data(), near.data(), 8},
                                                     {far.data(), far.data(), 8}};
    blink::call_queue queue(comm);
    std::string wrong;
    auto const expect_refusal = [&](std::string const& name, auto const& make) {
      auto const text = blink_test::error_of([&] { (void)make(); });
      if (!text.starts_with(name + " is not in shared memory, or not all of it")) {
        wrong += name + ": " + text + "; ";
      }
    };
    expect_refusal("all_reduce on rank 0: the output", [&] {
      return queue.make(blink::collective::all_reduce, star, near.data(), far.data(), 8,
                        blink::sum{});
    });
    expect_refusal("all_to_all_v on rank 0: the output", [&] {
      return queue.make_all_to_all_v(flows, near.data(), blocks, far.data(), blocks);
    });
    expect_refusal("grouped on rank 0: the input of a part", [&] {
      return queue.make_grouped(star, blink::collective::all_reduce, parts, blink::sum{});
    });
    expect_refusal("all_reduce_sparse on rank 0: the data", [&] {
      return queue.make_all_reduce_sparse(star, far.data(), mask, blink::sum{});
    });
    blink::transfers sent, received;
    sent.send(0, far.data(), 8);
    received.receive(0, far.data(), 8);
    expect_refusal("exchange on rank 0: a piece that it sends",
                   [&] { return queue.make_exchange(flows, sent); });
    expect_refusal("exchange on rank 0: a piece that it receives",
                   [&] { return queue.make_exchange(flows, received); });
    expect_refusal("all_gather on rank 0: the input",
                   [&] { blink::all_gather_v(comm, star, far.data(), near.data(), blocks); });
    expect_refusal("broadcast on rank 0: the input", [&] {
      blink::broadcast(comm, blink::flat_schedule(1, 0), far.data(), near.data(), 8);
    });
    return wrong;
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

/// A sum of factor times element, where each rank knows only its own factor.
struct sum_of_own {
  static constexpr bool lift_at_source = true;
  int rank;

  [[nodiscard]] int lift(int value, blink::element_place const& place) const {
    return place.rank == rank ? (rank + 2) * value : -1000000;
  }
  [[nodiscard]] int operator()(int a, int b) const { return a + b; }
};
static_assert(blink::lift_at_source<sum_of_own> && !blink::lift_at_source<blink::sum>);

TEST(process_communicator, elements_are_lifted_at_home_if_the_reducer_says_so) {
  forked_ranks all(3);
  all.start([&](int rank) {
    blink::process_communicator comm(all.path(), rank, small_slots());
    for (auto const& trees : {blink::star_schedule(3), blink::ring_schedule(3),
                              blink::chain_schedule(3, 1), blink::one_shot_schedule(3)}) {
      for (std::size_t const count : {std::size_t{1}, std::size_t{700}}) {
        std::vector<int> const in(count, 10 + rank);
        std::vector<int> out(count, 0);
        bool const is_chain = trees == blink::chain_schedule(3, 1);
        if (is_chain) {
          blink::reduce(comm, trees, in.data(), out.data(), count, sum_of_own{rank});
        } else {
          blink::all_reduce(comm, trees, in.data(), out.data(), count, sum_of_own{rank});
        }
        if (is_chain && rank != 1) continue;
        if (out != std::vector<int>(count, 2 * 10 + 3 * 11 + 4 * 12)) {
          return std::to_string(count) + " elements: " + std::to_string(out[0]);
        }
      }
    }
    return std::string("right");
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "right");
}

TEST(process_communicator, direct_ranks_take_shared_memory_only) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0);
  std::vector<int> own(3, 1);
  auto const star = blink::star_schedule(1);
  EXPECT_THROW(blink::all_reduce(comm, star, own.data(), own.data(), 3, blink::sum{}),
               blink::precondition_error);
  int* first = nullptr;
  {
    auto shared = comm.allocate<int>(3);
    first = shared.data();
    shared[2] = 5;
    blink::all_reduce(comm, star, shared.data(), shared.data(), 3, blink::sum{});
    EXPECT_EQ(shared[2], 5);
  }
  auto const again = comm.allocate<int>(2);  // reuses the memory
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again[1], 0);
  EXPECT_THROW((void)comm.allocate<int>(SIZE_MAX / 2), blink::resource_error);
  EXPECT_THROW((void)comm.allocate<char>(SIZE_MAX - 5000), blink::resource_error);
}

// Containers of the standard library, in memory that peers can access.
TEST(process_communicator, containers_lie_in_shared_memory) {
  forked_ranks all(3, std::size_t{1} << 26);
  all.start([&](int rank) -> std::string {
    blink::direct_process_communicator comm(all.path(), rank, small_slots());
    blink::shared_memory_resource memory(comm);
    auto const star = blink::star_schedule(3);
    for (std::size_t const count : {1U, 5000U, 100000U}) {
      std::pmr::vector<int> in(count, rank + 1, &memory);
      std::pmr::vector<int> out(count, &memory);
      blink::all_reduce(comm, star, in.data(), out.data(), count, blink::sum{});
      if (std::count(out.begin(), out.end(), 6) != std::ssize(out)) return "all_reduce";
      std::pmr::unsynchronized_pool_resource pool(&memory);
      std::pmr::vector<int> small(7, rank, &pool);
      blink::broadcast(comm, blink::flat_schedule(3, 1), small.data(), small.data(), small.size());
      if (std::count(small.begin(), small.end(), 1) != 7) return "broadcast";
    }
    return "";
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

TEST(process_communicator, containers_are_reported_when_there_is_no_memory) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0);
  blink::shared_memory_resource memory(comm);
  EXPECT_THROW(static_cast<void>(memory.allocate(std::size_t{1} << 60)), blink::resource_error);
  std::size_t const volatile most = SIZE_MAX;  // volatile, because compilers detect that this is
                                               // too large
  EXPECT_THROW(static_cast<void>(memory.allocate(most)), blink::resource_error);
  EXPECT_THROW(static_cast<void>(memory.allocate(10, 8192)), blink::resource_error);
  void* const first = memory.allocate(10);
  memory.deallocate(first, 10);
  EXPECT_EQ(memory.allocate(20), first);  // the memory is reused
  blink::shared_memory_resource other(comm);
  EXPECT_TRUE(memory.is_equal(memory));
  EXPECT_FALSE(memory.is_equal(other));
}

// A process of the same user may open the memory, and forge one.
TEST(shared_segment, does_not_shrink_and_refuses_forged_memory) {
  auto const segment = blink::shared_segment::create(2, std::size_t{1} << 20);
  int const file = open(segment.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_NE(ftruncate(file, 1 << 21), 0);
  std::vector<std::uint64_t> words((std::size_t{1} << 20) / 8);
  ASSERT_EQ(pread(file, words.data(), words.size() * 8, 0), 1 << 20);
  close(file);
  auto const joins = [](std::vector<std::uint64_t> const& content, bool is_sealed) {
    int const forged = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    auto const bytes = static_cast<ssize_t>(content.size() * 8);
    EXPECT_EQ(write(forged, content.data(), content.size() * 8), bytes);
    if (is_sealed) {
      EXPECT_EQ(fcntl(forged, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    }
    bool result = true;
    try {
      (void)blink::shared_segment::open("/proc/self/fd/" + std::to_string(forged));
    } catch (blink::input_error const&) {
      result = false;
    }
    close(forged);
    return result;
  };
  EXPECT_TRUE(joins(words, true));
  EXPECT_FALSE(joins(words, false));
  auto const name = testing::TempDir() + "blink_forged_" + std::to_string(getpid());
  {
    std::ofstream copy(name, std::ios::binary);  // a file that cannot be sealed
    copy.write(reinterpret_cast<char const*>(words.data()),
               static_cast<std::streamsize>(words.size() * 8));
  }
  EXPECT_ERROR((void)blink::shared_segment::open(name), "not that of a communicator");
  std::filesystem::remove(name);
  // Any word of the head may hold anything: it is refused or harmless.
  std::mt19937_64 random(3);
  int refused = 0;
  for (std::size_t word = 0; word < 64; ++word) {
    for (std::uint64_t const value :
         {std::uint64_t{1}, ~std::uint64_t{0}, random(), random() % (1 << 20) / 128 * 128}) {
      auto forged = words;
      forged[word] = value;
      refused += joins(forged, true) ? 0 : 1;
    }
  }
  EXPECT_GE(refused, 12);  // version, bytes, number of ranks
  // A list of blocks that does not end.
  auto endless = words;
  int endless_refused = 0;
  for (std::size_t word = 0; word < 8; ++word) {
    for (std::uint64_t const at : {std::uint64_t{1} << 19, std::uint64_t{4096}}) {
      endless[word + 3] = at;
      endless[at / 8] = at;
      endless_refused += joins(endless, true) ? 0 : 1;
      endless = words;
    }
  }
  EXPECT_GE(endless_refused, 2);  // where the list begins
}

TEST(process_communicator, memory_that_is_full_is_an_error) {
  auto const segment = blink::shared_segment::create(2, std::size_t{1} << 20);
  blink::process_communicator comm(segment.path(), 1);
  try {
    comm.prepare(blink::star_schedule(2));
    FAIL() << "prepared more than there is";
  } catch (blink::resource_error const& failure) {
    EXPECT_NE(std::string(failure.what()).find("shared memory full"), std::string::npos)
        << failure.what();
  }
  EXPECT_THROW((void)blink::shared_segment::create(2, 100), blink::precondition_error);
}

// Each rank needs slots from all others, in trees of all others.
TEST(process_communicator, many_ranks_share_little_memory) {
  constexpr int ranks = 48;
  forked_ranks all(ranks);  // 1 GiB
  all.start([&](int rank) {
    blink::process_communicator comm(all.path(), rank);
    std::vector<int> data(1000, rank);
    blink::all_reduce(comm, blink::star_schedule(ranks), data, data);
    return std::to_string(data.front() + data.back());
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, std::to_string(ranks * (ranks - 1)));
}

TEST(shared_segment, callers_of_a_key_get_one_memory_that_is_taken_once) {
  constexpr std::size_t bytes = std::size_t{1} << 26;
  auto whole = blink::shared_segment::create(1, 2 * bytes);  // room for one of them
  std::vector<void*> found(8, nullptr);
  {
    std::vector<std::jthread> callers;
    for (auto& place : found) callers.emplace_back([&] { place = whole.find_or_make(7, bytes); });
  }
  for (auto const* place : found) EXPECT_EQ(place, found.front());
  EXPECT_EQ(static_cast<char const*>(found.front())[bytes - 1], 0);
  EXPECT_ERROR((void)whole.find_or_make(8, 2 * bytes), "bytes more are needed");
  EXPECT_ERROR((void)whole.find_or_make(8, 2 * bytes), "which another rank did not get");
}

TEST(process_communicator, ranks_are_taken_once) {
  auto const segment = blink::shared_segment::create(2);
  blink::process_communicator const comm(segment.path(), 1);
  EXPECT_THROW(blink::process_communicator(segment.path(), 1), blink::input_error);
  EXPECT_THROW(blink::process_communicator(segment.path(), 2), blink::input_error);
  EXPECT_THROW(blink::process_communicator(segment.path(), -1), blink::input_error);
  EXPECT_THROW(blink::process_communicator("/nowhere", 0), blink::input_error);
  EXPECT_THROW(blink::process_communicator("/dev/null", 0), blink::input_error);
  EXPECT_THROW(blink::process_communicator(BLINK_SOURCE_DIR "/README.md", 0), blink::input_error);
}

// When a process closes a file, the system releases all its locks in that file.
TEST(process_communicator, what_else_opens_its_memory_leaves_a_communicator_alive) {
  using seconds = std::chrono::duration<double>;
  for (bool const is_refused : {false, true}) {
    forked_ranks all(3);
    all.start([&](int rank) -> std::string {
      auto const star = blink::star_schedule(3);
      std::string wrong;
      {
        blink::process_communicator comm(all.path(), rank, small_slots());
        auto const sum = [&] {
          int value = rank;
          blink::all_reduce(comm, star, &value, &value, 1, blink::sum{});
          return value;
        };
        if (sum() != 3) wrong += "a sum before; ";
        if (rank == 1 && is_refused) {
          auto const text = blink_test::error_of(
              [&] { blink::process_communicator const again(all.path(), rank); });
          if (text != "rank 1 is taken by process " + std::to_string(getpid())) wrong += text;
        } else if (rank == 1) {
          (void)blink::shared_segment::open(all.path());
        }
        auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        while (std::chrono::steady_clock::now() < end) {
          if (all.segment().is_dead(1)) return "rank 1 counts as dead; ";
        }
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (sum() != 3) wrong += "a sum after; ";  // the peers wait and check that it lives
        if (rank == 1) return wrong;
        auto const start = std::chrono::steady_clock::now();
        auto const text = blink_test::error_of(sum);
        if (text.find("rank 1") == std::string::npos) wrong += text;
        if (std::chrono::steady_clock::now() - start > seconds(5)) wrong += "reported late";
      }
      return wrong;
    });
    for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
  }
}

TEST(process_communicator, a_process_may_have_one_communicator_after_the_other) {
  forked_ranks all(2), others(2);
  all.start([&](int rank) -> std::string {
    std::string wrong;
    for (auto const& path : {all.path(), others.path()}) {
      blink::process_communicator comm(path, rank, small_slots());
      int value = rank;
      blink::all_reduce(comm, blink::star_schedule(2), &value, &value, 1, blink::sum{});
      if (value != 1) wrong += path + ": a wrong sum; ";
    }
    auto const text =
        blink_test::error_of([&] { blink::process_communicator const comm(all.path(), rank); });
    if (text != "rank " + std::to_string(rank) + " is taken by process " + std::to_string(getpid()))
      wrong += text;  // the first processes keep their ranks
    return wrong;
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

TEST(process_communicator, several_ranks_of_one_process_end_one_by_one) {
  auto const segment = blink::shared_segment::create(2);
  auto first = std::make_unique<blink::process_communicator>(segment.path(), 0);
  auto second = std::make_unique<blink::process_communicator>(segment.path(), 1);
  auto const seen_dead = [&](int rank) {  // by another process
    pid_t const child = fork();
    if (child == 0) _exit(segment.is_dead(rank) ? 1 : 0);
    int status = -1;
    waitpid(child, &status, 0);
    return status != 0;
  };
  EXPECT_FALSE(seen_dead(0) || seen_dead(1));
  first.reset();
  EXPECT_TRUE(seen_dead(0));
  EXPECT_FALSE(seen_dead(1));
  second.reset();
  EXPECT_TRUE(seen_dead(1));
}

/// Sets environment variables during its lifetime.
class environment {
 public:
  environment(char const* rank, char const* count, char const* segment, char const* deadline) {
    set("BLINK_RANK", rank);
    set("BLINK_RANK_COUNT", count);
    set("BLINK_SEGMENT", segment);
    set("BLINK_DEADLINE", deadline);
  }
  environment(environment const&) = delete;
  environment& operator=(environment const&) = delete;
  ~environment() {
    for (char const* const name :
         {"BLINK_RANK", "BLINK_RANK_COUNT", "BLINK_SEGMENT", "BLINK_DEADLINE"}) {
      unsetenv(name);
    }
  }

 private:
  static void set(char const* name, char const* value) {
    if (value != nullptr) setenv(name, value, 1);
  }
};

TEST(process_environment, names_what_is_wrong) {
  auto const complaint = [](char const* rank, char const* count, char const* segment,
                            char const* deadline) -> std::string {
    environment const variables(rank, count, segment, deadline);
    try {
      (void)blink::read_process_environment();
    } catch (blink::input_error const& failure) {
      return failure.what();
    }
    return "";
  };
  struct {
    char const *rank, *count, *segment, *deadline, *expected;
  } const cases[] = {
      {nullptr, nullptr, nullptr, nullptr, "BLINK_RANK_COUNT is not set"},
      {nullptr, "2", "s", nullptr, "BLINK_RANK is not set"},
      {"0", "2", nullptr, nullptr, "BLINK_SEGMENT is not set"},
      {"2", "2", "s", nullptr, "BLINK_RANK is '2', expected an integer from 0 to 1"},
      {"-1", "2", "s", nullptr, "BLINK_RANK is '-1'"},
      {"", "2", "s", nullptr, "BLINK_RANK is ''"},
      {"1x", "2", "s", nullptr, "BLINK_RANK is '1x'"},
      {"1", "0", "s", nullptr, "BLINK_RANK_COUNT is '0'"},
      {"1", "99999999999999", "s", nullptr, "BLINK_RANK_COUNT is '99999999999999'"},
      {"1", "2", "s", "soon", "BLINK_DEADLINE is 'soon'"},
      {"1", "2", "s", "0", "BLINK_DEADLINE is '0'"},
      {"1", "2", "s", "nan", "BLINK_DEADLINE is 'nan'"},
      {"1", "2", "s", "1.5", ""},
  };
  for (auto const& one : cases) {
    auto const text = complaint(one.rank, one.count, one.segment, one.deadline);
    EXPECT_EQ(text.substr(0, std::string(one.expected).size()), one.expected) << text;
    EXPECT_EQ(text.empty(), *one.expected == '\0') << text;
  }
}

TEST(process_environment, is_joined) {
  auto const segment = blink::shared_segment::create(2);
  {
    environment const variables("1", "2", segment.path().c_str(), "3.5");
    blink::process_communicator const comm;
    EXPECT_EQ(comm.rank(), 1);
    EXPECT_EQ(comm.rank_count(), 2);
    EXPECT_EQ(comm.options().waits.deadline.count(), 3'500'000'001);
    EXPECT_EQ(comm.options().order, blink::order_promise::run);
  }
  {
    environment const variables("0", "2", segment.path().c_str(), nullptr);
    setenv("BLINK_ORDER", "rank", 1);
    EXPECT_ERROR(blink::process_communicator{}, "BLINK_ORDER is 'rank', expected run or ranks");
    setenv("BLINK_ORDER", "ranks", 1);
    blink::process_communicator const comm;
    unsetenv("BLINK_ORDER");
    EXPECT_EQ(comm.options().order, blink::order_promise::ranks);
  }
  environment const variables("0", "3", segment.path().c_str(), nullptr);
  EXPECT_THROW(blink::process_communicator{}, blink::input_error);
}

}}  // namespace processes_test
