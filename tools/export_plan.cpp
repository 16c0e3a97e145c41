// SPDX-License-Identifier: Apache-2.0
#include "export_plan.hpp"

#include <blink/error.hpp>
#include <blink/planning/check_program.hpp>
#include <blink/planning/make_step_program.hpp>
#include <blink/planning/write_msccl_xml.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace blink::tools {

void add_export_options(CLI::App& command, export_options& options) {
  command.add_option("--msccl", options.msccl, "write an MSCCL algorithm (XML) here");
  command
      .add_option("--dialect", options.dialect,
                  "of --msccl: azure (Azure's executor, RCCL) or legacy (microsoft/msccl)")
      ->check(CLI::IsMember({"azure", "legacy"}))
      ->capture_default_str();
  command
      .add_option("--instances", options.instances,
                  "of --msccl: copies of the program, on channels and slices of their own")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command
      .add_option("--chunks", options.chunks,
                  "of --msccl: most chunks that one instance cuts the buffer into")
      ->check(CLI::Range(1, 32767))
      ->capture_default_str();
}

void export_plan(topology const& machine, plan const& p, export_options const& options) {
  if (options.msccl.empty()) return;
  step_program_options wanted;
  wanted.instances = options.instances;
  wanted.most_chunks = options.chunks;
  auto const result = make_step_program(machine, p, wanted);
  auto const report = check_program(result.program);
  if (!report) {
    throw std::runtime_error("the step program does not pass the checker: " + *report.fault);
  }
  write_msccl_xml_file(result.program, options.msccl,
                       options.dialect == "azure" ? msccl_dialect::azure : msccl_dialect::legacy);
  std::printf(
      "\nMSCCL algorithm written to %s: %d chunks, %d channels, at most %d blocks a rank, %d steps "
      "a "
      "block\n",
      options.msccl.c_str(), result.program.chunk_count, result.program.channel_count,
      result.most_blocks, result.most_steps);
  if (result.loss > rational(0)) {
    std::printf("whole chunks cost %.2f %% of the rate\n", 100 * result.loss.to_double());
  }
  if (result.program.root) std::printf("call it with root %d\n", *result.program.root);
}

}  // namespace blink::tools
