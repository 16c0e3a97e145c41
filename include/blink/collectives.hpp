// SPDX-License-Identifier: Apache-2.0
#pragma once

// The running side: collectives, reducers, and ranks that are threads. Includes no planner.

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/collectives/all_gather.hpp>
#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/all_to_all.hpp>
#include <blink/collectives/barrier.hpp>
#include <blink/collectives/broadcast.hpp>
#include <blink/collectives/gather.hpp>
#include <blink/collectives/permute.hpp>
#include <blink/collectives/reduce.hpp>
#include <blink/collectives/reduce_scatter.hpp>
#include <blink/collectives/scatter.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/host/threads.hpp>

#include <blink/core/detail/restore_macros.hpp>  // last
