// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/slots.hpp>

namespace blink { inline namespace BLINK_ABI {

/// Ranks that read and write each other's buffers: nothing is copied on the way. Threads of one
/// process, or processes whose buffers lie in the memory that they share.
class direct_link : public slot_link {
 public:
  static constexpr bool reaches = true;
  static constexpr bool presence_offers_input = true;
  using slot_link::slot_link;

  [[nodiscard]] void const* input_of(int peer) const {
    return parts().world->input_of(peer, parts().call);
  }
  [[nodiscard]] void* output_of(int peer) const {
    return parts().world->output_of(peer, parts().call);
  }
};
BLINK_MODELS(reaching_transport<direct_link>);

}}  // namespace blink::BLINK_ABI
