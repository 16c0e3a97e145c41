/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BLINK_LIGHTGBM_H
#define BLINK_LIGHTGBM_H

/* LightGBM's network over blink, for LGBM_NetworkInitWithFunctions. One communicator a process. */

#include <stdint.h>

#if defined(__GNUC__)
#define BLINK_LIGHTGBM_API __attribute__((visibility("default")))
#else
#define BLINK_LIGHTGBM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the ranks that the environment names (BLINK_RANK and others; docs/processes.md). Waits for
 * all. Returns 0, or -1 with the cause in `blink_lightgbm_error`. */
BLINK_LIGHTGBM_API int blink_lightgbm_join(void);

/* The cause of the last failure of this thread; "" if there was none. */
BLINK_LIGHTGBM_API char const* blink_lightgbm_error(void);

/* This process's rank and the number of ranks; -1 and 0 before `blink_lightgbm_join`. */
BLINK_LIGHTGBM_API int blink_lightgbm_rank(void);
BLINK_LIGHTGBM_API int blink_lightgbm_rank_count(void);

/* The functions that LightGBM calls: pass their addresses, as `void*`, to
 * LGBM_NetworkInitWithFunctions. */
BLINK_LIGHTGBM_API void* blink_lightgbm_reduce_scatter(void);
BLINK_LIGHTGBM_API void* blink_lightgbm_all_gather(void);

/* Calls of these functions so far, and the bytes of their whole buffers. */
BLINK_LIGHTGBM_API uint64_t blink_lightgbm_calls(void);
BLINK_LIGHTGBM_API uint64_t blink_lightgbm_bytes(void);

/* Leaves the communicator, after LGBM_NetworkFree. Does nothing if there is none. */
BLINK_LIGHTGBM_API void blink_lightgbm_leave(void);

#ifdef __cplusplus
}
#endif

#endif
