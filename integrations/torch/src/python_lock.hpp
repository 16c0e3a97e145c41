// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace blink_torch {

/// Lets other threads run Python while it exists, if this thread holds Python's lock. A wait for a
/// thread that may run functions of the program needs it.
class without_python_lock {
 public:
  without_python_lock();
  ~without_python_lock();
  without_python_lock(without_python_lock const&) = delete;
  without_python_lock& operator=(without_python_lock const&) = delete;

 private:
  void* state_;  // null: this thread did not hold the lock
};

}  // namespace blink_torch
