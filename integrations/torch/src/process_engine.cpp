// SPDX-License-Identifier: Apache-2.0
#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/host/process_messengers.hpp>
#include <blink/transports/host/processes.hpp>

#include "engine_over.hpp"
#include "store_bootstrap.hpp"

namespace blink_torch {
namespace {

template <class Bootstrap>
std::unique_ptr<engine> make(Bootstrap& all, std::chrono::milliseconds deadline) {
  blink::communicator_options options;
  options.waits.deadline = deadline;
  return std::make_unique<engine_over<blink::process_communicator>>(
      blink::process_communicator(all, options));
}

}  // namespace

std::unique_ptr<engine> make_process_engine(store_bootstrap& all,
                                            std::chrono::milliseconds deadline) {
  return make(all, deadline);
}
std::unique_ptr<engine> make_process_engine(blink::file_bootstrap& all,
                                            std::chrono::milliseconds deadline) {
  return make(all, deadline);
}

}  // namespace blink_torch
