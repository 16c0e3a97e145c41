// SPDX-License-Identifier: Apache-2.0
// An MPI program without blink. It makes many random legal calls and prints a checksum of every
// result on every rank, so that two runs can be compared. All values are whole numbers: the order
// of sums does not matter.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

namespace {

using random_engine = std::mt19937_64;

std::uint64_t sum_of(void const* data, std::size_t bytes) {
  std::uint64_t sum = 1469598103934665603U;
  for (std::size_t k = 0; k < bytes; ++k) {
    sum = (sum ^ static_cast<unsigned char const*>(data)[k]) * 1099511628211U;
  }
  return sum;
}

/// Composes maps x -> a x + b modulo 251: associative, not commutative.
void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  auto const* const f = static_cast<int const*>(in);
  auto* const g = static_cast<int*>(inout);
  for (int k = 0; k < *count; ++k) {
    int const a = f[2 * k] * g[2 * k] % 251;
    int const b = (f[2 * k] * g[2 * k + 1] + f[2 * k + 1]) % 251;
    g[2 * k] = a;
    g[2 * k + 1] = b;
  }
}

struct double_int {
  double value;
  int place;
};

/// A type, its bytes in memory, and operations for it.
struct kind {
  MPI_Datatype type;
  std::size_t extent;
  std::vector<MPI_Op> ops;
};

/// Fills with small whole numbers; leaves no gap undefined.
void fill(std::vector<unsigned char>& memory, MPI_Datatype type, random_engine& own) {
  for (auto& byte : memory) byte = 0;
  auto const set = [&](auto example) {
    using T = decltype(example);
    auto* const values = reinterpret_cast<T*>(memory.data());
    for (std::size_t k = 0; k < memory.size() / sizeof(T); ++k) {
      values[k] = static_cast<T>(own() % 3 + 1);
    }
  };
  if (type == MPI_FLOAT) return set(0.0F);
  if (type == MPI_DOUBLE || type == MPI_C_DOUBLE_COMPLEX) return set(0.0);
  if (type == MPI_LONG_LONG) return set(0LL);
  if (type == MPI_UNSIGNED_SHORT) return set(static_cast<unsigned short>(0));
  if (type == MPI_DOUBLE_INT) {
    auto* const pairs = reinterpret_cast<double_int*>(memory.data());
    for (std::size_t k = 0; k < memory.size() / sizeof(double_int); ++k) {
      pairs[k].value = static_cast<double>(own() % 3);
      pairs[k].place = static_cast<int>(own() % 7);
    }
    return;
  }
  set(0);
}

/// The bits of the values only: gaps inside elements are unspecified.
std::uint64_t sum_of_values(std::vector<unsigned char> const& memory, MPI_Datatype type) {
  if (type != MPI_DOUBLE_INT) return sum_of(memory.data(), memory.size());
  std::uint64_t sum = 0;
  auto const* const pairs = reinterpret_cast<double_int const*>(memory.data());
  for (std::size_t k = 0; k < memory.size() / sizeof(double_int); ++k) {
    sum = sum * 31 + sum_of(&pairs[k].value, sizeof(double)) + sum_of(&pairs[k].place, sizeof(int));
  }
  return sum;
}

std::size_t random_count(random_engine& random) {
  switch (random() % 6) {
    case 0:
      return random() % 3;
    case 1:
      return 20000 + random() % 3000;
    default:
      return random() % 700;
  }
}

class calls {
 public:
  explicit calls(MPI_Comm comm, std::vector<kind> const& kinds) : comm_(comm), kinds_(&kinds) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &ranks_);
    own_.seed(static_cast<std::uint64_t>(rank_) + 77);
  }

  /// Makes one call; `random` is equal on all ranks. Returns the checksum of the result.
  std::uint64_t make_one(random_engine& random) {
    auto const& of = (*kinds_)[random() % kinds_->size()];
    MPI_Op const op = of.ops[random() % of.ops.size()];
    auto const count = random_count(random);
    auto const n = static_cast<int>(count);
    auto const ranks = static_cast<std::size_t>(ranks_);
    bool const in_place = random() % 2 == 0;
    int const root = static_cast<int>(random() % ranks);
    std::vector<unsigned char> one(count * of.extent), all(count * of.extent * ranks);
    fill(one, of.type, own_);
    fill(all, of.type, own_);
    switch (random() % 15) {
      case 0:
        if (in_place) {
          MPI_Allreduce(MPI_IN_PLACE, one.data(), n, of.type, op, comm_);
          return sum_of_values(one, of.type);
        }
        all.resize(one.size());
        MPI_Allreduce(one.data(), all.data(), n, of.type, op, comm_);
        return sum_of_values(all, of.type);
      case 1:
        all.resize(one.size());
        if (rank_ != root) {
          MPI_Reduce(one.data(), nullptr, n, of.type, op, root, comm_);
          return 0;
        }
        // MPICH 4.0.2 reads from MPI_IN_PLACE at roots other than 0 from 2 KiB on.
        if (in_place && root == 0) {
          all = one;
          MPI_Reduce(MPI_IN_PLACE, all.data(), n, of.type, op, root, comm_);
        } else {
          MPI_Reduce(one.data(), all.data(), n, of.type, op, root, comm_);
        }
        return sum_of_values(all, of.type);
      case 2:
        MPI_Bcast(one.data(), n, of.type, root, comm_);
        return sum_of_values(one, of.type);
      case 3: {
        auto* const own_block = all.data() + one.size() * static_cast<std::size_t>(rank_);
        if (in_place) {
          std::copy(one.begin(), one.end(), own_block);
          MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), n, of.type, comm_);
        } else {
          MPI_Allgather(one.data(), n, of.type, all.data(), n, of.type, comm_);
        }
        return sum_of_values(all, of.type);
      }
      case 4:
        if (in_place) {
          MPI_Reduce_scatter_block(MPI_IN_PLACE, all.data(), n, of.type, op, comm_);
          all.resize(one.size());
          return sum_of_values(all, of.type);
        }
        MPI_Reduce_scatter_block(all.data(), one.data(), n, of.type, op, comm_);
        return sum_of_values(one, of.type);
      case 5:
        MPI_Barrier(comm_);
        return 0;
      case 6: {
        auto other = all;
        if (in_place && of.type != MPI_DOUBLE_INT) {  // MPICH 4.0.2 fails there, see below
          MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), n, of.type, comm_);
        } else {
          MPI_Alltoall(other.data(), n, of.type, all.data(), n, of.type, comm_);
        }
        return sum_of_values(all, of.type);
      }
      case 7: {
        if (of.type == MPI_DOUBLE_INT) return 0;  // MPICH 4.0.2 fails if elements have gaps
        bool const is_root = rank_ == root;
        auto* const own_block = all.data() + one.size() * static_cast<std::size_t>(rank_);
        if (is_root && in_place) {
          std::copy(one.begin(), one.end(), own_block);
          MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), n, of.type, root, comm_);
        } else {
          MPI_Gather(one.data(), n, of.type, is_root ? all.data() : nullptr, is_root ? n : 0,
                     is_root ? of.type : MPI_DATATYPE_NULL, root, comm_);
        }
        return is_root ? sum_of_values(all, of.type) : 0;
      }
      case 8: {
        bool const is_root = rank_ == root;
        if (is_root && in_place) {
          MPI_Scatter(all.data(), n, of.type, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm_);
          return sum_of_values(all, of.type);
        }
        MPI_Scatter(is_root ? all.data() : nullptr, is_root ? n : 0,
                    is_root ? of.type : MPI_DATATYPE_NULL, one.data(), n, of.type, root, comm_);
        return sum_of_values(one, of.type);
      }
      case 9:
        return gather_unequal(of, count, in_place, random);
      case 10:
        // MPICH 4.0.2 also fails here.
        return transpose_unequal(of, count, in_place && of.type != MPI_DOUBLE_INT, random);
      case 11:
        return scatter_reduced(of, op, count, in_place, random);
      case 12:
        // MPICH 4.0.2 fails if elements have gaps.
        return collect_unequal(of, count, in_place && of.type != MPI_DOUBLE_INT, root, random);
      case 13:
        return spread_unequal(of, count, in_place && of.type != MPI_DOUBLE_INT, root, random);
      default:
        return with_gaps(static_cast<int>(count % 300), root);
    }
  }

 private:
  // Counts of at most `most`, equal on all ranks; some are 0.
  std::vector<int> unequal(std::size_t most, random_engine& random) const {
    std::vector<int> counts;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto const below = most + 1;
      counts.push_back(random() % 4 == 0 ? 0 : static_cast<int>(random() % below));
    }
    return counts;
  }
  // Displacements of consecutive blocks with gaps of the rank's choice, or in reverse; ends in
  // `*end`.
  std::vector<int> spread(std::vector<int> const& counts, std::size_t* end) {
    std::vector<int> displacements(counts.size());
    int const gap = static_cast<int>(own_() % 3);
    bool const is_reverse = own_() % 2 == 0;
    int next = gap;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      std::size_t const rank = is_reverse ? counts.size() - 1 - k : k;
      displacements[rank] = next;
      next += counts[rank] + gap;
    }
    *end = static_cast<std::size_t>(next);
    return displacements;
  }
  std::uint64_t gather_unequal(kind const& of, std::size_t most, bool in_place,
                               random_engine& random) {
    auto const counts = unequal(most, random);
    std::size_t end = 0;
    auto const displacements = spread(counts, &end);
    auto const own = static_cast<std::size_t>(rank_);
    std::vector<unsigned char> all(end * of.extent);
    std::vector<unsigned char> mine(static_cast<std::size_t>(counts[own]) * of.extent);
    fill(all, of.type, own_);
    fill(mine, of.type, own_);
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : static_cast<void*>(mine.data()), counts[own], of.type,
                   all.data(), counts.data(), displacements.data(), of.type, comm_);
    return sum_of_values(all, of.type);
  }
  // Only the root knows all counts.
  std::uint64_t collect_unequal(kind const& of, std::size_t most, bool in_place, int root,
                                random_engine& random) {
    auto const counts = unequal(most, random);
    auto const own = static_cast<std::size_t>(rank_);
    std::vector<unsigned char> mine(static_cast<std::size_t>(counts[own]) * of.extent);
    fill(mine, of.type, own_);
    if (rank_ != root) {
      MPI_Gatherv(mine.data(), counts[own], of.type, nullptr, nullptr, nullptr, MPI_DATATYPE_NULL,
                  root, comm_);
      return 0;
    }
    std::size_t end = 0;
    auto const displacements = spread(counts, &end);
    std::vector<unsigned char> all(end * of.extent);
    fill(all, of.type, own_);
    MPI_Gatherv(in_place ? MPI_IN_PLACE : static_cast<void*>(mine.data()), counts[own], of.type,
                all.data(), counts.data(), displacements.data(), of.type, root, comm_);
    return sum_of_values(all, of.type);
  }
  std::uint64_t spread_unequal(kind const& of, std::size_t most, bool in_place, int root,
                               random_engine& random) {
    auto const counts = unequal(most, random);
    auto const own = static_cast<std::size_t>(rank_);
    std::vector<unsigned char> mine(static_cast<std::size_t>(counts[own]) * of.extent);
    fill(mine, of.type, own_);
    if (rank_ != root) {
      MPI_Scatterv(nullptr, nullptr, nullptr, MPI_DATATYPE_NULL, mine.data(), counts[own], of.type,
                   root, comm_);
      return sum_of_values(mine, of.type);
    }
    std::size_t end = 0;
    auto const displacements = spread(counts, &end);
    std::vector<unsigned char> all(end * of.extent);
    fill(all, of.type, own_);
    MPI_Scatterv(all.data(), counts.data(), displacements.data(), of.type,
                 in_place ? MPI_IN_PLACE : static_cast<void*>(mine.data()), counts[own], of.type,
                 root, comm_);
    return sum_of_values(in_place ? all : mine, of.type);
  }
  std::uint64_t transpose_unequal(kind const& of, std::size_t most, bool in_place,
                                  random_engine& random) {
    auto const ranks = static_cast<std::size_t>(ranks_);
    auto const own = static_cast<std::size_t>(rank_);
    std::vector<std::vector<int>> counts;  // by sender and receiver; in place equal in both
                                           // directions
    for (std::size_t from = 0; from < ranks; ++from) counts.push_back(unequal(most, random));
    std::vector<int> receives;
    for (std::size_t from = 0; from < ranks; ++from) {
      if (in_place && from > own) counts[from][own] = counts[own][from];
      if (in_place && from < own) counts[own][from] = counts[from][own];
      receives.push_back(counts[from][own]);
    }
    std::size_t in_end = 0;
    std::size_t out_end = 0;
    auto const in_at = spread(counts[own], &in_end);
    auto const out_at = spread(receives, &out_end);
    std::vector<unsigned char> in(in_end * of.extent), out(out_end * of.extent);
    fill(in, of.type, own_);
    fill(out, of.type, own_);
    if (in_place) {
      MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, out.data(), receives.data(),
                    out_at.data(), of.type, comm_);
    } else {
      MPI_Alltoallv(in.data(), counts[own].data(), in_at.data(), of.type, out.data(),
                    receives.data(), out_at.data(), of.type, comm_);
    }
    return sum_of_values(out, of.type);
  }
  std::uint64_t scatter_reduced(kind const& of, MPI_Op op, std::size_t most, bool in_place,
                                random_engine& random) {
    auto const counts = unequal(most, random);
    std::size_t all = 0;
    for (int const count : counts) all += static_cast<std::size_t>(count);
    auto const own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]);
    std::vector<unsigned char> in(all * of.extent), out(own * of.extent);
    fill(in, of.type, own_);
    if (in_place) {
      MPI_Reduce_scatter(MPI_IN_PLACE, in.data(), counts.data(), of.type, op, comm_);
      in.resize(out.size());
      return sum_of_values(in, of.type);
    }
    MPI_Reduce_scatter(in.data(), out.data(), counts.data(), of.type, op, comm_);
    return sum_of_values(out, of.type);
  }

  // Sends every second int, and receives them consecutively.
  std::uint64_t with_gaps(int n, int root) {
    MPI_Datatype gaps = MPI_DATATYPE_NULL;
    MPI_Type_vector(n, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    auto const size = static_cast<std::size_t>(n);
    std::vector<int> sparse(2 * size + 1, rank_);
    for (std::size_t k = 0; k < size; ++k) sparse[2 * k] = static_cast<int>(own_() % 1000);
    // All ranks use one type: Open MPI 4 fails with different types of equal values.
    MPI_Bcast(sparse.data(), 1, gaps, root, comm_);
    auto const ranks = static_cast<std::size_t>(ranks_);
    std::vector<int> gathered(size * ranks);
    MPI_Allgather(sparse.data(), 1, gaps, gathered.data(), n, MPI_INT, comm_);
    MPI_Type_free(&gaps);
    return sum_of(sparse.data(), sparse.size() * sizeof(int)) +
           sum_of(gathered.data(), gathered.size() * sizeof(int));
  }

  MPI_Comm comm_;
  std::vector<kind> const* kinds_;
  int rank_ = 0;
  int ranks_ = 1;
  random_engine own_;
};

void make_calls(MPI_Comm comm, char const* name, int how_many, std::vector<kind> const& kinds) {
  calls these(comm, kinds);
  random_engine random(5);
  std::vector<std::uint64_t> sums;
  for (int k = 0; k < how_many; ++k) sums.push_back(these.make_one(random));
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<std::uint64_t> all(sums.size() * static_cast<std::size_t>(ranks));
  MPI_Gather(sums.data(), how_many, MPI_UINT64_T, all.data(), how_many, MPI_UINT64_T, 0,
             MPI_COMM_WORLD);
  if (rank != 0) return;
  for (std::size_t k = 0; k < all.size(); ++k) {
    std::printf("%s, rank %zu, call %zu: %016llx\n", name, k / sums.size(), k % sums.size(),
                static_cast<unsigned long long>(all[k]));
  }
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  {
    MPI_Op in_order = MPI_OP_NULL;
    MPI_Op_create(compose, 0, &in_order);
    std::vector<kind> const kinds{
        {MPI_INT, 4, {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_LAND}},
        {MPI_FLOAT, 4, {MPI_SUM, MPI_PROD, MPI_MIN}},
        {MPI_DOUBLE, 8, {MPI_SUM, MPI_MAX}},
        {MPI_LONG_LONG, 8, {MPI_SUM, MPI_BOR, MPI_LXOR}},
        {MPI_UNSIGNED_SHORT, 2, {MPI_SUM, MPI_MIN, MPI_BAND}},
        {MPI_DOUBLE_INT, sizeof(double_int), {MPI_MINLOC, MPI_MAXLOC}},
        {MPI_C_DOUBLE_COMPLEX, 16, {MPI_SUM, MPI_PROD}},
        {MPI_2INT, 8, {in_order, in_order, MPI_MAXLOC}},
    };
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    make_calls(MPI_COMM_WORLD, "world", 160, kinds);
    make_calls(copy, "copy", 60, kinds);
    MPI_Comm_free(&copy);
    make_calls(part, "part", 40, kinds);
    make_calls(MPI_COMM_SELF, "self", 20, kinds);
    MPI_Comm_free(&part);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);  // maybe with the handle of an earlier one
    make_calls(copy, "again", 20, kinds);
    MPI_Comm_free(&copy);
    MPI_Op_free(&in_order);
  }
  MPI_Finalize();
  return 0;
}
