// SPDX-License-Identifier: Apache-2.0
// Sums of floats along the tree of the ranks. The argument says how the program asks for it: "info"
// by an info key, "environment" by BLINK_ORDER. Ends with 1 if a bit differs from a serial sum.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace {

using floats = std::vector<float>;

floats drawn(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(17 * rank) + 1);
  floats result(count);
  for (auto& value : result) value = static_cast<float>(random() % 100000) / 777.0F;
  return result;
}

// Halves; or two thirds and one.
float along_tree(std::vector<floats> const& of_ranks, std::size_t i, std::size_t from,
                 std::size_t many) {
  if (many == 1) return of_ranks[from][i];
  std::size_t left = many - 1;
  if (many % 2 == 0) {
    left = many / 2;
  } else if (many % 3 == 0) {
    left = many / 3 * 2;
  }
  return along_tree(of_ranks, i, from, left) + along_tree(of_ranks, i, from + left, many - left);
}

int wrong_bits(MPI_Comm comm, bool is_expected_wrong = false) {
  int rank = 0, ranks = 0, wrong = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  auto const all = static_cast<std::size_t>(ranks);
  for (std::size_t const count : {1U, 100U, 5000U, 300000U}) {
    std::vector<floats> of_ranks;
    for (int each = 0; each < ranks; ++each) of_ranks.push_back(drawn(each, count * all));
    floats expected(count * all);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = along_tree(of_ranks, i, 0, all);
    }
    auto const& own = of_ranks[static_cast<std::size_t>(rank)];
    auto const differs = [&](floats const& result, std::size_t from) {
      return std::memcmp(result.data(), expected.data() + from, count * sizeof(float)) == 0 ? 0 : 1;
    };
    floats result(count);
    auto const n = static_cast<int>(count);
    MPI_Allreduce(own.data(), result.data(), n, MPI_FLOAT, MPI_SUM, comm);
    wrong += differs(result, 0);
    MPI_Reduce(own.data(), result.data(), n, MPI_FLOAT, MPI_SUM, ranks - 1, comm);
    wrong += rank == ranks - 1 ? differs(result, 0) : 0;
    MPI_Reduce_scatter_block(own.data(), result.data(), n, MPI_FLOAT, MPI_SUM, comm);
    wrong += differs(result, count * static_cast<std::size_t>(rank));
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, comm);
  if (!is_expected_wrong && rank == 0) std::printf("%d results differ\n", wrong);
  return wrong;
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  int wrong = 0;
  if (std::string_view(texts[1]) == "environment") {
    wrong += wrong_bits(MPI_COMM_WORLD);
  } else {
    MPI_Comm copy = MPI_COMM_NULL, second = MPI_COMM_NULL, third = MPI_COMM_NULL;
    MPI_Info hints = MPI_INFO_NULL;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "blink_order", "ranks");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, hints, &copy);
    wrong += wrong_bits(copy);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    if (wrong_bits(second, true) == 0) {
      std::printf("the order without a promise is the same: this tests nothing\n");
      ++wrong;
    }
    MPI_Comm_set_info(second, hints);  // after calls
    wrong += wrong_bits(second);
    MPI_Comm_dup(second, &third);
    wrong += wrong_bits(third);
    MPI_Info_set(hints, "blink_order", "rank");
    MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN);
    int kind = MPI_SUCCESS;
    MPI_Error_class(MPI_Comm_set_info(second, hints), &kind);
    wrong += kind == MPI_ERR_INFO_VALUE ? 0 : 1;
    for (auto* comm : {&copy, &second, &third}) MPI_Comm_free(comm);
    MPI_Info_free(&hints);
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
