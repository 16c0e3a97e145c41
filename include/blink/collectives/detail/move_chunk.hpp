// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#if BLINK_DEVICE_PASS
#include <blink/collectives/detail/move_chunk_device.cuh>
#else
#include <blink/collectives/detail/move_chunk_host.hpp>
#endif
