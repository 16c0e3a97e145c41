// SPDX-License-Identifier: Apache-2.0
// The body of main in a program on MPI. See scripts/check_pages.
#include <blink/mpi.hpp>

#include <vector>

inline void block(int argc, char** argv, std::vector<float>& data, std::vector<float> const& in,
                  std::vector<float>& out) {
#include BLOCK
}
