// SPDX-License-Identifier: Apache-2.0
#include "export_plan.hpp"

#include <blink/core/error.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_mscclpp_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/write_msccl_xml.hpp>
#include <blink/interop/write_mscclpp_json.hpp>

#include "arguments.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace blink::tools {

void add_export_options(CLI::App& command, export_options& options) {
  add_output_option(command, "--msccl", options.msccl, "write an MSCCL algorithm (XML) here");
  command
      .add_option("--dialect", options.dialect,
                  "of --msccl: azure (Azure's executor), rccl, or legacy (microsoft/msccl)")
      ->check(CLI::IsMember({"azure", "rccl", "legacy"}))
      ->needs(command.get_option("--msccl"))
      ->capture_default_str();
  add_output_option(command, "--mscclpp", options.mscclpp,
                    "write an MSCCL++ execution plan (JSON) here");
  command
      .add_flag("--out-of-place", options.out_of_place,
                "of --mscclpp: for calls with two buffers, not with one")
      ->needs(command.get_option("--mscclpp"));
  command
      .add_option(
          "--instances", options.instances,
          "of --msccl and --mscclpp: copies of the program, on slices of the buffer of their own")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command
      .add_option("--chunks", options.chunks,
                  "of both: most chunks that one instance cuts the buffer into")
      ->check(CLI::Range(1, 32767))
      ->capture_default_str();
}

namespace {

msccl_dialect dialect_of(std::string const& name) {
  if (name == "rccl") return msccl_dialect::rccl;
  return name == "legacy" ? msccl_dialect::legacy : msccl_dialect::azure;
}

void print_loss(double loss) {
  if (loss > 0) std::printf("whole chunks cost %.2f %% of the rate\n", 100 * loss);
}

void export_msccl(topology const& machine, plan const& p, export_options const& options) {
  step_program_options wanted;
  wanted.instances = options.instances;
  wanted.most_chunks = options.chunks;
  wanted.limits = limits_of(dialect_of(options.dialect));
  auto const result = make_step_program(machine, p, wanted);
  auto const report = check_program(result.program);
  if (!report) {
    throw std::runtime_error("the step program does not pass the checker: " + *report.fault);
  }
  write_msccl_xml_file(result.program, options.msccl, dialect_of(options.dialect));
  std::printf(
      "\nMSCCL algorithm written to %s: %d chunks, %d channels, at most %d blocks a rank, "
      "%d steps a block\n",
      options.msccl.c_str(), result.program.chunk_count, result.program.channel_count,
      result.most_blocks, result.most_steps);
  print_loss(result.loss);
  if (result.program.root) std::printf("call it with root %d\n", *result.program.root);
}

void export_mscclpp(topology const& machine, plan const& p, export_options const& options) {
  mscclpp_options wanted;
  wanted.in_place = !options.out_of_place;
  wanted.instances = options.instances;
  wanted.most_chunks = options.chunks;
  auto const result = make_mscclpp_program(machine, p, wanted);
  write_mscclpp_json_file(result.program, options.mscclpp);
  auto const& first = result.program.ranks.front();
  std::printf(
      "\nMSCCL++ execution plan written to %s: %d chunks, at most %d blocks a rank, "
      "%d operations a block; for buffers of multiples of %d bytes\n",
      options.mscclpp.c_str(), std::max(first.input_chunks, first.output_chunks),
      result.most_blocks, result.most_operations,
      16 * std::max(first.input_chunks, first.output_chunks));
  print_loss(result.loss);
}

}  // namespace

void export_plan(topology const& machine, plan const& p, export_options const& options) {
  if (!options.msccl.empty()) export_msccl(machine, p, options);
  if (!options.mscclpp.empty()) export_mscclpp(machine, p, options);
}

}  // namespace blink::tools
