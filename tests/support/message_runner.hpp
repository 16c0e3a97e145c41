// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/interop/message_program.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Runs programs of messages on numbers, with operations in random order. It is slow and plain: the
// reference for the checker.

namespace blink::test {

/// One run. An operation takes no time, and messages wait in unbounded queues.
class message_runner {
 public:
  message_runner(message_program const& program, bool in_place, std::uint64_t seed)
      : program_(&program), in_place_(in_place), random_(seed) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      auto const sizes = sizes_of(r);
      memory_.push_back(
          {numbers(sizes.input), numbers(sizes.output), numbers(program.ranks[r].scratch_chunks)});
      inputs_.push_back(memory_.back()[0]);
      if (!in_place || sizes.input >= sizes.output) continue;
      for (int c = 0; c < sizes.input; ++c) *find(r, {step_buffer::input, c}) = inputs_[r][at(c)];
    }
  }

  /// Runs the program; returns the fault, or nothing if every rank has the expected result.
  std::optional<std::string> run() {
    std::vector<std::pair<std::size_t, std::size_t>> left;  // rank, operation
    std::vector<std::vector<bool>> done;
    for (std::size_t r = 0; r < program_->ranks.size(); ++r) {
      done.emplace_back(program_->ranks[r].operations.size());
      for (std::size_t i = 0; i < done[r].size(); ++i) left.emplace_back(r, i);
    }
    while (!left.empty()) {
      std::vector<std::size_t> ready;
      for (std::size_t k = 0; k < left.size(); ++k) {
        if (is_ready(left[k].first, left[k].second, done)) ready.push_back(k);
      }
      if (ready.empty()) return "stuck";
      auto const chosen = ready[random_() % ready.size()];
      auto const [r, i] = left[chosen];
      if (auto const fault = step(r, program_->ranks[r].operations[i])) return fault;
      done[r][i] = true;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    for (auto const& [key, queue] : queues_) {
      if (!queue.empty()) return "a message without a receive";
    }
    return wrong_result();
  }

 private:
  using chunks = std::vector<std::uint64_t>;

  [[nodiscard]] static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  [[nodiscard]] chunk_counts sizes_of(std::size_t rank) const {
    return chunks_of(*program_->collective, program_->chunk_count,
                     static_cast<int>(program_->ranks.size()),
                     program_->root == static_cast<int>(rank));
  }
  [[nodiscard]] chunks numbers(int count) {
    chunks result(at(count));
    for (auto& each : result) each = random_();
    return result;
  }

  /// The number in a chunk. In place, the smaller of input and output is a part of the larger.
  std::uint64_t* find(std::size_t rank, chunk_place const& place) {
    auto const sizes = sizes_of(rank);
    auto& memory = memory_[rank];
    auto const own = at(place.chunk);
    if (place.chunk < 0 || own >= memory[static_cast<std::size_t>(place.buffer)].size()) {
      return nullptr;
    }
    bool const shares = in_place_ && sizes.input > 0 && sizes.output > 0;
    if (shares && place.buffer == step_buffer::output && sizes.input >= sizes.output) {
      return &memory[0][own + (sizes.input > sizes.output ? rank * at(sizes.output) : 0)];
    }
    if (shares && place.buffer == step_buffer::input && sizes.input < sizes.output) {
      return &memory[1][own + rank * at(sizes.input)];
    }
    return &memory[static_cast<std::size_t>(place.buffer)][own];
  }

  [[nodiscard]] bool is_ready(std::size_t r, std::size_t i,
                              std::vector<std::vector<bool>> const& done) {
    auto const& here = program_->ranks[r].operations[i];
    for (auto const* list : {&here.after, &here.after_start}) {
      for (int const before : *list) {
        if (!done[r][at(before)]) return false;
      }
    }
    return here.kind != message_kind::receive ||
           !queues_[{here.peer, static_cast<int>(r), here.tag}].empty();
  }

  std::optional<std::string> step(std::size_t r, program_operation const& here) {
    if (!here.data) return std::nullopt;
    auto const& to = here.data->destination;
    auto const& from = here.data->sources;
    chunks values(at(to ? to->count : from.front().count));
    if (here.kind == message_kind::receive) {
      auto& queue = queues_[{here.peer, static_cast<int>(r), here.tag}];
      if (queue.front().size() != values.size()) return "a message of another size";
      values = queue.front();
      queue.pop_front();
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (auto const& each : from) {
        auto const* source = find(r, each[static_cast<int>(i)]);
        if (source == nullptr) return "a chunk outside the buffers";
        values[i] += *source;
      }
      if (!to) continue;
      auto* target = find(r, (*to)[static_cast<int>(i)]);
      if (target == nullptr) return "a chunk outside the buffers";
      *target = values[i];
    }
    if (here.kind == message_kind::send) {
      queues_[{static_cast<int>(r), here.peer, here.tag}].push_back(values);
    }
    return std::nullopt;
  }

  std::optional<std::string> wrong_result() {
    for (std::size_t r = 0; r < memory_.size(); ++r) {
      for (int c = 0; c < sizes_of(r).output; ++c) {
        auto const wanted = expected(r, c);
        if (wanted && *find(r, {step_buffer::output, c}) != *wanted) {
          return "rank " + std::to_string(r) + " has a wrong chunk " + std::to_string(c);
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint64_t> expected(std::size_t rank, int chunk) const {
    int const ranks = static_cast<int>(memory_.size());
    int const part = program_->chunk_count / ranks;
    int const self = static_cast<int>(rank);
    auto const of = [&](int from, int position) { return inputs_[at(from)][at(position)]; };
    auto const sum = [&](int position) {
      std::uint64_t result = 0;
      for (int from = 0; from < ranks; ++from) result += of(from, position);
      return result;
    };
    int const block = program_->chunk_count;  // of one rank, for gather and scatter
    switch (*program_->collective) {
      case collective::all_reduce:
        return sum(chunk);
      case collective::reduce:
        return self == *program_->root ? std::optional(sum(chunk)) : std::nullopt;
      case collective::broadcast:
        return of(*program_->root, chunk);
      case collective::all_gather:
        return of(chunk / part, chunk % part);
      case collective::reduce_scatter:
        return sum(self * part + chunk);
      case collective::all_to_all:
        return of(chunk / part, self * part + chunk % part);
      case collective::gather:
        return of(chunk / block, chunk % block);
      case collective::scatter:
        return of(*program_->root, self * block + chunk);
      default:
        return std::nullopt;
    }
  }

  message_program const* program_;
  bool in_place_;
  std::mt19937_64 random_;
  std::vector<std::vector<chunks>> memory_;  // by rank: input, output, scratch
  std::vector<chunks> inputs_;
  std::map<std::tuple<int, int, std::int64_t>, std::deque<chunks>> queues_;  // by from, to, tag
};

}  // namespace blink::test
