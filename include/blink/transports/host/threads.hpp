// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/shaped.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/world.hpp>

namespace blink { inline namespace BLINK_ABI {

/// Threads share all their memory.
using threads_link = direct_link;

/// A world whose ranks are threads: `thread_world world(4); world.run([&](auto& me) { … });`
using thread_world = basic_world<threads_link>;
BLINK_MODELS(session<thread_world::context>);
BLINK_MODELS(detail::steps_carrying_session<thread_world::context>);
BLINK_MODELS(!session<thread_world>);  // a world is not yet one of its ranks

/// Threads, or processes that share memory, joined by wires as slow as a schedule's links.
using shaped_link = shaped<slot_link>;
BLINK_MODELS(transport<shaped_link> && !reaching_transport<shaped_link>);

/// A world whose ranks are threads and whose links have the rates that its schedules name.
using shaped_world = basic_world<shaped_link>;

}}  // namespace blink::BLINK_ABI
