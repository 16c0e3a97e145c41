// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/chakra_schema.hpp>
#include <blink/interop/detail/message_text.hpp>
#include <blink/interop/detail/protobuf_fields.hpp>
#include <blink/interop/message_program.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Builds one file of a trace.
class chakra_writer {
 public:
  [[nodiscard]] std::string write(message_program const& program, std::size_t rank) {
    auto const& here = program.ranks[rank];
    std::string metadata;
    append_field(metadata, static_cast<int>(chakra_metadata::version), "1.0.0");
    if (program.has_data) {
      auto const field = static_cast<int>(chakra_metadata::attribute);
      append_field(metadata, field, text(blink_program_attribute, collective_text(program)));
      append_field(metadata, field, text(blink_buffers_attribute, buffers_text(here)));
    }
    append_sized(result_, metadata);
    for (std::size_t i = 0; i < here.operations.size(); ++i) {
      append_sized(result_, node(here.operations[i], static_cast<int>(rank), i));
    }
    return result_;
  }

 private:
  [[nodiscard]] static std::string named(std::string_view name) {
    std::string result;
    append_field(result, static_cast<int>(chakra_attribute::name), name);
    return result;
  }
  [[nodiscard]] static std::string text(std::string_view name, std::string_view value) {
    auto result = named(name);
    append_field(result, static_cast<int>(chakra_attribute::string_value), value);
    return result;
  }
  [[nodiscard]] static std::string number(std::string_view name, chakra_attribute type,
                                          std::int64_t value) {
    auto result = named(name);
    append_field(result, static_cast<int>(type), static_cast<std::uint64_t>(value));
    return result;
  }

  [[nodiscard]] static std::string node(program_operation const& here, int rank, std::size_t id) {
    bool const is_send = here.kind == message_kind::send;
    bool const is_compute = here.kind == message_kind::compute;
    auto const type = is_compute ? chakra_type::compute
                      : is_send  ? chakra_type::send
                                 : chakra_type::receive;
    std::string result;
    append_field(result, static_cast<int>(chakra_node::id), id);
    append_field(result, static_cast<int>(chakra_node::name),
                 std::string(to_text(here.kind)) + " of block " + std::to_string(here.processor));
    append_field(result, static_cast<int>(chakra_node::type), static_cast<std::uint64_t>(type));
    std::string dependencies;
    for (auto const* list : {&here.after, &here.after_start}) {
      for (int const before : *list) {
        append_number(dependencies, static_cast<std::uint64_t>(before));
      }
    }
    if (!dependencies.empty()) {
      append_field(result, static_cast<int>(chakra_node::data_dependencies), dependencies);
    }
    auto const micros = static_cast<std::uint64_t>((here.cost + 500) / 1000);
    if (micros > 0) append_field(result, static_cast<int>(chakra_node::duration_micros), micros);
    auto const add = [&](std::string const& attribute) {
      append_field(result, static_cast<int>(chakra_node::attribute), attribute);
    };
    add(number("is_cpu_op", chakra_attribute::bool_value, 0));
    if (!is_compute) {
      constexpr auto int32 = chakra_attribute::int32_value;
      add(number(comm_size, chakra_attribute::int64_value, here.bytes));
      add(number(comm_source, int32, is_send ? rank : here.peer));
      add(number(comm_destination, int32, is_send ? here.peer : rank));
      add(number(comm_tag, int32, here.tag));
      // Without numbers of chunks, later versions of ASTRA-sim take the size from comm_size, as
      // earlier ones always do.
      for (auto const* name : {"msg_chunk_cnt", "msg_chunk_idx", "total_chunk_cnt"}) {
        add(number(name, int32, -1));
      }
    }
    if (here.data) add(text(blink_data_attribute, move_text(*here.data)));
    return result;
  }

  std::string result_;
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// The name of a rank's file in a trace: PREFIX.RANK.et.
[[nodiscard]] inline std::string chakra_file_name(std::string const& prefix, std::size_t rank) {
  return prefix + "." + std::to_string(rank) + ".et";
}

/// Writes one rank of a program of messages as a Chakra execution trace, in the form in which
/// ASTRA-sim reads custom collectives.
///
/// Computations last whole microseconds, rounded. A start that another operation waits for counts
/// as an end, because traces have only one kind of dependency. The places of data are attributes.
///
/// Pre:    rank < program.ranks.size().
/// Time:   O(length of the file).
/// Throws: precondition_error for another rank.
[[nodiscard]] inline std::string write_chakra(message_program const& program, std::size_t rank) {
  expects(rank < program.ranks.size(), "write_chakra: expected a rank of the program");
  return detail::chakra_writer().write(program, rank);
}

/// Writes the files of all ranks, PREFIX.RANK.et.
/// Throws: input_error if a file cannot be written.
inline void write_chakra_files(message_program const& program, std::string const& prefix) {
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    detail::write_text(chakra_file_name(prefix, rank), write_chakra(program, rank));
  }
}

}}  // namespace blink::BLINK_ABI
