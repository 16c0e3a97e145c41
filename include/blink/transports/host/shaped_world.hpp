// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/shaped.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/world.hpp>

namespace blink { inline namespace BLINK_ABI {

/// Threads, or processes that share memory, joined by wires as slow as a schedule's links.
using shaped_link = shaped<slot_link>;
BLINK_MODELS(transport<shaped_link> && !reaching_transport<shaped_link>);

/// A world whose ranks are threads and whose links have the rates that its schedules name.
using shaped_world = basic_world<shaped_link>;

}}  // namespace blink::BLINK_ABI
