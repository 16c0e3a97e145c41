// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/simulation/simulation_options.hpp>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace blink::tools {

/// Options of `blink simulate` beyond the costs: how links are shared, and what goes wrong.
struct trouble_options {
  std::string sharing = to_text(link_sharing::fifo);
  double reduce_rate = 0;  ///< GB/s; 0: combining takes no time
  bool combines_in_parallel = false;
  std::string noise;                    ///< SEED:SHARE
  std::vector<std::string> slow_ranks;  ///< RANK:FACTOR
  std::vector<std::string> late_ranks;  ///< RANK:US
  std::vector<std::string> degraded;    ///< FROM-TO@US:FACTOR

  /// Sets the fields of a simulation that these options state.
  /// Throws: input_error that names the option and the text.
  void apply(simulation_options& simulated) const;
  /// Text such as "links shared fair, 1 slow rank"; empty with the defaults.
  [[nodiscard]] std::string in_words() const;
};
void add_trouble_options(CLI::App& command, trouble_options& options);

}  // namespace blink::tools
