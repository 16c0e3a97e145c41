// SPDX-License-Identifier: Apache-2.0
// Nonblocking and persistent collectives as MPI programs use them. Prints its results, so that two
// runs can be compared. Arguments: nothing, or `multiple` for that level of threads.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace {

int rank = 0;
int ranks = 1;
// Open MPI 4.1.4 alone crashes or gives a wrong result in two of these cases.
bool const is_on_blink = std::getenv("BLINK_PMPI_REPORT") != nullptr;

void say(char const* what, long long value) {
  std::printf("rank %d, %s: %lld\n", rank, what, value);
}
template <class T>
long long digest(std::vector<T> const& values) {
  std::uint64_t sum = 14695981039346656037U;
  for (auto const value : values) sum = (sum ^ static_cast<std::uint64_t>(value)) * 1099511628211U;
  return static_cast<long long>(sum >> 1);
}
/// MPICH refuses buffers with equal addresses, as empty ones may have.
std::vector<int> room(std::size_t count) {
  std::vector<int> result;
  result.reserve(count + 1);
  result.assign(count, -1);
  return result;
}
std::vector<int> own(std::size_t count, int turn) {
  auto result = room(count);
  for (std::size_t k = 0; k < count; ++k)
    result[k] = rank * 1000 + turn * 10 + static_cast<int>(k % 7);
  return result;
}
void wait(MPI_Request& request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (request != MPI_REQUEST_NULL) say("the request is left", 1);
}

/// Not commutative: the last digits in the order of the ranks.
void append(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int k = 0; k < *count; ++k) {
    auto& right = static_cast<long long*>(inout)[k];
    right = static_cast<long long*>(in)[k] * 10 + right;
  }
}

void each_collective(MPI_Comm comm, std::size_t count) {
  auto const n = static_cast<int>(count);
  auto const size = static_cast<std::size_t>(ranks);
  std::vector<int> const in = own(count, 1), wide = own(count * size, 2);
  std::vector<int> counts(size, n), places(size), uneven(size), uneven_places(size);
  std::iota(places.begin(), places.end(), 0);
  for (auto& place : places) place *= n;
  int end = 0;
  for (std::size_t k = 0; k < size; ++k) {
    uneven[k] = n / (static_cast<int>(k) + 1);
    uneven_places[k] = end;
    end += uneven[k];
  }
  int const mine = uneven[static_cast<std::size_t>(rank)];
  MPI_Request request = MPI_REQUEST_NULL;
  for (int root = 0; root < ranks; ++root) {
    std::vector<int> out = room(count), all = room(count * size);
    bool const is_root = rank == root;
    MPI_Ireduce(in.data(), is_root ? out.data() : nullptr, n, MPI_INT, MPI_SUM, root, comm,
                &request);
    wait(request);
    say("reduce", digest(out));
    out = own(count, root);
    MPI_Ibcast(out.data(), n, MPI_INT, root, comm, &request);
    wait(request);
    say("bcast", digest(out));
    MPI_Igather(in.data(), n, MPI_INT, all.data(), n, MPI_INT, root, comm, &request);
    wait(request);
    say("gather", digest(all));
    MPI_Iscatter(wide.data(), n, MPI_INT, out.data(), n, MPI_INT, root, comm, &request);
    wait(request);
    say("scatter", digest(out));
    std::fill(all.begin(), all.end(), -1);
    MPI_Igatherv(in.data(), mine, MPI_INT, all.data(), uneven.data(), uneven_places.data(), MPI_INT,
                 root, comm, &request);
    wait(request);
    say("gatherv", digest(all));
    MPI_Iscatterv(wide.data(), uneven.data(), uneven_places.data(), MPI_INT, out.data(), mine,
                  MPI_INT, root, comm, &request);
    wait(request);
    say("scatterv", digest(out));
  }
  std::vector<int> out = room(count), all = room(count * size);
  MPI_Iallreduce(in.data(), out.data(), n, MPI_INT, MPI_SUM, comm, &request);
  wait(request);
  say("allreduce", digest(out));
  out = in;
  MPI_Iallreduce(MPI_IN_PLACE, out.data(), n, MPI_INT, MPI_MAX, comm, &request);
  wait(request);
  say("allreduce in place", digest(out));
  MPI_Iallgather(in.data(), n, MPI_INT, all.data(), n, MPI_INT, comm, &request);
  wait(request);
  say("allgather", digest(all));
  std::fill(all.begin(), all.end(), -1);
  MPI_Iallgatherv(in.data(), mine, MPI_INT, all.data(), uneven.data(), uneven_places.data(),
                  MPI_INT, comm, &request);
  wait(request);
  say("allgatherv", digest(all));
  MPI_Ialltoall(wide.data(), n, MPI_INT, all.data(), n, MPI_INT, comm, &request);
  wait(request);
  say("alltoall", digest(all));
  MPI_Ialltoallv(wide.data(), counts.data(), places.data(), MPI_INT, all.data(), counts.data(),
                 places.data(), MPI_INT, comm, &request);
  wait(request);
  say("alltoallv", digest(all));
  MPI_Ireduce_scatter_block(wide.data(), out.data(), n, MPI_INT, MPI_SUM, comm, &request);
  wait(request);
  say("reduce_scatter_block", digest(out));
  MPI_Ireduce_scatter(wide.data(), out.data(), uneven.data(), MPI_INT, MPI_SUM, comm, &request);
  wait(request);
  say("reduce_scatter", digest(out));
  MPI_Ibarrier(comm, &request);
  wait(request);
}

// The program may free its operations and datatypes as soon as calls are started.
void operations_and_types_are_freed_early() {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(append, 0, &op);
  long long const mine = rank + 1;
  long long all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &all, 1, MPI_LONG_LONG, op, MPI_COMM_WORLD, &request);
  MPI_Op_free(&op);
  wait(request);
  long long expected = 0;
  for (int from = 1; from <= ranks; ++from) expected = expected * 10 + from;
  say("an operation that was freed", is_on_blink ? all : expected);

  MPI_Datatype columns = MPI_DATATYPE_NULL;
  MPI_Type_vector(100, 1, 3, MPI_INT, &columns);
  MPI_Type_commit(&columns);
  std::vector<int> matrix = own(300, rank);
  MPI_Ibcast(matrix.data(), 1, columns, ranks - 1, MPI_COMM_WORLD, &request);
  MPI_Type_free(&columns);
  wait(request);
  say("a type that was freed", digest(matrix));
}

// The second rank receives before it waits. Its part of the collective must move meanwhile.
void a_receive_moves_a_collective(std::size_t count) {
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  std::vector<int> in = own(count, 3), out(count);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(in.data(), out.data(), static_cast<int>(count), MPI_INT, MPI_SUM, fresh, &request);
  int word = 0;
  if (rank == 0) {
    wait(request);
    word = 7;
    for (int peer = 1; peer < ranks; ++peer) MPI_Send(&word, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wait(request);
  }
  say("moved by a receive", digest(out) ^ word);
  MPI_Comm_free(&fresh);
}

// The first rank starts before the others have come to their first call on the communicator.
void a_start_does_not_wait() {
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  int const mine = rank + 5;
  int sum = 0, word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank != 0) MPI_Recv(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, fresh, &request);
  word = 9;
  for (int peer = 1; peer < ranks && rank == 0; ++peer)
    MPI_Ssend(&word, 1, MPI_INT, peer, 2, MPI_COMM_WORLD);
  wait(request);
  say("started first", sum + word);
  MPI_Comm_free(&fresh);
}

// Ranks may start calls on different communicators in different orders.
void communicators_cross() {
  std::array<MPI_Comm, 3> comms{};
  for (auto& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::array<int, 3> in{rank, rank * 2, rank * 3}, out{};
  std::array<MPI_Request, 3> requests{};
  for (std::size_t k = 0; k < comms.size(); ++k) {
    auto const c = (k + static_cast<std::size_t>(rank)) % comms.size();
    MPI_Iallreduce(&in[c], &out[c], 1, MPI_INT, MPI_SUM, comms[c], &requests[c]);
  }
  for (std::size_t k = 0; k < comms.size(); ++k)
    wait(requests[(k * 2 + static_cast<std::size_t>(rank)) % comms.size()]);
  say("crossed", out[0] + 100 * out[1] + 10000 * out[2]);
  for (std::size_t k = 0; k < comms.size(); ++k)
    MPI_Comm_free(&comms[(k + static_cast<std::size_t>(rank)) % comms.size()]);
}

// Collectives between sends and receives in one list, completed in every way.
void lists_of_requests(int turn) {
  int const to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  std::vector<int> const in = own(5000, turn), sent = own(100000, turn + 1);
  std::vector<int> out(5000), second(5000), received(100000);
  std::array<MPI_Request, 5> requests{};
  std::array<MPI_Status, 5> statuses{};
  MPI_Irecv(received.data(), 100000, MPI_INT, from, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Iallreduce(in.data(), out.data(), 5000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
  MPI_Issend(sent.data(), 100000, MPI_INT, to, 3, MPI_COMM_WORLD, &requests[2]);
  MPI_Ireduce(in.data(), second.data(), 5000, MPI_INT, MPI_SUM, turn % ranks, MPI_COMM_WORLD,
              &requests[3]);
  requests[4] = MPI_REQUEST_NULL;
  int count = 0, total = 0, flag = 0;
  std::array<int, 5> indices{};
  switch (turn % 6) {
    case 0:
      MPI_Waitall(5, requests.data(), statuses.data());
      MPI_Get_count(&statuses[1], MPI_INT, &count);
      total = count;
      break;
    case 1:
      for (int left = 4; left > 0; --left) {
        MPI_Waitany(5, requests.data(), &count, statuses.data());
        total += 1 << count;
      }
      MPI_Waitany(5, requests.data(), &count, statuses.data());
      total += count == MPI_UNDEFINED ? 100 : 0;
      break;
    case 2:
      for (int left = 4; left > 0; left -= count) {
        MPI_Waitsome(5, requests.data(), &count, indices.data(), MPI_STATUSES_IGNORE);
        for (int k = 0; k < count; ++k) total += 1 << indices[static_cast<std::size_t>(k)];
      }
      MPI_Waitsome(5, requests.data(), &count, indices.data(), MPI_STATUSES_IGNORE);
      total += count == MPI_UNDEFINED ? 100 : 0;
      break;
    case 3:
      while (flag == 0) MPI_Testall(5, requests.data(), &flag, MPI_STATUSES_IGNORE);
      break;
    case 4:
      for (int left = 4; left > 0;) {
        MPI_Testsome(5, requests.data(), &count, indices.data(), statuses.data());
        left -= count;
        for (int k = 0; k < count; ++k) total += 1 << indices[static_cast<std::size_t>(k)];
      }
      break;
    default:
      for (int left = 4; left > 0;) {
        MPI_Testany(5, requests.data(), &count, &flag, MPI_STATUS_IGNORE);
        if (flag == 0) continue;
        total += 1 << count;
        --left;
      }
  }
  bool const are_null = std::all_of(requests.begin(), requests.end(),
                                    [](MPI_Request one) { return one == MPI_REQUEST_NULL; });
  say("a list", digest(out) ^ digest(received) ^ total ^ (are_null ? 1 : 0));
  if (rank == turn % ranks) say("a list, reduced", digest(second));
}

// A send that waits for its receiver, while that one is in a collective.
void messages_move_while_a_rank_waits() {
  std::vector<int> sent = own(200000, 8), received(200000);
  MPI_Request receive = MPI_REQUEST_NULL, request = MPI_REQUEST_NULL;
  int const mine = rank;
  int sum = 0;
  if (rank == 0) {
    MPI_Irecv(received.data(), 200000, MPI_INT, ranks - 1, 4, MPI_COMM_WORLD, &receive);
  } else if (rank == ranks - 1) {
    MPI_Ssend(sent.data(), 200000, MPI_INT, 0, 4, MPI_COMM_WORLD);
  }
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  wait(request);
  if (rank == 0) wait(receive);
  say("a message meanwhile", digest(received) ^ sum);
}
void wait(MPI_Request& request, bool by_tests) {
  if (!by_tests) return wait(request);
  int is_done = 0, is_seen = 0;
  while (is_seen == 0) MPI_Request_get_status(request, &is_seen, MPI_STATUS_IGNORE);
  MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
  if (is_done == 0 || request != MPI_REQUEST_NULL) say("seen and not done", 0);
}

// Blocking calls, and the end of the communicator, come after what was started.
void blocking_calls_come_after() {
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  std::vector<int> const in = own(3000, 4);
  std::vector<int> first(3000), second(3000), third(3000), last(3000);
  std::array<MPI_Request, 3> requests{};
  MPI_Iallreduce(in.data(), first.data(), 3000, MPI_INT, MPI_SUM, fresh, &requests[0]);
  MPI_Iallreduce(in.data(), second.data(), 3000, MPI_INT, MPI_MAX, fresh, &requests[1]);
  MPI_Allreduce(in.data(), third.data(), 3000, MPI_INT, MPI_MIN, fresh);
  MPI_Iallreduce(in.data(), last.data(), 3000, MPI_INT, MPI_SUM, fresh, &requests[2]);
  if (is_on_blink) MPI_Comm_free(&fresh);
  MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE);
  if (!is_on_blink) MPI_Comm_free(&fresh);
  say("in order", digest(first) ^ digest(second) ^ digest(third) ^ digest(last));
}

// Calls that the library serves keep their places among all calls of the communicator, whenever the
// ranks move what they have started.
void calls_of_the_library_between() {
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  constexpr std::size_t calls = 9;
  std::array<int, calls> in{}, out{};
  std::array<MPI_Request, calls> requests{};
  for (std::size_t k = 0; k < calls; ++k) {
    in[k] = rank + static_cast<int>(k);
    if (k % 3 == 0) MPI_Iallreduce(&in[k], &out[k], 1, MPI_INT, MPI_SUM, fresh, &requests[k]);
    if (k % 3 == 1) MPI_Iscan(&in[k], &out[k], 1, MPI_INT, MPI_SUM, fresh, &requests[k]);
    if (k % 3 == 2) MPI_Ibcast(&in[k], 0, MPI_INT, 0, fresh, &requests[k]);  // without a byte
    int is_done = 0;
    for (int tests = 0; tests < rank * 50; ++tests)
      MPI_Testall(static_cast<int>(k), requests.data(), &is_done, MPI_STATUSES_IGNORE);
  }
  for (std::size_t k = 0; k < calls; ++k)
    wait(requests[(k * 4 + static_cast<std::size_t>(rank)) % calls]);
  int last = 0;
  MPI_Scan(&in[0], &last, 1, MPI_INT, MPI_SUM, fresh);
  long long sum = last;
  for (std::size_t k = 0; k < calls; ++k) sum = sum * 31 + out[k];
  say("between", sum);
  MPI_Comm_free(&fresh);
}

// Many at once, of random kinds and sizes, on three communicators.
void many_at_once(unsigned seed) {
  std::array<MPI_Comm, 3> comms{MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL};
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
  std::mt19937 random(seed);  // the same on all ranks
  constexpr std::size_t calls = 60;
  std::vector<std::vector<int>> in(calls), out(calls);
  std::vector<MPI_Request> requests;
  std::size_t waited = 0;
  for (std::size_t k = 0; k < calls; ++k) {
    auto const count = static_cast<std::size_t>(random() % (k % 5 == 0 ? 60000 : 50));
    auto const n = static_cast<int>(count);
    auto const comm = comms[random() % comms.size()];
    int const root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    in[k] = own(count * static_cast<std::size_t>(ranks), static_cast<int>(k));
    out[k] = room(in[k].size());
    auto& request = requests.emplace_back(MPI_REQUEST_NULL);
    switch (random() % 6) {
      case 0:
        MPI_Iallreduce(in[k].data(), out[k].data(), n, MPI_INT, MPI_SUM, comm, &request);
        break;
      case 1:
        MPI_Ibcast(in[k].data(), n, MPI_INT, root, comm, &request);
        break;
      case 2:
        MPI_Ialltoall(in[k].data(), n, MPI_INT, out[k].data(), n, MPI_INT, comm, &request);
        break;
      case 3:
        MPI_Iallgather(in[k].data(), n, MPI_INT, out[k].data(), n, MPI_INT, comm, &request);
        break;
      case 4:
        MPI_Ireduce_scatter_block(in[k].data(), out[k].data(), n, MPI_INT, MPI_SUM, comm, &request);
        break;
      default:
        MPI_Allreduce(in[k].data(), out[k].data(), n, MPI_INT, MPI_MAX, comm);
    }
    if (random() % 4 == 0 && waited < requests.size()) wait(requests[waited++], k % 3 == 0);
  }
  std::vector<std::size_t> order;
  for (std::size_t k = waited; k < requests.size(); ++k) order.push_back(k);
  std::mt19937 own_random(seed + static_cast<unsigned>(rank));
  std::shuffle(order.begin(), order.end(), own_random);
  for (auto const k : order) wait(requests[k], k % 3 == 0);
  long long sum = 0;
  for (std::size_t k = 0; k < calls; ++k) sum += digest(in[k]) ^ digest(out[k]);
  say("many at once", sum);
  MPI_Comm_free(&comms[1]);
  MPI_Comm_free(&comms[2]);
}

void persistent_calls() {
#if MPI_VERSION >= 4
  std::vector<int> in(4000), out(4000), copied(4000);
  int word = rank, heard = 0;
  int const to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  std::array<MPI_Request, 4> requests{};
  MPI_Allreduce_init(in.data(), out.data(), 4000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[0]);
  MPI_Bcast_init(copied.data(), 4000, MPI_INT, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[1]);
  MPI_Send_init(&word, 1, MPI_INT, to, 6, MPI_COMM_WORLD, &requests[2]);
  MPI_Recv_init(&heard, 1, MPI_INT, from, 6, MPI_COMM_WORLD, &requests[3]);
  int flag = 0;
  MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);  // not started: done, which MPICH 4.0.2 denies
  long long sum = is_on_blink ? flag : 1;
  for (int turn = 0; turn < 6; ++turn) {
    std::ranges::copy(own(4000, turn), in.begin());
    std::ranges::copy(own(4000, turn + 1), copied.begin());
    word = rank * 10 + turn;
    MPI_Startall(4, requests.data());
    MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
    sum += (digest(out) ^ digest(copied)) + heard;
    MPI_Start(&requests[0]);
    for (flag = 0; flag == 0;) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    sum += digest(out);
  }
  // Ranks may start persistent calls in different orders.
  for (int turn = 0; turn < 4; ++turn) {
    auto const first = static_cast<std::size_t>((rank + turn) % 2);
    std::ranges::copy(own(4000, turn + 20), in.begin());
    std::ranges::copy(own(4000, turn + 21), copied.begin());
    MPI_Start(&requests[first]);
    MPI_Start(&requests[1 - first]);
    MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
    sum += digest(out) ^ digest(copied);
  }
  say("persistent", sum);
  for (auto& request : requests) MPI_Request_free(&request);
  say("persistent, freed", requests[0] == MPI_REQUEST_NULL ? 1 : 0);
#endif
}

// Two threads, each with calls on a communicator of its own.
void threads_start_and_wait() {
  std::array<MPI_Comm, 2> comms{};
  for (auto& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::array<long long, 2> sums{};
  auto const work = [&](std::size_t which) {
    for (int turn = 0; turn < 200; ++turn) {
      std::vector<int> const in = own(turn % 10 == 0 ? 30000 : 10, turn);
      std::vector<int> out(in.size());
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_INT, MPI_SUM,
                     comms[which], &request);
      wait(request, turn % 2 == 0);
      sums[which] += digest(out);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  say("threads", sums[0] ^ sums[1]);
  // Started by one thread, completed by another one.
  std::vector<int> const in = own(30000, 5);
  std::vector<int> out(in.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(in.data(), out.data(), 30000, MPI_INT, MPI_SUM, comms[0], &request);
  std::thread([&] { wait(request); }).join();
  say("another thread", digest(out));
  for (auto& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int count, char** texts) {
  bool const has_threads = count > 1 && std::string_view(texts[1]) == "multiple";
  int level = 0;
  MPI_Init_thread(&count, &texts, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  a_start_does_not_wait();
  MPI_Barrier(MPI_COMM_WORLD);  // begins its blink communicator, also with Open MPI
  a_receive_moves_a_collective(1);
  a_receive_moves_a_collective(1000000);
  communicators_cross();
  for (std::size_t const size : {0U, 1U, 37U, 5000U, 300000U})
    each_collective(MPI_COMM_WORLD, size);
  operations_and_types_are_freed_early();
  for (int turn = 0; turn < 12; ++turn) lists_of_requests(turn);
  messages_move_while_a_rank_waits();
  blocking_calls_come_after();
  calls_of_the_library_between();
  for (unsigned seed = 1; seed < 6; ++seed) many_at_once(seed);
  persistent_calls();
  if (has_threads && level == MPI_THREAD_MULTIPLE) threads_start_and_wait();
  MPI_Finalize();
  return 0;
}
