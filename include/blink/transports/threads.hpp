// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/session.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>
#include <blink/transports/slots.hpp>
#include <blink/transports/world.hpp>

namespace blink::inline BLINK_ABI {

/// Ranks of one process that read and write each other's buffers: nothing is copied on the way.
class threads_link : public slot_link {
 public:
  static constexpr bool reaches = true;
  using slot_link::slot_link;

  [[nodiscard]] void const* input_of(int peer) const {
    return parts().world->called(peer, parts().call).input;
  }
  [[nodiscard]] void* output_of(int peer) const {
    return parts().world->called(peer, parts().call).output;
  }
};
static_assert(reaching_transport<threads_link>);

/// A world whose ranks are threads: `thread_world world(4); world.run([&](auto& me) { … });`
using thread_world = basic_world<threads_link>;
static_assert(session<thread_world::context>);
static_assert(!session<thread_world>, "a world is not yet one of its ranks");

}  // namespace blink::inline BLINK_ABI
