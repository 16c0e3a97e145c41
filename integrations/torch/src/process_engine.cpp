// SPDX-License-Identifier: Apache-2.0
#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/host/process_environment.hpp>
#include <blink/transports/host/process_messengers.hpp>
#include <blink/transports/host/processes.hpp>

#include "engine_over.hpp"
#include "store_bootstrap.hpp"

namespace blink_torch {
namespace {

template <class Bootstrap>
std::unique_ptr<engine> make(Bootstrap& all, engine_options const& options) {
  blink::communicator_options how;
  how.waits.deadline = options.deadline;
  how.order = blink::detail::environment_order();
  return std::make_unique<engine_over<blink::process_communicator>>(
      blink::process_communicator(all, how));
}

}  // namespace

std::unique_ptr<engine> make_process_engine(store_bootstrap& all, engine_options const& options) {
  return make(all, options);
}
std::unique_ptr<engine> make_process_engine(blink::file_bootstrap& all,
                                            engine_options const& options) {
  return make(all, options);
}

}  // namespace blink_torch
