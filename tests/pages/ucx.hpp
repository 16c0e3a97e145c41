// SPDX-License-Identifier: Apache-2.0
// A process among hosts that UCX joins. See scripts/check_pages.
#include <blink/ucx.hpp>

#include <string>
#include <vector>

inline void block(std::string const& folder, int rank, int ranks, std::vector<float>& gradient,
                  blink::ucx_communicator& present, int newcomer) {
  int step = 0;
  int const steps = 3;
  static_cast<void>(step + steps);
#include BLOCK
}
