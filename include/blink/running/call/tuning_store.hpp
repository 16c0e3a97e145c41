// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/counted.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/given_tuning.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// One collective from one root: its table, and the schedules that calls have needed so far.
struct tuned_collective {
  tuning_table const* table = nullptr;
  std::atomic<prepared_schedule*>* prepared = nullptr;  ///< by algorithm; null: not needed so far
  collective kind = collective::broadcast;
  int root = 0;
};

/// The tuning tables of one communicator, or of all ranks that are threads and were given none.
///
/// The first call of a collective takes the table that the program gave (`use`), else a table of
/// BLINK_TUNING, else the default of the transport. All members may be called by several ranks at
/// once. A template, so that it is instantiated only where communicators are made.
template <class = when_used>
class tuning_tables {
 public:
  /// Returns the table for a collective from a root.
  ///
  /// is_part: the communicator has some ranks of another one
  /// Throws:  as `tables_of_environment` and `default_algorithms`.
  template <communicator Comm>
  [[nodiscard]] tuned_collective& tuned(Comm& comm, collective kind, int root, bool is_part) {
    host_mutex::hold const held(mutex_);
    for (auto const& known : made_) {
      if (known->view.kind == kind && known->view.root == root) return known->view;
    }
    auto const ranks = ranks_of_calls<Comm>(comm.rank_count());
    if (!is_given_) {
      given_ = tables_of_environment(ranks, is_part);
      is_given_ = true;
    }
    using transport_type = typename Comm::transport_type;
    transport_traits over{transport_type::reaches, shares_memory<transport_type>, hosts_of(comm)};
    if constexpr (host_aware_communicator<Comm>) over.shares_memory = comm.all_share_memory();
    auto const* const given = table_for(given_, ranks, kind, root);
    auto table = given != nullptr ? *given : default_tuning(kind, ranks.count, root, over);
    auto& fresh = *made_.emplace_back(counted<made>::make(std::move(table)));
    fresh.view = {&fresh.table, fresh.prepared.data(), kind, root};
    return fresh.view;
  }
  /// Returns an algorithm's schedule. The first caller prepares it.
  ///
  /// Throws: what `prepare` throws.
  template <communicator Comm>
  [[nodiscard]] prepared_schedule* prepared(Comm& comm, tuned_collective& of,
                                            std::size_t algorithm) {
    host_mutex::hold const held(mutex_);
    auto* known = of.prepared[algorithm].load(std::memory_order_relaxed);
    if (known == nullptr) {
      known = &comm.prepare(of.table->algorithms[algorithm].source);
      of.prepared[algorithm].store(known, std::memory_order_release);
    }
    return known;
  }

  /// See `with_tuning::use_tuning`. Pre: no call has used these tables.
  template <communicator Comm>
  void use(Comm const& comm, std::vector<tuning_table> tables) {
    auto const ranks = ranks_of_calls<Comm>(comm.rank_count());
    for (auto const& table : tables) {
      validate(table);
      if (ranks.suits(table)) continue;
      throw precondition_error(
          text_of({"use_tuning: the table of ", to_text(table.collective), " is for ",
                   to_text(ranks_of(table)), ", expected ", to_text(ranks)}));
    }
    expect_one_for_each_call<precondition_error>(tables, ranks, "use_tuning");
    given_ = std::move(tables);
    is_given_ = true;
  }
  [[nodiscard]] std::vector<tuning_table> used() {
    host_mutex::hold const held(mutex_);
    std::vector<tuning_table> result;
    for (auto const& each : made_) result.push_back(each->table);
    return result;
  }

 private:
  struct made {
    explicit made(tuning_table its_table)
        : table(std::move(its_table)), prepared(table.algorithms.size()) {}

    tuning_table table;
    std::vector<std::atomic<prepared_schedule*>> prepared;
    tuned_collective view{};
  };

  template <class Comm>
  [[nodiscard]] static tuned_ranks ranks_of_calls(int rank_count) {
    return {rank_count, name_of_transport<typename Comm::transport_type>()};
  }

  host_mutex mutex_;
  std::vector<tuning_table> given_;
  std::vector<counted<made>> made_;
  bool is_given_ = false;
};

/// The tuning of one communicator: the schedules of calls that name none.
class tuning_store {
 public:
  /// Returns the schedule of a call, which it prepares if no call has needed it before.
  ///
  /// needed: the order in which the reducer needs its operands. If the schedule of this size cannot
  ///         combine so, another one of the table does, if it has any.
  /// Throws: precondition_error if `root` is no rank, or for a permutation, which has no default;
  ///         input_error if the tables of BLINK_TUNING are wrong; what `prepare` throws.
  template <communicator Comm>
  [[nodiscard]] chosen_schedule choose(Comm& comm, collective kind, std::size_t bytes, int root,
                                       operand_order needed = operand_order::any) {
    if (comm.options().order == order_promise::ranks && combines_elements_of_ranks(kind)) {
      needed = operand_order::tree_of_ranks;
    }
    auto const* const latest = latest_[static_cast<std::size_t>(kind)];
    if (latest != nullptr && latest->root == root) {
      auto const& range = range_of(*latest->table, bytes);
      auto* const prepared = latest->prepared[range.algorithm].load(std::memory_order_acquire);
      if (prepared != nullptr && needed <= prepared->operands()) {
        return {prepared, range.chunk_bytes};
      }
    }
    return make(comm, kind, bytes, root, needed);
  }
  template <communicator Comm>
  BLINK_COLD void use(Comm const& comm, std::vector<tuning_table> given) {
    auto tables = counted<tuning_tables<>>::make();
    tables->use(comm, std::move(given));
    tables_ = std::move(tables);
    latest_ = {};
  }
  /// Accepts tables of BLINK_TUNING for other numbers of ranks. Called for a communicator that has
  /// some ranks of another one.
  void allow_other_rank_counts() { is_part_ = true; }

  /// Returns the tables that calls have used so far, including defaults.
  template <class = when_used>
  [[nodiscard]] std::vector<tuning_table> used() {
    return tables_ ? tables_->used() : std::vector<tuning_table>{};
  }

 private:
  template <communicator Comm>
  [[nodiscard]] BLINK_COLD chosen_schedule make(Comm& comm, collective kind, std::size_t bytes,
                                                int root, operand_order needed) {
    if (!tables_) tables_ = tables_of(comm);
    auto& of = tables_->tuned(comm, kind, root, is_part_);
    latest_[static_cast<std::size_t>(kind)] = &of;
    auto const& algorithms = of.table->algorithms;
    auto range = range_of(*of.table, bytes);
    auto const suits = [&](std::size_t k) { return needed <= operands_of(algorithms[k].source); };
    if (needed != operand_order::any && !suits(range.algorithm)) {
      for (std::size_t other = algorithms.size(); other-- > 0;) {
        if (suits(other)) range = {0, other, 0};
      }
    }
    return {tables_->prepared(comm, of, range.algorithm), range.chunk_bytes};
  }
  template <communicator Comm>
  [[nodiscard]] static counted<tuning_tables<>> tables_of(Comm& comm) {
    if constexpr (requires { comm.shared_tuning(); }) {
      return comm.shared_tuning();
    } else {
      return counted<tuning_tables<>>::make();
    }
  }

  counted<tuning_tables<>> tables_;
  std::array<tuned_collective*, collective_names.size()> latest_{};
  bool is_part_ = false;
};

}  // namespace detail

/// Base of communicators whose calls need no schedule.
///
/// Comm: the communicator, which derives from this
template <class Comm>
class with_tuning {
 public:
  /// Uses these tables from the next call on. They come from `tune` or `read_tuning_file`.
  ///
  /// Collectives and roots without a table keep their default. All ranks give equal tables.
  ///
  /// Throws: precondition_error if a table is not valid, or is for another number of ranks or
  ///         another transport.
  template <class = when_used>
  void use_tuning(std::vector<tuning_table> tables) {
    tuning_.use(static_cast<Comm&>(*this), std::move(tables));
  }
  /// Measures algorithms, uses the tables from then on, and returns them. All ranks call it
  /// together.
  ///
  /// Needs `blink/collectives/tune.hpp`, which documents the `options`.
  ///
  /// Throws: as `tune_all`.
  template <class... Options>
  std::vector<tuning_table> tune(Options const&... options) {
    auto tables = tune_all(static_cast<Comm&>(*this), options...);
    tuning_.use(static_cast<Comm&>(*this), tables);
    return tables;
  }
  /// Internal: the tuning of calls without a schedule.
  [[nodiscard]] detail::tuning_store& tuning() { return tuning_; }

 private:
  detail::tuning_store tuning_;
};

}}  // namespace blink::BLINK_ABI
