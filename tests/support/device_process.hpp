// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device ranks on emulated devices in forked processes.

#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/host/communicator_bootstrap.hpp>
#include <blink/transports/host/processes.hpp>

#include "emulated_devices.hpp"
#include "forked_ranks.hpp"

#include <string>
#include <vector>

namespace blink_test {

/// One process with its devices and its communicator.
template <class Ranks>
struct device_process {
  device_process(std::string const& path, int process, blink::device_options const& options,
                 emulated_devices::options what = {.devices = 3})
      : machine((what.shares_memory = true, what)),
        communicator(path, process),
        bootstrap(communicator),
        all(machine, options, bootstrap) {}

  emulated_devices machine;
  blink::process_communicator communicator;
  blink::communicator_bootstrap<blink::process_communicator> bootstrap;
  Ranks all;
};

/// The text that `body(mine, process)` returned or threw, by process. `Part` is a `device_process`,
/// made from `options`.
template <class Part, class Body>
std::vector<std::string> run_device_processes(int processes, blink::device_options const& options,
                                              Body const& body) {
  forked_ranks all(processes);
  all.start([&](int process) {
    Part mine(all.path(), process, options);
    return body(mine, process);
  });
  std::vector<std::string> texts;
  for (auto const& end : all.finish()) texts.push_back(end.text);
  return texts;
}

}  // namespace blink_test
