// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Work that goes on while a rank waits in a collective.
class background_work {
 public:
  /// Does what can be done without a wait.
  virtual void advance() noexcept = 0;

 protected:
  background_work() = default;
  ~background_work() = default;
  background_work(background_work const&) = delete;
  background_work& operator=(background_work const&) = delete;
};

}}}  // namespace blink::BLINK_ABI::detail
