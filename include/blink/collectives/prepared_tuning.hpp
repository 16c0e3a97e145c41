// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A communicator, or device ranks, that prepares a schedule for its calls and keeps it.
template <class Comm, class Prepared>
concept prepares =
    std::same_as<decltype(std::declval<Comm&>().prepare(std::declval<schedule const&>())),
                 Prepared&>;

/// Tuning tables with prepared schedules. Each call takes the schedule that its table names for its
/// size.
///
/// All ranks use equal tables.
///
/// Prepared: the result of `prepare` for a schedule; see `prepared_tuning` and `device_tuning`
template <class Prepared>
class basic_prepared_tuning {
 public:
  /// Prepares all schedules of the tables.
  ///
  /// comm:   a rank's communicator, or device ranks
  /// tables: at most one for each collective
  /// Throws: precondition_error if a table is not valid, is for another number of ranks, or is the
  ///         second for its collective; what `prepare` throws.
  template <prepares<Prepared> Comm>
  basic_prepared_tuning(Comm& comm, std::vector<tuning_table> tables) : tables_(std::move(tables)) {
    for (std::size_t index = 0; index < tables_.size(); ++index) {
      auto const& table = tables_[index];
      validate(table);
      auto& position = position_of_[static_cast<std::size_t>(table.collective)];
      if (position != 0) {
        throw precondition_error("algorithms of " + std::string(to_text(table.collective)) +
                                 ": two tables, expected one");
      }
      position = index + 1;
      auto& plans = plans_.emplace_back();
      for (auto const& each : table.algorithms) plans.push_back(&comm.prepare(each.source));
    }
  }
  template <prepares<Prepared> Comm>
  basic_prepared_tuning(Comm& comm, tuning_table table)
      : basic_prepared_tuning(comm, std::vector<tuning_table>{std::move(table)}) {}

  /// Returns the schedule and chunk size for a collective and a size; see `schedule_chooser`.
  ///
  /// Throws: precondition_error if there is no table for this collective.
  [[nodiscard]] chosen_from<Prepared> choose(collective kind, std::size_t bytes) const {
    auto const position = position_of_[static_cast<std::size_t>(kind)];
    if (position == 0) {
      throw precondition_error("tuning: no table for " + std::string(to_text(kind)));
    }
    auto const& range = range_of(tables_[position - 1], bytes);
    return {plans_[position - 1][range.algorithm], range.chunk_bytes};
  }

  [[nodiscard]] std::vector<tuning_table> const& tables() const { return tables_; }

 private:
  std::vector<tuning_table> tables_;
  std::array<std::size_t, collective_names.size()> position_of_{};  // plus one; 0: no table
  std::vector<std::vector<Prepared*>> plans_;                       // by table and algorithm
};
using prepared_tuning = basic_prepared_tuning<prepared_schedule>;
static_assert(schedule_chooser<prepared_tuning>);
static_assert(schedule_source<prepared_tuning const&>);
static_assert(!single_schedule<prepared_tuning const&>);

}}  // namespace blink::BLINK_ABI
