// SPDX-License-Identifier: Apache-2.0
// Ranks that may lack the preloaded library, and errors as texts. The argument is the case:
// "spawned", "programs" (each program of a launch) or "errors". Ends with 1 if a result is wrong.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

int sum_of_ranks(MPI_Comm comm) {
  int rank = 0, ranks = 0, sum = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum == ranks * (ranks - 1) / 2 ? 0 : 1;
}

// Parents start two children, with the library or without, and both call on all of them.
int spawned(char const* program, bool with_library) {
  MPI_Comm parent = MPI_COMM_NULL, other = MPI_COMM_NULL, all = MPI_COMM_NULL, half = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  int wrong = 0;
  if (parent == MPI_COMM_NULL) {
    wrong += sum_of_ranks(MPI_COMM_WORLD);
    if (!with_library) unsetenv("LD_PRELOAD");
    std::string name = "spawned";
    char* arguments[] = {name.data(), nullptr};
    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                   MPI_ERRCODES_IGNORE);
  } else {
    other = parent;
  }
  MPI_Intercomm_merge(other, parent != MPI_COMM_NULL ? 1 : 0, &all);
  wrong += sum_of_ranks(all);
  int rank = 0;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_split(all, rank % 2, rank, &half);  // also with ranks of both
  wrong += sum_of_ranks(half);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, all);
  MPI_Comm_free(&half);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&other);
  return wrong;
}

// Ranks that call different things can read why.
int errors() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  int rank = 0;
  MPI_Comm_rank(copy, &rank);
  float data[4] = {};
  int const code =
      MPI_Allreduce(MPI_IN_PLACE, data, 2, rank == 0 ? MPI_FLOAT : MPI_INT, MPI_SUM, copy);
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0, kind = MPI_SUCCESS;
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &kind);
  bool const says_it =
      std::string_view(text).find("calls all_reduce, call 1, with types") != std::string_view::npos;
  if (!says_it || kind == MPI_SUCCESS) std::printf("rank %d: %d, %s\n", rank, kind, text);
  MPI_Comm_free(&copy);
  return says_it && kind != MPI_SUCCESS ? 0 : 1;
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  std::string_view const what = count > 1 ? texts[1] : "";
  int wrong = 1;
  if (what == "spawned") wrong = spawned(texts[0], count > 2);
  if (what == "programs") wrong = sum_of_ranks(MPI_COMM_WORLD);
  if (what == "errors") wrong = errors();
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
