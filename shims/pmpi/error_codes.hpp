// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace blink_pmpi {

/// Returns an error code of that class whose MPI_Error_string is the text. Under MPICH the class is
/// one of blink's own, because it has no texts for codes of predefined classes.
///
/// A process makes few codes, because MPI keeps them. Further texts share one code.
inline int code_of_error(int error_class, std::string text) {
  constexpr std::size_t most = 100;
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, int> codes;
  std::lock_guard const lock(mutex);
#if defined(MPICH_VERSION)
  static int const own_class = [error_class] {
    int result = MPI_SUCCESS;
    if (PMPI_Add_error_class(&result) != MPI_SUCCESS) return error_class;
    PMPI_Add_error_string(result, "blink: a call failed");
    return result;
  }();
  error_class = own_class;
#endif
  text = "blink: " + text;
  if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
  if (codes.size() >= most) text = "blink: an error that standard error has";
  auto const [known, is_new] = codes.try_emplace({error_class, text}, error_class);
  int fresh = 0;
  if (is_new && PMPI_Add_error_code(error_class, &fresh) == MPI_SUCCESS &&
      PMPI_Add_error_string(fresh, text.c_str()) == MPI_SUCCESS) {
    known->second = fresh;
  }
  return known->second;
}

}  // namespace blink_pmpi
