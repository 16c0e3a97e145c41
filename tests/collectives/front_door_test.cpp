// SPDX-License-Identifier: Apache-2.0
// Calls without a schedule, on containers: results, mismatched sizes, tuning tables and their
// sources.

#include <blink/buffers/eigen.hpp>
#include <blink/collectives.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/expect_error.hpp"
#include "support/front_door_case.hpp"
#include "support/sanitizers.hpp"
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace front_door_test {

/// A container of another library, with an adapter by its user.
struct foreign_vector {
  std::vector<int> held;
};

}  // namespace front_door_test

template <>
struct blink::buffer_access<front_door_test::foreign_vector> {
  static int* data(front_door_test::foreign_vector& from) { return from.held.data(); }
  static std::size_t size(front_door_test::foreign_vector const& from) { return from.held.size(); }
};

namespace front_door_test { namespace {

using blink::collective;
using blink_test::error_of;

/// Sets BLINK_TUNING to a file with these tables during its lifetime.
class tuning_environment {
 public:
  explicit tuning_environment(std::vector<blink::tuning_table> const& tables)
      : path_(::testing::TempDir() + "blink_front_door_" + std::to_string(getpid()) + ".json") {
    std::ofstream(path_) << blink::write_tuning(tables);
    setenv("BLINK_TUNING", path_.c_str(), 1);
  }
  tuning_environment(tuning_environment const&) = delete;
  tuning_environment& operator=(tuning_environment const&) = delete;
  ~tuning_environment() {
    unsetenv("BLINK_TUNING");
    unlink(path_.c_str());
  }

 private:
  std::string path_;
};

template <class Transport>
class front_door : public ::testing::Test {};
using transports = ::testing::Types<blink::direct_transport, blink::slot_transport>;
TYPED_TEST_SUITE(front_door, transports);

TYPED_TEST(front_door, every_collective_runs_without_a_schedule) {
  for (int const ranks : {1, 2, 3, 5}) {
    blink::basic_thread_ranks<TypeParam> threads(ranks);
    threads.run([&](auto& comm) {
      for (std::size_t const count : {0U, 1U, 700U, 40'000U}) {
        EXPECT_EQ(blink_test::calls_without_a_schedule(comm, count), "") << ranks << " " << count;
      }
    });
  }
}

TYPED_TEST(front_door, a_call_along_trees_takes_containers_as_well) {
  blink::basic_thread_ranks<TypeParam> threads(3);
  auto const trees = blink::star_schedule(3);
  threads.run([&](auto& comm) {
    std::vector<double> const in(1000, comm.rank() + 1);
    std::vector<double> out(1000);
    blink::all_reduce(comm, trees, in, std::span(out), blink::sum{});
    EXPECT_EQ(out, std::vector<double>(1000, 6));
    blink::all_gather(comm, trees, std::span(in).first(2), std::span(out).first(6));
    EXPECT_EQ(out[5], 3);
  });
}

TYPED_TEST(front_door, measured_tables_are_used_at_once) {
  blink::basic_thread_ranks<TypeParam> threads(2);
  threads.run([&](auto& comm) {
    blink::tuning_options quick;
    quick.last_bytes = 1 << 14;
    quick.calls = 3;
    quick.seconds = 0.001;
    auto const tables = comm.tune(quick);
    EXPECT_EQ(tables.size(), 6U);
    EXPECT_EQ(tables.front().transport, TypeParam::name);
    EXPECT_EQ(blink_test::calls_without_a_schedule(comm, 5000), "");
  });
}

TEST(front_door_sizes, that_do_not_fit_are_named) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    std::vector<int> three(3), four(4), none;
    auto const says = [](auto const& call, std::string const& text) {
      EXPECT_EQ(error_of(call), text);
    };
    says([&] { blink::all_reduce(comm, three, four); },
         "all_reduce: the input has 3 elements, the output 4, expected equally many");
    says([&] { blink::all_gather(comm, three, four); },
         "all_gather: the input has 3 elements, the output 4, expected an output 2 times as large");
    says([&] { blink::reduce_scatter(comm, four, three); },
         "reduce_scatter: the input has 4 elements, the output 3, expected an input 2 times as "
         "large");
    says([&] { blink::all_to_all(comm, three, three); },
         "all_to_all: the buffers have 3 elements, expected a multiple of 2, one segment for each "
         "rank");
    if (comm.rank() == 0) {
      says([&] { blink::gather(comm, four, three, 0); },
           "gather: the input has 4 elements, the output 3, expected an output 2 times as large");
    }
    blink::all_reduce(comm, none);
    blink::broadcast(comm, none, 1);
    EXPECT_THROW(blink::broadcast(comm, three, 2), blink::precondition_error);
  });
}

TEST(front_door_tuning, a_table_of_the_program_decides) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    blink::tuning_table chain =
        blink::only_algorithm(collective::broadcast, "chain", blink::chain_schedule(2, 1));
    comm.use_tuning({chain});
    std::vector<int> data(10'000, comm.rank());
    blink::broadcast(comm, data, 1);
    EXPECT_EQ(data.back(), 1);
    EXPECT_EQ(comm.tuning().used().at(0).algorithms.at(0).name, "chain");
    blink::broadcast(comm, data, 0);  // another root: the default
    EXPECT_EQ(comm.tuning().used().at(1).algorithms.at(0).name, "flat");
    auto const refuse = [&](std::vector<blink::tuning_table> tables, std::string const& text) {
      EXPECT_EQ(error_of([&] { comm.use_tuning(std::move(tables)); }), text);
    };
    refuse({chain, chain},
           "use_tuning: two tables for broadcast of 2 ranks over direct memory, expected one");
    refuse({blink::only_algorithm(collective::all_reduce, "star", blink::star_schedule(3))},
           "use_tuning: the table of all_reduce is for 3 ranks, expected 2 ranks over direct "
           "memory");
    chain.transport = "MPI";
    refuse({chain},
           "use_tuning: the table of broadcast is for 2 ranks over MPI, expected 2 ranks over "
           "direct memory");
  });
}

// A table of default schedules grows with the square of the number of ranks: a table for each rank
// of 1,024 takes more memory than machines have.
TEST(front_door_tuning, ranks_that_are_threads_share_the_default_tables) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(10'000, 1);
    if (comm.rank() == 0) (void)comm.tuning().choose(comm, collective::reduce, 8, 1);
    blink::barrier(comm);
    blink::all_reduce(comm, data);
    EXPECT_EQ(comm.tuning().used().size(), 2U) << "rank " << comm.rank();
    blink::barrier(comm);
    if (comm.rank() == 0) comm.use_tuning({});
    blink::broadcast(comm, data, 0);
    EXPECT_EQ(comm.tuning().used().size(), comm.rank() == 0 ? 1U : 3U);
    EXPECT_EQ(data.back(), 2);
  });
}

TEST(front_door_tuning, a_thousand_threads_call_without_a_schedule) {
  constexpr int ranks = blink_test::has_thread_sanitizer ? 128 : 1024;
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    std::vector<int> few(1, 1), many(4096, 1);
    blink::all_reduce(comm, few);
    blink::all_reduce(comm, many);  // too many elements to travel with the call
    blink::broadcast(comm, many, ranks - 1);
    blink::barrier(comm);
    EXPECT_EQ(few[0], ranks);
    EXPECT_EQ(many.back(), ranks);
  });
}

TEST(front_door_tuning, the_environment_names_a_file) {
  auto table = blink::only_algorithm(collective::all_reduce, "ring", blink::ring_schedule(2));
  table.transport = "direct memory";
  tuning_environment const file({table});
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(10'000, comm.rank());
    blink::all_reduce(comm, data);
    EXPECT_EQ(data.back(), 1);
    EXPECT_EQ(comm.tuning().used().at(0).algorithms.at(0).name, "ring");
  });
  blink::thread_ranks three(3);
  three.run([&](auto& comm) {
    std::vector<int> data(8);
    EXPECT_EQ(error_of([&] { blink::all_reduce(comm, data); }),
              "BLINK_TUNING: its first table is for 2 ranks over direct memory, expected one for 3 "
              "ranks over direct memory");
  });
  blink::basic_thread_ranks<blink::slot_transport> by_slots(2);
  by_slots.run([&](auto& comm) {
    std::vector<int> data(8);
    EXPECT_EQ(error_of([&] { blink::all_reduce(comm, data); }),
              "BLINK_TUNING: its first table is for 2 ranks over direct memory, expected one for 2 "
              "ranks over slots");
  });
  // A part of a communicator ignores tables for other numbers of ranks.
  blink::thread_ranks whole(2);
  whole.run([&](auto& comm) {
    auto part = blink::split(comm, comm.rank(), 0);
    std::vector<int> data(8, 5);
    blink::all_reduce(*part, data);
    EXPECT_EQ(data[7], 5);
  });
}

TEST(front_door_tuning, two_tables_for_the_same_calls_are_refused) {
  auto const table = blink::only_algorithm(collective::all_reduce, "ring", blink::ring_schedule(2));
  auto named = table;
  named.transport = "direct memory";
  tuning_environment const file({named, table});
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(8);
    EXPECT_EQ(
        error_of([&] { blink::all_reduce(comm, data); }),
        "BLINK_TUNING: two tables for all_reduce of 2 ranks over direct memory, expected one");
  });
}

TEST(front_door_tuning, a_file_that_cannot_be_read_is_named) {
  setenv("BLINK_TUNING", "/no/such/file", 1);
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(8);
    auto const text = error_of([&] { blink::all_reduce(comm, data); });
    EXPECT_EQ(text.find("BLINK_TUNING: /no/such/file"), 0U) << text;
  });
  unsetenv("BLINK_TUNING");
}

TEST(front_door_containers, others_are_opened_by_their_users) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    foreign_vector data{{1, 2, 3}};
    blink::all_reduce(comm, data);
    EXPECT_EQ(data.held, (std::vector<int>{2, 4, 6}));
    int plain[2] = {comm.rank(), 5};
    blink::all_reduce(comm, plain, blink::max{});
    EXPECT_EQ(plain[0], 1);
  });
}

TEST(front_door_containers, matrices_of_eigen_are_reduced_if_they_are_one_piece) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    Eigen::MatrixXd matrix = Eigen::MatrixXd::Constant(3, 4, comm.rank() + 1);
    blink::all_reduce(comm, matrix);
    EXPECT_EQ(matrix, (Eigen::MatrixXd::Constant(3, 4, 3)));
    auto columns = matrix.leftCols(2);
    blink::all_reduce(comm, columns);
    EXPECT_EQ(matrix(0, 0), 6);
    EXPECT_EQ(matrix(0, 2), 3);
    auto rows = matrix.topRows(2);
    EXPECT_EQ(error_of([&] { blink::all_reduce(comm, rows); }),
              "Eigen: the rows or columns lie apart, expected contiguous elements");
  });
}

static_assert(blink::element_buffer<std::vector<int>&> && blink::element_buffer<std::span<int>>);
static_assert(!blink::element_buffer<std::list<int>&>, "its elements are apart");
static_assert(!blink::element_buffer<std::vector<bool>&>, "it has bits");
static_assert(!blink::element_buffer<blink::schedule const&>);

}}  // namespace front_door_test
