// SPDX-License-Identifier: Apache-2.0
// A libnccl that moves nothing, but records that it was called. It has no ncclCommShrink.

#include <functions.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace blink_nccl {

struct communicator {
  int rank = 0;
  int rank_count = 0;
  int device = 0;
};

namespace {
int open_groups = 0;
/// True if ids leave room after their beginning, like those of NCCL.
bool leaves_room() {
  return std::getenv("OTHER_LIBRARY_LEAVES_ROOM") != nullptr;
}
}  // namespace

result ncclGetVersion(int* version) {
  *version = 1;
  return result::success;
}
result ncclGetUniqueId(unique_id* id) {
  static char number = 0;
  *id = {};
  std::memset(id->bytes, ++number, leaves_room() ? 40 : sizeof id->bytes);
  return result::success;
}
result ncclGroupStart() {
  ++open_groups;
  return result::success;
}
result ncclGroupEnd() {
  return --open_groups < 0 ? result::invalid_usage : result::success;
}
result ncclCommInitRankConfig(communicator** where, int rank_count, unique_id id, int rank,
                              configuration*) {
  bool const is_as_made = !leaves_room() || id.bytes[sizeof id.bytes - 1] == 0;
  if (!is_as_made) return result::invalid_usage;
  *where = new communicator{rank, rank_count, open_groups};
  return result::success;
}
result ncclCommSplit(communicator* given, int color, int key, communicator** where,
                     configuration*) {
  *where = color < 0 ? nullptr : new communicator{key, given->rank_count, color};
  return result::success;
}
result ncclCommGetUniqueId(communicator*, unique_id* id) {
  *id = {};
  id->bytes[0] = 'g';
  return result::success;
}
/// Expects the id of `ncclCommGetUniqueId` from new ranks.
result ncclCommGrow(communicator* given, int rank_count, unique_id const* id, int rank,
                    communicator** where, configuration*) {
  if (given == nullptr && id->bytes[0] != 'g') return result::invalid_argument;
  *where = new communicator{given == nullptr ? rank : given->rank, rank_count, open_groups};
  return result::success;
}
rank_team ncclTeamWorld(communicator* given) {
  return {given->rank_count, given->rank, 1};
}
result ncclGetPeerDevicePointer(void* window, std::size_t offset, int, void** pointer) {
  *pointer = static_cast<char*>(window) + offset;
  return result::success;
}
/// Expects the next rank as peer.
result ncclSignal(int peer, int, int, unsigned, communicator* given, stream_handle) {
  return peer == given->rank + 1 ? result::success : result::invalid_argument;
}
result ncclParamGetParameter(char const*, char const** value, int* length) {
  *value = "yes";
  *length = 3;
  return result::success;
}
result ncclGroupSimulateEnd(simulation_info* info) {
  info->time = 7;
  return --open_groups < 0 ? result::invalid_usage : result::success;
}
result ncclCommDestroy(communicator* given) {
  delete given;
  return result::success;
}
result ncclCommCount(communicator* given, int* count) {
  *count = given->rank_count;
  return result::success;
}
result ncclCommUserRank(communicator* given, int* rank) {
  *rank = given->rank;
  return result::success;
}
/// Writes the number of groups in which the communicator began, instead of the device.
result ncclCommCuDevice(communicator* given, int* device) {
  *device = given->device;
  return result::success;
}
/// Fails for 7 elements.
result ncclAllReduce(void const*, void* output, std::size_t count, data_type, operation,
                     communicator*, stream_handle) {
  *static_cast<float*>(output) = 1000;
  return count == 7 ? result::system_error : result::success;
}
char const* ncclGetLastError(communicator*) {
  return "the other library";
}

}  // namespace blink_nccl
