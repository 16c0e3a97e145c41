// SPDX-License-Identifier: Apache-2.0
// Calls of a rank of MPI. See scripts/check_pages.
#include <blink/mpi.hpp>
#include <blink/schedule/tuning_file.hpp>

#include <chrono>
#include <vector>

inline void block(blink::mpi_communicator& comm, std::vector<double>& gradient,
                  std::vector<float>& data, std::vector<float> const& in, std::vector<float>& out,
                  std::vector<float> const& segment, std::vector<float>& all, int root) {
  {
#include BLOCK
  }
}
