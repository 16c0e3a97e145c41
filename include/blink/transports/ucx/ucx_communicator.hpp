// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/messages/message_communicator.hpp>
#include <blink/transports/messages/message_transport.hpp>
#include <blink/transports/ucx/channel.hpp>

// Needs UCX 1.13 or newer (libucx-dev).

namespace blink { inline namespace BLINK_ABI {

/// The transport of ranks that UCX joins. Ranks of one host share memory.
using ucx_transport = message_transport<ucx_channel>;

/// This process as a rank among hosts that UCX joins:
/// `file_bootstrap all("/shared/job-17", rank, ranks); ucx_communicator comm(all);`
///
/// A rank that dies, or whose connection ends, is named by the others, which `shrink()` and go on.
/// One thread at a time uses a communicator, except for `messages()` and `fail`, which any thread
/// may call. Different threads may use different communicators.
using ucx_communicator = basic_message_communicator<ucx_transport>;

}}  // namespace blink::BLINK_ABI
