// SPDX-License-Identifier: Apache-2.0
// Common habits of MPI programs that an intercepting library may break. Prints its results, so that
// two runs can be compared. An argument names the thread level.
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}
void say(char const* what, int value) {
  std::printf("rank %d, %s: %d\n", world_rank(), what, value);
}
int sum_over(MPI_Comm comm, int mine) {
  int sum = -1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

void communicators_come_and_go() {
  int total = 0;
  for (int round = 0; round < 24; ++round) {
    MPI_Comm part = MPI_COMM_NULL;
    bool const joins = (world_rank() + round) % 3 != 0;
    MPI_Comm_split(MPI_COMM_WORLD, joins ? round % 2 : MPI_UNDEFINED, -world_rank(), &part);
    if (part == MPI_COMM_NULL) continue;
    total += sum_over(part, world_rank() + round);
    MPI_Barrier(part);
    MPI_Comm_free(&part);
  }
  say("parts", total);
}

// The standard does not require ranks to free communicators in one order, only to free them all.
void each_rank_frees_in_an_order_of_its_own() {
  std::array<MPI_Comm, 6> copies{};
  int total = 0;
  for (auto& copy : copies) {
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    total += sum_over(copy, 1);
  }
  for (std::size_t k = 0; k < copies.size(); ++k) {
    std::size_t const shift = static_cast<std::size_t>(world_rank()) * 2;
    MPI_Comm_free(&copies[(k + shift) % copies.size()]);
    if (k == 2) total += sum_over(MPI_COMM_WORLD, 1);
  }
  say("freed", total);
}

int sums_when_it_goes(MPI_Comm comm, int, void* value, void*) {
  *static_cast<int*>(value) += sum_over(comm, world_rank() + 1);
  return MPI_SUCCESS;
}
// The next communicator may have the same handle and other ranks.
void attributes_call_when_they_go() {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sums_when_it_goes, &keyval, nullptr);
  int total = 0;
  for (int round = 0; round < 8; ++round) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, round % 2 == 0 ? world_rank() : -world_rank(), &part);
    if (round % 3 == 0) total += sum_over(part, 1);
    MPI_Comm_set_attr(part, keyval, &total);
    int rank = 0;
    MPI_Comm_rank(part, &rank);
    int reported = rank == 0 ? round : -1;
    MPI_Bcast(&reported, 1, MPI_INT, 0, part);
    total += 100 * reported;
    if (round < 6) {
      MPI_Comm_free(&part);
    } else {
      MPI_Comm_disconnect(&part);
    }
  }
  MPI_Comm_free_keyval(&keyval);
  say("attributes", total);
}

void freed_while_something_is_under_way() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int const mine = sum_over(copy, 2);
  int sum = 0;
  std::vector<int> from_left(5000), to_right(5000, world_rank());
  int const ranks = size_of(copy);
  std::array<MPI_Request, 3> requests{};
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, copy, &requests[0]);
  MPI_Irecv(from_left.data(), 5000, MPI_INT, (world_rank() + ranks - 1) % ranks, 7, copy,
            &requests[1]);
  MPI_Isend(to_right.data(), 5000, MPI_INT, (world_rank() + 1) % ranks, 7, copy, &requests[2]);
  MPI_Comm_free(&copy);
  sum_over(MPI_COMM_WORLD, 1);
  MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE);
  say("under way", sum + from_left[4999]);
}

// Non-blocking and blocking calls on one communicator. The former are started, others are called
// while they are pending, and they complete later, in a different order on each rank.
void pending_while_others_are_called() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int const ranks = size_of(copy);
  int const rank = world_rank();
  int total = 0;
  for (int round = 0; round < 12; ++round) {
    std::size_t const count = round % 3 == 0 ? 100000 : 10;
    std::vector<int> mine(count, rank + round), sum(count, -1), reported(count, rank),
        other(count, -1);
    std::array<MPI_Request, 4> requests{};
    int const n = static_cast<int>(count);
    int const root = round % ranks;
    // In the first round, blink's first call comes while these are pending.
    MPI_Iallreduce(mine.data(), sum.data(), n, MPI_INT, MPI_SUM, copy, &requests[0]);
    total += sum_over(copy, round);
    MPI_Ibarrier(copy, &requests[1]);
    MPI_Allreduce(mine.data(), other.data(), n, MPI_INT, MPI_MAX, copy);
    MPI_Ibcast(reported.data(), n, MPI_INT, root, copy, &requests[2]);
    MPI_Barrier(copy);
    int late = rank == root ? round : -1;
    MPI_Ibcast(&late, 1, MPI_INT, root, copy, &requests[3]);
    if ((rank + round) % 2 == 0) MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
    total += sum_over(copy, 1);
    MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
    bool is_right = late == round;
    for (std::size_t k = 0; k < count; ++k) {
      is_right = is_right && sum[k] == ranks * (ranks - 1) / 2 + ranks * round &&
                 reported[k] == root && other[k] == ranks - 1 + round;
    }
    total += is_right ? 1 : 1000000;
  }
  MPI_Comm later = MPI_COMM_NULL;  // a communicator that is created meanwhile
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(copy, &later, &request);
  total += sum_over(copy, 1);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  total += sum_over(later, 1);
  MPI_Comm_free(&later);
  MPI_Comm_free(&copy);
  say("pending", total);
}

// Threads with separate communicators call at the same time.
void threads_with_communicators_of_their_own() {
  constexpr int count = 3;
  std::array<MPI_Comm, count> copies{};
  std::array<int, count> totals{};
  for (auto& copy : copies) MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < count; ++k) {
    threads.emplace_back([&, k] {
      for (int turn = 0; turn < 40; ++turn) {
        totals[k] += sum_over(copies[k], world_rank() + turn);
        MPI_Barrier(copies[k]);
        if (turn % 10 != 0) continue;
        MPI_Comm part = MPI_COMM_NULL;
        MPI_Comm_split(copies[k], world_rank() % 2, 0, &part);
        totals[k] += sum_over(part, turn);
        MPI_Comm_free(&part);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t k = 0; k < count; ++k) {
    say("by a thread", totals[k]);
    MPI_Comm_free(&copies[k]);
  }
}

void messages_of_the_program_pass_by() {
  int const ranks = size_of(MPI_COMM_WORLD);
  int const right = (world_rank() + 1) % ranks;
  std::vector<int> in(200000), out(200000, world_rank() + 5);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(out.data(), 200000, MPI_INT, right, 0, MPI_COMM_WORLD, &request);
  if (world_rank() % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Recv(in.data(), 200000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
  if (world_rank() % 2 != 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  say("message", in[100]);
}

void two_groups() {
  int const side = world_rank() % 2;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Comm merged = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 3, &both);
  int const mine = world_rank() + 1;
  say("the others' sum", sum_over(both, mine));
  int root = side == 1 ? 0 : MPI_PROC_NULL;
  if (world_rank() == 0) root = MPI_ROOT;
  int reported = world_rank() == 0 ? 77 : 0;
  MPI_Bcast(&reported, 1, MPI_INT, root, both);
  say("reported", reported);
  std::vector<int> all(static_cast<std::size_t>(size_of(MPI_COMM_WORLD)), -1);
  MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, both);
  say("first of the others", all[0]);
  MPI_Barrier(both);
  MPI_Intercomm_merge(both, side, &merged);
  say("merged", sum_over(merged, mine));
  MPI_Comm_free(&merged);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

void neighbours() {
  int dimensions[2] = {0, 0};
  int const periods[2] = {1, 0};
  MPI_Dims_create(size_of(MPI_COMM_WORLD), 2, dimensions);
  MPI_Comm grid = MPI_COMM_NULL;
  MPI_Comm row = MPI_COMM_NULL;
  int const keeps[2] = {0, 1};
  MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periods, 0, &grid);
  MPI_Cart_sub(grid, keeps, &row);
  say("grid", sum_over(grid, 3));
  say("row", sum_over(row, world_rank()));
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
}

// Absolute addresses, gaps, an order other than that of memory, a lower bound below 0.
void types() {
  int const rank = world_rank();
  double number = rank == 0 ? 2.5 : 0;
  std::array<int, 3> whole{rank, rank, rank};
  MPI_Aint places[2] = {};
  MPI_Get_address(&number, &places[0]);
  MPI_Get_address(&whole[1], &places[1]);
  int const lengths[2] = {1, 2};
  MPI_Datatype const parts[2] = {MPI_DOUBLE, MPI_INT};
  MPI_Datatype absolute = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(2, lengths, places, parts, &absolute);
  MPI_Type_commit(&absolute);
  MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD);
  say("absolute", static_cast<int>(number * 2) * 100 + whole[0] * 10 + whole[1] + whole[2]);
  MPI_Type_free(&absolute);

  auto const ranks = static_cast<std::size_t>(size_of(MPI_COMM_WORLD));
  int const order[3] = {2, 0, 1};
  int const ones[3] = {1, 1, 1};
  MPI_Datatype turned = MPI_DATATYPE_NULL;
  MPI_Datatype below = MPI_DATATYPE_NULL;
  MPI_Type_indexed(3, ones, order, MPI_INT, &turned);
  MPI_Type_create_resized(turned, -4, 20, &below);  // room for two ints beside the three
  MPI_Type_commit(&below);
  std::vector<int> mine(10, 0), all(5 * 2 * ranks + 1, -7);
  for (int k = 0; k < 10; ++k) mine[static_cast<std::size_t>(k)] = 100 * rank + k;
  MPI_Allgather(mine.data(), 2, below, all.data(), 2, below, MPI_COMM_WORLD);
  int sum = 0;
  for (std::size_t k = 0; k < all.size(); ++k) sum += all[k] * (static_cast<int>(k) + 1);
  say("turned", sum);
  std::vector<int> back(10 * ranks, -3);
  MPI_Alltoall(all.data(), 2, below, back.data(), 6, MPI_INT, MPI_COMM_WORLD);
  sum = 0;
  for (std::size_t k = 0; k < back.size(); ++k) sum += back[k] * (static_cast<int>(k) + 1);
  say("turned and sent", sum);
  MPI_Gather(mine.data(), 1, below, back.data(), 3, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) say("turned and gathered", back[0] + 2 * back[1] + 3 * back[2] + back[5]);
  MPI_Type_free(&below);
  MPI_Type_free(&turned);
}

// Sent blocks lie between received ones, in one buffer.
void blocks_side_by_side() {
  int const ranks = size_of(MPI_COMM_WORLD);
  int const rank = world_rank();
  for (int const count : {3, 30000}) {
    std::vector<int> const counts(static_cast<std::size_t>(ranks), count);
    std::vector<int> even;
    for (int peer = 0; peer < ranks; ++peer) even.push_back(2 * peer * count);
    auto const length = static_cast<std::size_t>(2 * ranks * count);
    std::vector<int> data(length);
    auto const restart = [&] {
      for (std::size_t k = 0; k < length; ++k) data[k] = rank * 7 + static_cast<int>(k) % 1001;
    };
    auto const say_all = [&](char const* what) {
      unsigned sum = 0;
      for (std::size_t k = 0; k < length; ++k) {
        sum = sum * 31 + static_cast<unsigned>(data[k]);
      }
      say(what, static_cast<int>(sum % 1000003));
    };
    int* const own = data.data() + count;  // MPICH refuses two buffers with one begin
    restart();
    MPI_Alltoallv(data.data(), counts.data(), even.data(), MPI_INT, own, counts.data(), even.data(),
                  MPI_INT, MPI_COMM_WORLD);
    say_all("all to all, side by side");
    restart();
    MPI_Gatherv(own, count, MPI_INT, data.data(), counts.data(), even.data(), MPI_INT, 0,
                MPI_COMM_WORLD);
    say_all("gathered beside");
    restart();
    MPI_Scatterv(data.data(), counts.data(), even.data(), MPI_INT, own, count, MPI_INT, 0,
                 MPI_COMM_WORLD);
    say_all("scattered beside");
    restart();
    MPI_Allgatherv(own, count, MPI_INT, data.data(), counts.data(), even.data(), MPI_INT,
                   MPI_COMM_WORLD);
    say_all("all gathered beside");
  }
}

void nothing() {
  int data[2] = {world_rank(), 5};
  MPI_Bcast(nullptr, 0, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allreduce(nullptr, nullptr, 0, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allgather(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> const zeros(static_cast<std::size_t>(size_of(MPI_COMM_WORLD)), 0);
  int other[2] = {};
  MPI_Alltoallv(data, zeros.data(), zeros.data(), MPI_INT, other, zeros.data(), zeros.data(),
                MPI_INT, MPI_COMM_WORLD);
  MPI_Reduce_scatter(data, other, zeros.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Datatype empty = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  MPI_Bcast(data, 5, empty, 0, MPI_COMM_WORLD);
  MPI_Type_free(&empty);
  say("nothing", data[0] + data[1]);
}

void later_of_two(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int k = 0; k < 2 * *count; ++k) {
    static_cast<int*>(inout)[k] = static_cast<int*>(in)[k] * 3 + static_cast<int*>(inout)[k];
  }
}
void operation_on_a_derived_type() {
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Op_create(later_of_two, 1, &op);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int const mine[2] = {1, 1};
  int result[2] = {};
  MPI_Scan(mine, result, 1, pair, op, MPI_COMM_WORLD);
  int const scanned = result[0];
  MPI_Allreduce(mine, result, 1, pair, op, MPI_COMM_WORLD);
  say("derived", scanned > 0 && result[0] > 0 && result[0] == result[1] ? 1 : 0);
  MPI_Type_free(&pair);
  MPI_Op_free(&op);
}

bool is_zero_seen = false;
void product_without_zeros(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int k = 0; k < *count; ++k) {
    auto const* const a = static_cast<int*>(in) + k;
    auto* const b = static_cast<int*>(inout) + k;
    is_zero_seen = is_zero_seen || *a == 0 || *b == 0;
    *b = *a * *b % 65521;
  }
}
// No element is zero, so an operation never sees a zero, however elements are joined.
void operations_see_what_there_is_alone() {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(product_without_zeros, 1, &op);
  auto const ranks = static_cast<std::size_t>(size_of(MPI_COMM_WORLD));
  int sum = 0;
  for (int const n : {1, 5, 12, 13, 255, 256, 300, 4099, 20007}) {
    auto const count = static_cast<std::size_t>(n);
    std::vector<int> in(count * ranks, world_rank() + 2), out(count * ranks, 0);
    MPI_Allreduce(in.data(), out.data(), n, MPI_INT, op, MPI_COMM_WORLD);
    sum += out[0] + out[count - 1];
    MPI_Reduce(in.data(), out.data(), n, MPI_INT, op, 0, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(in.data(), out.data(), n, MPI_INT, op, MPI_COMM_WORLD);
    sum += out[0] + out[count - 1];
    std::vector<int> counts(ranks, n);
    counts[0] = n - 1;
    MPI_Reduce_scatter(in.data(), out.data(), counts.data(), MPI_INT, op, MPI_COMM_WORLD);
    sum += out[0] + out[count / 2];
  }
  MPI_Op_free(&op);
  say("products", sum);
  say("zeros", is_zero_seen ? 1 : 0);
}

// Packed records may hold numbers anywhere.
void numbers_that_are_not_aligned() {
  std::vector<char> bytes(8 * sizeof(double) + 1), sums(bytes.size());
  for (std::size_t i = 0; i < 8; ++i) {
    double const value = world_rank() + static_cast<double>(i);
    std::memcpy(bytes.data() + 1 + i * sizeof value, &value, sizeof value);
  }
  MPI_Allreduce(bytes.data() + 1, sums.data() + 1, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, sums.data() + 1, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double last = 0;
  std::memcpy(&last, sums.data() + 1 + 7 * sizeof last, sizeof last);
  say("not aligned", static_cast<int>(last));
}

// MPI 4: counts of 64 bits.
void wide_counts() {
  auto const ranks = static_cast<std::size_t>(size_of(MPI_COMM_WORLD));
  int const mine = world_rank() + 1;
  std::vector<int> all(ranks), own(ranks, mine);
  MPI_Scatter(own.data(), 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  say("the root's", all[0]);
#if MPI_VERSION >= 4
  int sum = 0;
  MPI_Allreduce_c(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce_c(&mine, all.data(), 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Bcast_c(all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  sum += all[0];
  MPI_Allgather_c(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  sum += all.back();
  MPI_Alltoall_c(own.data(), 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  sum += all.back();
  MPI_Gather_c(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  int part = 0;
  MPI_Scatter_c(all.data(), 1, MPI_INT, &part, 1, MPI_INT, 0, MPI_COMM_WORLD);
  sum += part;
  MPI_Reduce_scatter_block_c(own.data(), &part, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  say("wide counts", sum + part);
#endif
}

// The program handles its errors. It prints classes, because codes differ.
void mistakes() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  int data = 1;
  auto const said = [](char const* what, int code) {
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    say(what, kind);
  };
  said("no such root", MPI_Bcast(&data, 1, MPI_INT, 99, copy));
  said("count below 0", MPI_Bcast(&data, -1, MPI_INT, 0, copy));
  unsigned char byte = 7;
  unsigned char largest = 0;
  said("no such pair", MPI_Allreduce(&byte, &largest, 1, MPI_BYTE, MPI_MAX, copy));
  said("no type", MPI_Bcast(&data, 1, MPI_DATATYPE_NULL, 0, copy));
  std::vector<int> const ones(static_cast<std::size_t>(size_of(copy)), 1);
  std::vector<int> blocks(2 * ones.size(), 3);
  said("blocks without a type",
       MPI_Alltoallv(blocks.data(), ones.data(), ones.data(), MPI_INT, blocks.data() + ones.size(),
                     ones.data(), ones.data(), MPI_DATATYPE_NULL, copy));
  say("after mistakes", sum_over(copy, 1));
  MPI_Comm_free(&copy);
}

// Libraries may not detect that ranks make different calls. Blink reports different types, and then
// also different operations.
void calls_that_differ() {
  auto const is_reported = [](MPI_Datatype type, MPI_Op op) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    int const mine = world_rank() + 1;
    int result = 0;
    bool const has_failed = MPI_Allreduce(&mine, &result, 1, type, op, copy) != MPI_SUCCESS;
    MPI_Comm_free(&copy);
    return has_failed;
  };
  bool const is_first = world_rank() == 0;
  bool const of_types = is_reported(is_first ? MPI_FLOAT : MPI_INT, MPI_SUM);
  bool const of_operations = is_reported(MPI_INT, is_first ? MPI_MAX : MPI_MIN);
  say("reported of operations as of types", of_operations == of_types ? 1 : 0);
}

void many_at_once(std::size_t how_many) {
  std::vector<MPI_Comm> copies;
  int total = 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  for (std::size_t k = 0; k < how_many; ++k) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    copies.push_back(copy);
  }
  for (auto const copy : copies) total += sum_over(copy, 1);
  for (auto& copy : copies) MPI_Comm_free(&copy);
  say("many", total);
}

int at_the_very_end(MPI_Comm, int, void*, void*) {
  std::printf("at the very end: %d\n", sum_over(MPI_COMM_WORLD, 4));
  return MPI_SUCCESS;
}

}  // namespace

int main(int count, char** texts) {
  std::string_view const level = count > 1 ? texts[1] : "single";
  int provided = 0;
  int wanted = MPI_THREAD_SINGLE;
  if (level == "serialized") wanted = MPI_THREAD_SERIALIZED;
  if (level == "multiple") wanted = MPI_THREAD_MULTIPLE;
  if (level == "single") {
    MPI_Init(&count, &texts);
  } else {
    MPI_Init_thread(&count, &texts, wanted, &provided);
    say("level", provided == wanted ? 1 : 0);
  }
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_the_very_end, &keyval, nullptr);
  if (world_rank() % 2 == 0) MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  communicators_come_and_go();
  each_rank_frees_in_an_order_of_its_own();
  attributes_call_when_they_go();
  freed_while_something_is_under_way();
  pending_while_others_are_called();
  if (provided == MPI_THREAD_MULTIPLE) threads_with_communicators_of_their_own();
  messages_of_the_program_pass_by();
  two_groups();
  neighbours();
  types();
  blocks_side_by_side();
  nothing();
  operation_on_a_derived_type();
  operations_see_what_there_is_alone();
  numbers_that_are_not_aligned();
  wide_counts();
  mistakes();
  calls_that_differ();
  many_at_once(12);
  if (world_rank() % 2 != 0) MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  MPI_Comm leaked = MPI_COMM_NULL;  // as in many programs
  MPI_Comm_dup(MPI_COMM_WORLD, &leaked);
  say("leaked", sum_over(leaked, 1));
  MPI_Finalize();
  return 0;
}
