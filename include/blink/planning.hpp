// SPDX-License-Identifier: Apache-2.0
#pragma once

// The planning side in one include: machines in, plans out.

#include <blink/planning/check_plan.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/forest.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/make_schedule.hpp>
#include <blink/planning/plan_file.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/read_machine.hpp>
#include <blink/topology/subset.hpp>
