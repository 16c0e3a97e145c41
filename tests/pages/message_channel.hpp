// SPDX-License-Identifier: Apache-2.0
// A message channel of one's own. See scripts/check_pages.
#include <blink/transports/messages/message_communicator.hpp>
#include <blink/transports/messages/message_transport.hpp>

#include "support/thread_channel.hpp"

using my_channel = blink_test::thread_channel;
#include BLOCK
