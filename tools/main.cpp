// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/version.hpp>

#include "commands.hpp"
#include <CLI/CLI.hpp>
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace {

constexpr char const* about =
    "blink plans collectives from a machine's real interconnect, and runs them.\n"
    "\n"
    "  blink topo dgx1v                              a machine, its ranks and links\n"
    "  blink plan dgx1v --ranks 0,1,2,3,4,5          trees, rate, proven bound\n"
    "  blink plan dgx1v --out plan.json              the same as a plan file\n"
    "  blink plan dgx1v --sizes 8:1G                 the fastest planner for each size\n"
    "  blink check dgx1v plan.json                   the check of a plan\n"
    "  blink simulate dgx1v --sizes 8:1G             its time on the machine, link by link\n"
    "  blink perf -g 4                               all-reduce on this machine\n"
    "  blink probe -g 4 --out machine.json           what this machine moves between ranks\n"
    "  blink run -n 4 -- PROGRAM                     a program in four processes\n"
    "  blink report dgx1v                            one page: trees, proof, times, changes\n"
    "  blink report calls.*.jsonl                    late ranks, slow links of its calls\n"
    "  blink stalls -n 4 -- PROGRAM                  what waiting costs each iteration\n"
    "\n"
    "A MACHINE is a built-in name (blink topo --list), or a file: JSON, the topology XML of NCCL "
    "or\nRCCL, the table of nvidia-smi topo -m.";

}  // namespace

namespace {

// What this program opens must not become standard input, output or error.
void open_standard_files() {
  for (int file = 0; file <= 2; ++file) {
    if (::fcntl(file, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  CLI::App app(about, "blink");
  app.set_version_flag("--version", "blink " BLINK_VERSION_TEXT);
  app.require_subcommand(1);
  app.failure_message([](CLI::App const*, CLI::Error const& failure) {
    bool const is_one_too_many = dynamic_cast<CLI::ExcludesError const*>(&failure) != nullptr;
    return "blink: " + blink::detail::printable(failure.what(), "\n") +
           (is_one_too_many ? ", expected one of them" : "") +
           "\nRun with --help for the expected arguments.\n";
  });
  blink::tools::add_topo_command(app);
  blink::tools::add_plan_command(app);
  blink::tools::add_perf_command(app);
  blink::tools::add_tune_command(app);
  blink::tools::add_probe_command(app);
  blink::tools::add_check_command(app);
  blink::tools::add_simulate_command(app);
  blink::tools::add_run_command(app);
  blink::tools::add_report_command(app);
  blink::tools::add_stalls_command(app);
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) == 0) return 0;
    std::fprintf(stderr, "blink: the standard output cannot be written: %s\n",
                 std::strerror(errno));
    return blink::tools::exit_input_error;
  } catch (CLI::CallForHelp const& help) {
    return app.exit(help);
  } catch (CLI::CallForAllHelp const& help) {
    return app.exit(help);
  } catch (CLI::CallForVersion const& version) {
    return app.exit(version);
  } catch (CLI::RuntimeError const& status) {
    return status.get_exit_code();
  } catch (CLI::ParseError const& failure) {
    app.exit(failure);
    return blink::tools::exit_input_error;
  } catch (blink::overflow_error const& failure) {
    std::fprintf(stderr, "blink: %s; expected capacities, shares and units of fewer digits\n",
                 failure.what());
    return blink::tools::exit_input_error;
  } catch (std::bad_alloc const&) {
    std::fprintf(stderr,
                 "blink: the memory of this process is exhausted, expected a machine of fewer "
                 "ranks or links\n");
    return blink::tools::exit_input_error;
  } catch (blink::error const& failure) {
    std::fprintf(stderr, "blink: %s\n", blink::detail::printable(failure.what(), "\n").c_str());
    return blink::tools::exit_input_error;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "blink: internal error: %s\n", failure.what());
    return blink::tools::exit_internal_error;
  }
}
