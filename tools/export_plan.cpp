// SPDX-License-Identifier: Apache-2.0
#include "export_plan.hpp"

#include <blink/core/error.hpp>
#include <blink/interop/check_message_program.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_message_program.hpp>
#include <blink/interop/make_mscclpp_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/write_chakra.hpp>
#include <blink/interop/write_goal.hpp>
#include <blink/interop/write_msccl_xml.hpp>
#include <blink/interop/write_mscclpp_json.hpp>

#include "arguments.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace blink::tools {

namespace {

/// Words for a trace whose first file is there; none if it is not.
std::string existing_trace(std::string const& prefix) {
  auto const first = chakra_file_name(prefix, 0);
  std::error_code fault;
  return std::filesystem::exists(first, fault)
             ? first + " exists, expected a new file, or --force to replace it"
             : std::string();
}

}  // namespace

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
  add_output_option(
      command, "--goal", options.goal,
      "write a schedule in GOAL here, of a buffer of --bytes, for LogGOPSim and ATLAHS")
      ->needs(command.get_option("--bytes"));
  command
      .add_option("--chakra", options.chakra,
                  "write Chakra execution traces to PREFIX.RANK.et, of a buffer of --bytes, as "
                  "ASTRA-sim takes\ncustom collectives")
      ->check([&command](std::string const& prefix) {
        return command.count("--force") == 0 ? existing_trace(prefix) : std::string();
      })
      ->needs(command.get_option("--bytes"));
  command
      .add_option(
          "--slices", options.slices,
          "of --msccl, --goal and --chakra: parts of each chunk that follow one another; more let "
          "deep trees of an all_reduce reach their rate")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--add-ns", options.add_nanoseconds,
                  "of --goal and --chakra: nanoseconds to add a byte to another one")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--instances", options.instances,
                  "of --msccl, --mscclpp, --goal and --chakra: copies of the program, on slices of "
                  "the\nbuffer of their own")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command
      .add_option("--chunks", options.chunks,
                  "of the same: most chunks that one instance cuts the buffer into")
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
  wanted.slices = options.slices;
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

/// Writes GOAL and Chakra, whose program is the same.
void export_messages(topology const& machine, plan const& p, export_options const& options,
                     std::int64_t bytes) {
  if (bytes == 0) {
    throw input_error("--bytes 0 with --goal or --chakra: expected more than 0 bytes");
  }
  step_program_options wanted;
  wanted.instances = options.instances;
  wanted.most_chunks = options.chunks;
  wanted.limits = limits_of_simulators();
  auto const result = make_step_program(machine, p, wanted);
  message_program_options sizes;
  sizes.bytes = bytes;
  sizes.slices = options.slices;
  sizes.cost_per_byte = options.add_nanoseconds;
  auto const program = make_message_program(result.program, sizes);
  auto const report = check_message_program(program);
  bool const is_too_large = !report && report.at.rank < 0;
  if (!report && !is_too_large) {
    throw std::runtime_error("the program of messages does not pass the checker: " + *report.fault);
  }
  std::size_t operations = 0;
  for (auto const& rank : program.ranks) {
    operations = std::max(operations, rank.operations.size());
  }
  if (!options.goal.empty()) {
    write_goal_file(program, options.goal);
    std::printf("\nGOAL schedule written to %s", options.goal.c_str());
  }
  if (!options.chakra.empty()) {
    write_chakra_files(program, options.chakra);
    std::printf("\nChakra traces written to %s to %s", chakra_file_name(options.chakra, 0).c_str(),
                chakra_file_name(options.chakra, program.ranks.size() - 1).c_str());
  }
  std::printf(": %d chunks of %lld bytes, at most %zu operations a rank\n", program.chunk_count,
              static_cast<long long>(program.chunk_bytes), operations);
  if (is_too_large) std::printf("not checked: %s\n", report.fault->c_str());
  print_loss(result.loss);
}

}  // namespace

void export_plan(topology const& machine, plan const& p, export_options const& options,
                 std::int64_t bytes) {
  if (!options.msccl.empty()) export_msccl(machine, p, options);
  if (!options.mscclpp.empty()) export_mscclpp(machine, p, options);
  if (!options.goal.empty() || !options.chakra.empty()) {
    export_messages(machine, p, options, bytes);
  }
}

}  // namespace blink::tools
