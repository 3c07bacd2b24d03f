#ifndef VAGEN_FUSED_TEAM_H
#define VAGEN_FUSED_TEAM_H

#include <stdint.h>

// flush_denormals has this thread take numbers below the normal range for zero, as those
// of XLA do and those of the team, so that a result does not depend on the thread; they
// are slow besides. restore_denormals takes back what it returned.
uint64_t flush_denormals(void);
void restore_denormals(uint64_t mode);

// work is a share of a loop: places [from, to).
typedef void work(void *of, int64_t from, int64_t to);

// team_start makes a team of so many threads, the caller's included. Only the first
// call counts.
void team_start(int threads);

// team_size is how many threads the team has.
int team_size(void);

// team_take gets the team for the calling thread until team_leave. When somebody
// else has it the result is 0, and loops run on the calling thread alone.
int team_take(void);
void team_leave(int taken);

// team_loop runs a loop over [0, n) in shares of at least grain places, and returns
// when all of them are done.
void team_loop(int taken, work *f, void *of, int64_t n, int64_t grain);

#endif
