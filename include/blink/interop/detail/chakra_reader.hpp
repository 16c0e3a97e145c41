// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/chakra_schema.hpp>
#include <blink/interop/detail/message_text.hpp>
#include <blink/interop/detail/protobuf_fields.hpp>
#include <blink/interop/detail/token_scanner.hpp>
#include <blink/interop/message_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One file of a trace.
struct chakra_file {
  std::string name;   ///< that errors start with
  std::string bytes;  ///< its contents
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads the file of one rank.
class chakra_reader {
 public:
  chakra_reader(chakra_file const& file, int rank) : file_(&file), rank_(rank) {}

  /// program: receives the collective of the metadata, if blink has written it
  void read(message_program& program, rank_messages& result) {
    protobuf_reader messages(file_->bytes);
    where_ = "metadata: ";
    read_metadata(next(messages), program, result);
    has_data_ = program.has_data;
    while (!messages.is_at_end()) {
      if (std::ssize(result.operations) >= most_operations) fail("too many nodes");
      where_ = "node number " + std::to_string(result.operations.size()) + ": ";
      read_node(next(messages), result);
    }
    resolve(result);
  }

 private:
  static constexpr std::int64_t most_operations = std::int64_t{1} << 26;
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60;
  static constexpr std::uint64_t most_micros = std::uint64_t{1} << 50;

  struct attribute {
    std::string_view name;
    std::optional<std::uint64_t> number;  // negative ones with all 64 bits
    std::string_view text;
  };

  [[noreturn]] void fail(std::string const& what) const {
    throw input_error(file_->name + ": " + where_ + what);
  }

  [[nodiscard]] std::string_view next(protobuf_reader& messages) const {
    auto const bytes = messages.sized();
    if (!bytes) fail("the file ends within a message, expected whole messages behind their sizes");
    return *bytes;
  }
  /// Calls `use` with each field of a message.
  template <class Use>
  void each_field(std::string_view message, Use const& use) const {
    for (protobuf_reader fields(message); !fields.is_at_end();) {
      auto const field = fields.field();
      if (!field) fail("a field that is cut off or of another type, expected Protocol Buffers");
      use(*field);
    }
  }
  void require_type(protobuf_field const& field, protobuf_type type, char const* name) const {
    if (field.type != type) {
      fail(std::string(name) + " of type " + std::to_string(static_cast<int>(field.type)) +
           ", expected " + std::to_string(static_cast<int>(type)));
    }
  }

  void read_metadata(std::string_view message, message_program& program, rank_messages& result) {
    each_field(message, [&](protobuf_field const& field) {
      if (field.number != static_cast<int>(chakra_metadata::attribute)) return;
      auto const found = read_attribute(field);
      token_scanner text(found.text, file_->name + ": " + std::string(found.name));
      if (found.name == blink_program_attribute) {
        message_program its;
        read_collective_text(text, its);
        if (rank_ == 0) program = its;
        if (its != program)
          fail("another collective than in the file of rank 0, expected the same");
      } else if (found.name == blink_buffers_attribute) {
        read_buffers_text(text, result);
      }
    });
  }

  [[nodiscard]] attribute read_attribute(protobuf_field const& field) const {
    require_type(field, protobuf_type::bytes, "an attribute");
    attribute result;
    each_field(field.bytes, [&](protobuf_field const& part) {
      switch (static_cast<chakra_attribute>(part.number)) {
        case chakra_attribute::name:
          require_type(part, protobuf_type::bytes, "the name of an attribute");
          result.name = part.bytes;
          break;
        case chakra_attribute::int32_value:
        case chakra_attribute::int64_value:
        case chakra_attribute::uint32_value:
        case chakra_attribute::uint64_value:
        case chakra_attribute::bool_value:
          require_type(part, protobuf_type::number, "a number");
          result.number = part.value;
          break;
        case chakra_attribute::sint32_value:
        case chakra_attribute::sint64_value:
          require_type(part, protobuf_type::number, "a number");
          result.number = part.value >> 1 ^ (0 - (part.value & 1));
          break;
        case chakra_attribute::string_value:
          require_type(part, protobuf_type::bytes, "a text");
          result.text = part.bytes;
          break;
        default:  // of a type that no attribute of a message has
          break;
      }
    });
    return result;
  }

  void read_node(std::string_view message, rank_messages& result) {
    program_operation operation;
    std::uint64_t id = 0;
    auto type = chakra_type::invalid;
    std::string_view name;
    std::vector<std::uint64_t> after;
    std::vector<attribute> attributes;
    each_field(message, [&](protobuf_field const& field) {
      switch (static_cast<chakra_node>(field.number)) {
        case chakra_node::id:
          require_type(field, protobuf_type::number, "an id");
          id = field.value;
          break;
        case chakra_node::name:
          require_type(field, protobuf_type::bytes, "a name");
          name = field.bytes;
          break;
        case chakra_node::type:
          require_type(field, protobuf_type::number, "a type");
          type = static_cast<chakra_type>(field.value);
          break;
        case chakra_node::data_dependencies:
          read_dependencies(field, after);
          break;
        case chakra_node::duration_micros:
          require_type(field, protobuf_type::number, "a duration");
          if (field.value > most_micros) fail("a duration of more than 2^50 microseconds");
          operation.cost = static_cast<std::int64_t>(field.value) * 1000;
          break;
        case chakra_node::attribute:
          attributes.push_back(read_attribute(field));
          break;
        default:  // names, shapes and start times change no message
          break;
      }
    });
    where_ = "node " + std::to_string(id) + ": ";
    operation.label = "node " + std::to_string(id) +
                      (name.empty() ? "" : ", " + std::string(name.substr(0, longest_name)));
    set_kind(operation, type);
    for (auto const& each : attributes) {
      if (each.name != blink_data_attribute) continue;
      if (!has_data_) fail("blink_data without blink_program, expected that in the metadata");
      token_scanner text(each.text, file_->name + ": " + where_ + std::string(each.name));
      operation.data = read_move_text(text);
    }
    if (operation.kind != message_kind::compute) set_message(operation, attributes);
    if (!number_of_.emplace(id, static_cast<int>(result.operations.size())).second) {
      fail("the id stands twice, expected another one");
    }
    after_.push_back(std::move(after));
    result.operations.push_back(std::move(operation));
  }

  void read_dependencies(protobuf_field const& field, std::vector<std::uint64_t>& after) const {
    if (field.type == protobuf_type::number) {  // one by one
      after.push_back(field.value);
      return;
    }
    require_type(field, protobuf_type::bytes, "dependencies");
    for (protobuf_reader ids(field.bytes); !ids.is_at_end();) {
      auto const id = ids.number();
      if (!id) fail("dependencies that are cut off, expected whole numbers");
      after.push_back(*id);
    }
  }

  void set_kind(program_operation& operation, chakra_type type) const {
    switch (type) {
      case chakra_type::send:
        operation.kind = message_kind::send;
        return;
      case chakra_type::receive:
        operation.kind = message_kind::receive;
        return;
      case chakra_type::metadata:
      case chakra_type::load:
      case chakra_type::store:
      case chakra_type::compute:
        return;
      case chakra_type::collective:
        fail("a collective (COMM_COLL_NODE), expected the sends, receives and computations of one");
      default:
        fail("type " + std::to_string(static_cast<std::uint64_t>(type)) +
             ", expected a send (5), a receive (6) or a computation (4)");
    }
  }

  void set_message(program_operation& operation, std::vector<attribute> const& attributes) const {
    bool const is_send = operation.kind == message_kind::send;
    auto const own = number(attributes, is_send ? comm_source : comm_destination, most_rank);
    if (own && *own != rank_) {
      fail(std::string(is_send ? comm_source : comm_destination) + " " + std::to_string(*own) +
           ", expected the rank of the file, " + std::to_string(rank_));
    }
    auto const require = [&](std::string_view name, std::uint64_t most) {
      auto const found = number(attributes, name, most);
      if (!found) fail("attribute " + std::string(name) + " is missing, expected a number");
      return *found;
    };
    operation.peer = static_cast<int>(require(is_send ? comm_destination : comm_source, most_rank));
    operation.bytes = require(comm_size, most_bytes);
    operation.tag = number(attributes, comm_tag, most_rank).value_or(0);
  }

  /// An attribute as an integer from 0 to `most`; nothing if it is absent.
  [[nodiscard]] std::optional<std::int64_t> number(std::vector<attribute> const& attributes,
                                                   std::string_view name,
                                                   std::uint64_t most) const {
    auto const found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](attribute const& each) { return each.name == name; });
    if (found == attributes.end()) return std::nullopt;
    if (!found->number || *found->number > most) {
      fail("attribute " + std::string(name) + ", expected an integer from 0 to " +
           std::to_string(most));
    }
    return static_cast<std::int64_t>(*found->number);
  }

  /// Turns ids into positions.
  void resolve(rank_messages& result) {
    for (std::size_t i = 0; i < result.operations.size(); ++i) {
      for (auto const id : after_[i]) {
        auto const found = number_of_.find(id);
        if (found == number_of_.end()) {
          where_ = printable(result.operations[i].label) + ": ";
          fail("depends on node " + std::to_string(id) +
               ", which the file does not have, expected one of its nodes");
        }
        result.operations[i].after.push_back(found->second);
      }
    }
  }

  static constexpr std::uint64_t most_rank = std::numeric_limits<std::int32_t>::max();
  static constexpr std::size_t longest_name = 40;

  chakra_file const* file_;
  int rank_;
  bool has_data_ = false;
  std::string where_;                              // in the file, for errors
  std::map<std::uint64_t, int> number_of_;         // by id
  std::vector<std::vector<std::uint64_t>> after_;  // ids, by operation
};

}}}  // namespace blink::BLINK_ABI::detail
