// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

// The subcommands of the command blink, one source file each. A subcommand runs while its arguments
// are parsed; what it throws decides the exit status (main.cpp).

namespace blink::tools {

/// Exit status if an argument, a file or a machine is wrong.
inline constexpr int exit_input_error = 2;

/// Exit status if blink itself is at fault.
inline constexpr int exit_internal_error = 3;

void add_topo_command(CLI::App& app);      ///< blink topo: show, cut down and convert machines
void add_plan_command(CLI::App& app);      ///< blink plan: trees, rate and bound
void add_perf_command(CLI::App& app);      ///< blink perf: measure on this machine
void add_check_command(CLI::App& app);     ///< blink check: is a plan file sound?
void add_simulate_command(CLI::App& app);  ///< blink simulate: the time on a machine
void add_tune_command(CLI::App& app);      ///< blink tune: the fastest algorithm for each size
void add_probe_command(CLI::App& app);     ///< blink probe: what ranks move between each other
void add_report_command(CLI::App& app);    ///< blink report: a page, or what records say
void add_stalls_command(CLI::App& app);    ///< blink stalls: what waiting costs a training loop
void add_run_command(CLI::App& app);       ///< blink run: start a program in several processes

}  // namespace blink::tools
