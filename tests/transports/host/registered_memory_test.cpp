// SPDX-License-Identifier: Apache-2.0
// Memory of any allocator that processes share temporarily.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/registered_memory.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace registered_memory_test { namespace {

using blink_test::forked_ranks;

constexpr std::size_t page = 4096;

blink::communicator_options options() {
  blink::communicator_options result;
  result.waits.deadline = std::chrono::seconds(20);
  return result;
}

/// Whole pages that contain only one object of this process.
class own_pages {
 public:
  explicit own_pages(std::size_t pages, int rights = PROT_READ | PROT_WRITE, int file = -1,
                     int kind = MAP_PRIVATE)
      : bytes_(pages * page),
        memory_(mmap(nullptr, bytes_, rights, kind | (file < 0 ? MAP_ANONYMOUS : 0), file, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  own_pages(own_pages const&) = delete;
  own_pages& operator=(own_pages const&) = delete;
  ~own_pages() { free(); }
  void free() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
    memory_ = nullptr;
  }
  template <class T = int>
  [[nodiscard]] T* at(std::size_t byte = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + byte);
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

TEST(registered_memory, vectors_are_reached_and_stay_where_they_are) {
  forked_ranks all(3);
  all.start([&](int rank) -> std::string {
    blink::direct_process_communicator comm(all.path(), rank, options());
    auto const star = blink::star_schedule(3);
    for (std::size_t const count : {std::size_t{50'000}, std::size_t{1'000'000}}) {
      std::vector<int> in(count), out(count, 7);  // large enough for separate pages
      std::iota(in.begin(), in.end(), rank);
      int const* const before = in.data();
      {
        blink::registered_memory const shares_in(comm, in.data(), in.size());
        blink::registered_memory const shares_out(comm, out.data(), out.size());
        if (in.data() != before || in[count - 1] != static_cast<int>(count) - 1 + rank) {
          return "moved in";
        }
        blink::all_reduce(comm, star, in.data(), out.data(), count, blink::sum{});
        blink::all_reduce(comm, star, in.data(), in.data(), count, blink::sum{});
        in[1] += rank;  // ordinary memory meanwhile
        blink::barrier(comm);
      }
      for (std::size_t k = 0; k < count; ++k) {
        int const sum = 3 * static_cast<int>(k) + 3;
        if (out[k] != sum || in[k] != sum + (k == 1 ? rank : 0)) return "all_reduce";
      }
      in[2] = 100 + rank;  // and private to this process again
      blink::barrier(comm);
      if (in[2] != 100 + rank) return "moved back";
    }
    return "";
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

// Each form of a call that checks its buffers, with exactly the bytes registered that it accesses.
TEST(registered_memory, every_form_of_call_takes_it) {
  forked_ranks all(2);
  all.start([&](int rank) -> std::string {
    blink::direct_process_communicator comm(all.path(), rank, options());
    constexpr std::size_t count = 6 * page / sizeof(int);
    own_pages const a(6), b(12);
    blink::registered_memory const shares_a(comm, a.at(), count);
    blink::registered_memory const shares_b(comm, b.at(), 2 * count);
    auto const star = blink::star_schedule(2);
    auto const is_all = [](int const* from, std::size_t elements, int value) {
      return std::count(from, from + elements, value) == static_cast<std::ptrdiff_t>(elements);
    };
    std::fill_n(a.at(), count, rank + 1);
    blink::all_gather(comm, star, a.at(), b.at(), count);
    if (!is_all(b.at(), count, 1) || !is_all(b.at() + count, count, 2)) return "all_gather";
    blink::reduce_scatter(comm, star, b.at(), a.at(), count, blink::sum{});
    if (!is_all(a.at(), count, 2 * (rank + 1))) return "reduce_scatter";
    // If only the root has a result, other ranks may pass less.
    own_pages const little(1);
    blink::registered_memory const shares_little(comm, little.at(), 1);
    auto* const result = rank == 1 ? b.at() : little.at();
    blink::reduce(comm, blink::flat_schedule(2, 1), a.at(), result, count, blink::sum{});
    if (rank == 1 && !is_all(b.at(), count, 6)) return "reduce";
    std::vector<blink::block> const blocks{{0, count / 2}, {count / 2, count / 2}};
    auto const own = blocks[static_cast<std::size_t>(rank)];
    blink::all_gather_v(comm, star, a.at() + own.begin, b.at() + count, blocks);
    if (!is_all(b.at() + count, count / 2, 2)) return "all_gather_v";
    blink::all_to_all_v(comm, blink::all_to_all_schedule(2), a.at(), blocks, b.at() + count,
                        blocks);
    if (!is_all(b.at() + count + count / 2, count / 2, 4)) return "all_to_all_v";
    std::vector<blink::buffer_part<int>> const parts{{a.at(), b.at(), count},
                                                     {a.at(), b.at() + count, count}};
    blink::grouped(comm, star, blink::collective::all_reduce, parts, blink::sum{});
    if (!is_all(b.at(), 2 * count, 6)) return "grouped";
    std::fill_n(a.at(), count, 3);
    std::fill_n(b.at(), 2 * count, 3);
    std::vector<blink::block> const one_block{{0, count}, {count, 0}};
    blink::all_gather_v(comm, star, a.at() + (rank == 0 ? 0 : count), b.at(),
                        one_block);  // empty: anywhere
    blink::block_mask mask(2 * count, 64);
    mask.set(static_cast<std::size_t>(rank));
    blink::all_reduce_sparse(comm, comm.prepare(star), b.at(), mask, blink::sum{});
    auto part = blink::split(comm, 0, 0);
    blink::all_reduce(*part, star, a.at(), a.at(), count, blink::sum{});
    if (!is_all(a.at(), count, 6)) return "split";
    return "";
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

TEST(registered_memory, what_is_not_all_registered_is_refused) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  auto const star = blink::star_schedule(1);
  constexpr std::size_t in_page = page / sizeof(int);
  own_pages const some(3);
  auto const call = [&](std::size_t count) {
    blink::all_reduce(comm, star, some.at(), some.at(), count, blink::sum{});
  };
  EXPECT_ERROR(call(1), "not in shared memory");
  {
    blink::registered_memory const first(comm, some.at(), in_page);
    EXPECT_NO_THROW(call(in_page));
    EXPECT_ERROR(call(in_page + 1), "not all of it");
    EXPECT_NO_THROW(call(in_page));
  }
  EXPECT_ERROR(call(in_page), "not in shared memory");  // although it was checked before
  EXPECT_ERROR(call(SIZE_MAX / 4), "more than an address can name");
}

TEST(registered_memory, what_cannot_move_is_refused) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  auto const say = [&](int* data, std::size_t count) {
    return blink_test::error_of([&] { blink::registered_memory const no(comm, data, count); });
  };
  EXPECT_SAYS(say(static_cast<int*>(__builtin_alloca(64)), 3), "stack");
  auto const array = comm.allocate<int>(100);
  EXPECT_SAYS(say(array.data(), 100), "it is shared already");
  own_pages const some(4);
  blink::registered_memory const first(comm, some.at(page), 1);
  EXPECT_SAYS(say(some.at(page + 400), 1), "some of its pages are registered");
  EXPECT_SAYS(say(some.at(0), page), "some of its pages are registered");
  own_pages const fixed(1, PROT_READ);
  EXPECT_SAYS(say(fixed.at(), 1), "it may not be read and written");
  own_pages const common(1, PROT_READ | PROT_WRITE, -1, MAP_SHARED);
  EXPECT_SAYS(say(common.at(), 1), "of a file, or shared");
  own_pages const program(1, PROT_READ | PROT_WRITE | PROT_EXEC);
  EXPECT_SAYS(say(program.at(), 1), "or is executed");
  EXPECT_SAYS(say(reinterpret_cast<int*>(std::uintptr_t{0} - 8), 1), "more than an address");
  std::string of_thread;
  std::thread([&] { of_thread = say(static_cast<int*>(__builtin_alloca(64)), 3); }).join();
  EXPECT_SAYS(of_thread, "stack");
  int const file = open(BLINK_SOURCE_DIR "/README.md", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  own_pages const of_file(1, PROT_READ | PROT_WRITE, file);
  EXPECT_SAYS(say(of_file.at(), 1), "of a file, or shared");
  close(file);
  own_pages gone(3);
  munmap(gone.at(page), page);
  EXPECT_SAYS(say(gone.at(), 3 * page / sizeof(int)), "it is not all of this process");
  EXPECT_SAYS(say(gone.at(page), 1), "it is not all of this process");
  std::size_t const volatile most = SIZE_MAX / 2;
  EXPECT_SAYS(say(some.at(), most), "more than an address can name");
  EXPECT_SAYS(say(nullptr, 1), "it is not all of this process");
  EXPECT_NO_THROW(blink::registered_memory(comm, some.at(), 0));
  EXPECT_SAYS(say(some.at(), 3), "no error");  // all of that has left nothing behind
}

TEST(registered_memory, is_reported_when_there_is_no_memory) {
  auto const segment = blink::shared_segment::create(1, 64 * page);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  own_pages const some(100);
  *some.at() = 5;
  EXPECT_ERROR(blink::registered_memory(comm, some.at(), 100 * page / sizeof(int)),
               "shared memory full");
  EXPECT_EQ(*some.at(), 5);
  for (int round = 0; round < 100; ++round) {  // the memory is reused
    blink::registered_memory const fits(comm, some.at(), 4 * page / sizeof(int));
    *some.at() += 1;
  }
  EXPECT_EQ(*some.at(), 105);
}

// Pieces in several places, whose distances no peer knows.
TEST(registered_memory, peers_find_pieces_wherever_they_are) {
  forked_ranks all(3);
  all.start([&](int rank) -> std::string {
    blink::direct_process_communicator comm(all.path(), rank, options());
    constexpr std::size_t count = 1000;
    own_pages const a(1), gap(static_cast<std::size_t>(rank) + 1), b(1), c(1);
    blink::registered_memory const shares_a(comm, a.at(), count);
    blink::registered_memory const shares_b(comm, b.at(), count);
    blink::registered_memory const shares_c(comm, c.at(), count);
    auto const array = comm.allocate<int>(count);
    int const next = (rank + 1) % 3, last = (rank + 2) % 3;
    for (int round = 0; round < 3; ++round) {
      std::fill_n(a.at(), count, 10 * rank + round);
      std::fill_n(array.data(), count, 100 + 10 * rank + round);
      blink::transfers pieces;
      pieces.send(next, a.at(), count);
      pieces.send(last, array.data(), count);
      pieces.receive(last, b.at(), count);
      pieces.receive(next, c.at(), count);
      blink::exchange(comm, blink::all_to_all_schedule(3), pieces);
      for (std::size_t k = 0; k < count; ++k) {
        if (b.at()[k] != 10 * last + round) return "from the last one";
        if (c.at()[k] != 100 + 10 * next + round) return "from the next one";
      }
    }
    return "";
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

// The allocator's bookkeeping in a page shared with a vector stays intact, for example the end of
// one part of its memory.
TEST(registered_memory, vectors_have_pages_in_common_with_the_allocator) {
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  auto const use_up = [&](std::size_t number) {  // the free memory in between
    for (std::size_t k = 0; k < number; ++k) {
      auto const bytes = 16 + 16 * (k % 64);
      blocks.push_back(std::make_unique<std::byte[]>(bytes));
      std::fill_n(blocks.back().get(), bytes, static_cast<std::byte>(k));
    }
  };
  for (int round = 0; round < 20; ++round) {
    auto const segment = blink::shared_segment::create(1);
    blink::direct_process_communicator comm(segment.path(), 0, options());
    blocks.reserve(blocks.size() + 4000);
    use_up(2000);
    std::vector<int> some(1000, round);
    blink::registered_memory const registered(comm, some.data(), some.size());
    use_up(1000);
    ASSERT_EQ(std::count(some.begin(), some.end(), round), 1000);
  }
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    std::size_t const place = k % 3000 < 2000 ? k % 3000 : k % 3000 - 2000;
    wrong += blocks[k][15 + 16 * (place % 64)] == static_cast<std::byte>(place) ? 0U : 1U;
  }
  EXPECT_EQ(wrong, 0U);
}

// The sanitizers of addresses and threads that run this forbid reading freed memory.
TEST(registered_memory, vectors_have_pages_in_common_with_what_was_freed) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  std::vector<std::unique_ptr<std::vector<int>>> blocks(60);
  for (auto& block : blocks) block = std::make_unique<std::vector<int>>(100, 7);
  for (std::size_t k = 0; k < blocks.size(); k += 2) blocks[k].reset();
  auto& some = *blocks[31];
  {
    blink::registered_memory const registered(comm, some.data(), some.size());
    EXPECT_EQ(std::count(some.begin(), some.end(), 7), 100);
  }
  EXPECT_EQ(std::count(some.begin(), some.end(), 7), 100);
}

// Sizes that differ little reuse the same memory.
TEST(registered_memory, shared_memory_is_used_again_for_other_sizes) {
  auto const segment = blink::shared_segment::create(1, std::size_t{64} << 20);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  own_pages const some(400);
  for (std::size_t pages = 1; pages <= 400; ++pages) {
    blink::registered_memory const registered(comm, some.at(), pages * page / sizeof(int));
  }
}

// Freeing memory too early affects only that memory: its present contents stay unchanged.
TEST(registered_memory, memory_that_was_freed_is_left_alone) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  own_pages some(2);
  auto* const at = some.at<void>();
  std::optional<blink::registered_memory> registered(std::in_place, comm, some.at(),
                                                     2 * page / sizeof(int));
  some.free();
  void* const other = mmap(at, 2 * page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(other, at);
  *static_cast<int*>(other) = 9;
  registered.reset();
  EXPECT_EQ(*static_cast<int*>(other), 9);
  munmap(other, 2 * page);
}

// Neighbours of registered memory, in its first and last page, also keep their contents.
TEST(registered_memory, what_lies_beside_it_moves_too) {
  auto const segment = blink::shared_segment::create(1);
  blink::direct_process_communicator comm(segment.path(), 0, options());
  constexpr std::size_t count = 5 * page / sizeof(int);
  own_pages const some(5);
  std::iota(some.at(), some.at() + count, 0);
  for (std::size_t const begin : {std::size_t{0}, std::size_t{100}, count / 2}) {
    blink::registered_memory const part(comm, some.at() + begin, count / 3);
    some.at()[begin] *= 1;
    for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(some.at()[k], static_cast<int>(k));
  }
  for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(some.at()[k], static_cast<int>(k));
}

}}  // namespace registered_memory_test
