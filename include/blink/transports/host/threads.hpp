// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/basic_thread_ranks.hpp>
#include <blink/transports/host/shaped.hpp>
#include <blink/transports/host/slots.hpp>

namespace blink { inline namespace BLINK_ABI {

/// Threads share all their memory.
using threads_link = direct_transport;

/// A communicator whose ranks are threads: `thread_ranks threads(4); threads.run([&](auto& comm) { … });`
using thread_ranks = basic_thread_ranks<threads_link>;
BLINK_MODELS(communicator<thread_ranks::communicator_type>);
BLINK_MODELS(detail::steps_carrying_communicator<thread_ranks::communicator_type>);
BLINK_MODELS(!communicator<thread_ranks>);  // a communicator is not yet one of its ranks

/// Threads, or processes that share memory, joined by connections as slow as a schedule's links.
using shaped_transport = shaped<slot_transport>;
BLINK_MODELS(transport<shaped_transport> && !reaching_transport<shaped_transport>);

/// A communicator whose ranks are threads and whose links have the rates that its schedules name.
using shaped_thread_ranks = basic_thread_ranks<shaped_transport>;

}}  // namespace blink::BLINK_ABI
