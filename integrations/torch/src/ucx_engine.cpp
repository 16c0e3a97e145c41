// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>

#include "engine.hpp"
#include "store_bootstrap.hpp"

#ifdef BLINK_TORCH_UCX
#include <blink/transports/ucx/ucx_communicator.hpp>

#include "engine_over.hpp"
#endif

namespace blink_torch {

std::unique_ptr<engine> make_ucx_engine([[maybe_unused]] store_bootstrap& all,
                                        [[maybe_unused]] std::chrono::milliseconds deadline) {
#ifdef BLINK_TORCH_UCX
  auto options = blink::ucx_channel::default_options();
  options.waits.deadline = deadline;
  return std::make_unique<engine_over<blink::ucx_communicator>>(
      blink::ucx_communicator(all, options));
#else
  throw blink::resource_error(
      "the ranks do not share memory, and blink_torch was built without UCX, expected ranks of one "
      "host, or UCX's headers (libucx-dev) when blink_torch is built");
#endif
}

}  // namespace blink_torch
