// SPDX-License-Identifier: Apache-2.0
// LightGBM's reduce-scatter and all-gather as collectives of a process communicator.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/array_operation.hpp>
#include <blink/transports/host/processes.hpp>

#include "blink_lightgbm.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

// Types of LightGBM's interface (LightGBM/meta.h): sizes are in bytes.
using comm_size = std::int32_t;
using reduce_function = void (*)(char const* input, char* output, int type_size, comm_size size);

/// Waiting ranks sleep, because between two calls they compute for a long time, and because
/// LightGBM's threads and other programs use the cores as well. A rank that yields its core to one
/// of these gets it back late.
blink::communicator_options sleeping() {
  blink::communicator_options result;
  result.waits.yields = 0;
  return result;
}

/// The communicator of this process, and what it has done.
struct network {
  blink::process_communicator comm{sleeping()};
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};
std::unique_ptr<network> present;  // LightGBM calls from the thread that joined
thread_local std::string last_error;

network& joined() {
  blink::expects(present != nullptr,
                 "blink_lightgbm: no communicator, expected blink_lightgbm_join before training");
  return *present;
}

/// The blocks of a call, in items of `item_bytes`.
std::vector<blink::block> blocks_of(char const* name, network& here, int count,
                                    comm_size const* begins, comm_size const* sizes,
                                    std::size_t item_bytes) {
  int const ranks = here.comm.rank_count();
  if (count != ranks) {
    throw blink::precondition_error(std::string(name) + ": " + std::to_string(count) +
                                    " blocks, expected one for each of " + std::to_string(ranks) +
                                    " ranks");
  }
  std::vector<blink::block> result;
  ++here.calls;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const begin = static_cast<std::size_t>(begins[rank]);
    auto const size = static_cast<std::size_t>(sizes[rank]);
    if (begins[rank] < 0 || sizes[rank] < 0 || begin % item_bytes != 0 || size % item_bytes != 0) {
      throw blink::precondition_error(std::string(name) + ": the block of rank " +
                                      std::to_string(rank) + " has " + std::to_string(sizes[rank]) +
                                      " bytes from " + std::to_string(begins[rank]) +
                                      " on, expected multiples of " + std::to_string(item_bytes));
    }
    result.push_back({begin / item_bytes, size / item_bytes});
    here.bytes += size;
  }
  return result;
}

/// True if the blocks are as many items for each rank, one behind the other.
bool are_equal(std::vector<blink::block> const& blocks) {
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    if (blocks[rank].count != blocks[0].count || blocks[rank].begin != rank * blocks[0].count) {
      return false;
    }
  }
  return true;
}

void reduce_scatter(char* input, comm_size, int type_size, comm_size const* begins,
                    comm_size const* sizes, int count, char* output, comm_size,
                    reduce_function const& reduce) {
  auto& here = joined();
  blink::expects(type_size > 0, "reduce_scatter: elements without bytes, expected some");
  auto const bytes = static_cast<std::size_t>(type_size);
  auto const blocks = blocks_of("reduce_scatter", here, count, begins, sizes, bytes);
  auto const add = [&](void const* in, void* inout, std::size_t n) {
    reduce(static_cast<char const*>(in), static_cast<char*>(inout), type_size,
           static_cast<comm_size>(n * bytes));
  };
  auto const operation = blink::into_second(bytes, add);
  void const* const from = input;
  void* const to = output;
  if (are_equal(blocks)) {  // small ones travel with the call
    blink::reduce_scatter(here.comm, from, to, blocks[0].count, operation);
  } else {
    blink::reduce_scatter_v(here.comm, from, to, blocks, operation);
  }
}

void all_gather(char* input, comm_size, comm_size const* begins, comm_size const* sizes, int count,
                char* output, comm_size) {
  auto& here = joined();
  auto const blocks = blocks_of("all_gather", here, count, begins, sizes, 1);
  auto const& own = blocks[static_cast<std::size_t>(here.comm.rank())];
  // LightGBM's input may lie in the output, at another place than this rank's block.
  char* const mine = output + own.begin;
  if (mine != input) std::memmove(mine, input, own.count);
  if (are_equal(blocks)) {
    blink::all_gather(here.comm, static_cast<char const*>(mine), output, own.count);
  } else {
    blink::all_gather_v(here.comm, static_cast<char const*>(mine), output, blocks);
  }
}

}  // namespace

extern "C" {

int blink_lightgbm_join(void) {
  try {
    last_error.clear();
    blink::expects(present == nullptr,
                   "blink_lightgbm_join: this process has a communicator, expected "
                   "blink_lightgbm_leave first");
    present = std::make_unique<network>();
    return 0;
  } catch (std::exception const& error) {
    last_error = error.what();
    return -1;
  }
}
char const* blink_lightgbm_error(void) {
  return last_error.c_str();
}
int blink_lightgbm_rank(void) {
  return present == nullptr ? -1 : present->comm.rank();
}
int blink_lightgbm_rank_count(void) {
  return present == nullptr ? 0 : present->comm.rank_count();
}
void* blink_lightgbm_reduce_scatter(void) {
  return reinterpret_cast<void*>(&reduce_scatter);
}
void* blink_lightgbm_all_gather(void) {
  return reinterpret_cast<void*>(&all_gather);
}
uint64_t blink_lightgbm_calls(void) {
  return present == nullptr ? 0 : present->calls;
}
uint64_t blink_lightgbm_bytes(void) {
  return present == nullptr ? 0 : present->bytes;
}
void blink_lightgbm_leave(void) {
  present.reset();
}

}  // extern "C"
