// SPDX-License-Identifier: Apache-2.0
#pragma once

// The running side: collectives, reducers, and ranks that are threads. Includes no planner.

#include <blink/collectives/all_gather.hpp>
#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/all_to_all.hpp>
#include <blink/collectives/barrier.hpp>
#include <blink/collectives/broadcast.hpp>
#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/flow_schedules.hpp>
#include <blink/collectives/gather.hpp>
#include <blink/collectives/order.hpp>
#include <blink/collectives/permute.hpp>
#include <blink/collectives/reduce.hpp>
#include <blink/collectives/reduce_scatter.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/scatter.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/schedule_blocks.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/transports/shaped_world.hpp>
#include <blink/transports/threads.hpp>
