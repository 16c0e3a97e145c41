// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/basic_thread_ranks.hpp>
#include <blink/transports/host/shaped.hpp>
#include <blink/transports/host/slots.hpp>

namespace blink { inline namespace BLINK_ABI {

/// The transport of threads, which share all their memory.
using threads_link = direct_transport;

/// The owner of ranks that are threads: `thread_ranks threads(4); threads.run([&](auto& comm) { …
/// });`
using thread_ranks = basic_thread_ranks<threads_link>;
BLINK_MODELS(communicator<thread_ranks::communicator_type>);
// the owner is no communicator; its ranks have communicators
BLINK_MODELS(!communicator<thread_ranks>);

/// The transport of threads, or of processes that share memory, as slow as a schedule's links.
using shaped_transport = shaped<slot_transport>;
BLINK_MODELS(transport<shaped_transport> && !reaching_transport<shaped_transport>);

/// The owner of ranks that are threads, with links that have the rates of its schedules.
using shaped_thread_ranks = basic_thread_ranks<shaped_transport>;

}}  // namespace blink::BLINK_ABI
