#include "team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() atomic_thread_fence(memory_order_seq_cst)
#endif

// The loops of a team follow each other within microseconds, which is less than it
// takes to wake a thread. So helpers look out for the next loop for some tens of
// microseconds before they sleep, and so does whoever waits for helpers: those may wait
// for a processor that other work has.
enum { LOOKS = 4000, PATIENCE = 20000 };

// A loop's state is one number, so that a helper that comes late cannot take a share
// of a loop for one of the next: its serial number, and how many places are left.
#define BITS 40
#define LEFT(s) ((int64_t)((s) & ((UINT64_C(1) << BITS) - 1)))

static struct {
	int threads; // 0 before the start
	pthread_mutex_t taken;

	_Atomic uint64_t state;
	_Atomic int64_t done; // places of this loop
	_Atomic int64_t grain;
	work *f;
	void *of;
	int64_t n;

	pthread_mutex_t sleep;
	pthread_cond_t wake, end;
	_Atomic int asleep, waits; // helpers; the caller
} team = {.taken = PTHREAD_MUTEX_INITIALIZER, .sleep = PTHREAD_MUTEX_INITIALIZER,
		 .wake = PTHREAD_COND_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

static int open_shares(void) { return LEFT(atomic_load(&team.state)) > 0; }

// help does shares of the present loop until there are none left to take. Shares are
// long at first, as memory is read fastest in long runs, and short at the end, so
// that nobody waits long for the others.
static void help(void) {
	uint64_t s = atomic_load(&team.state);
	while (LEFT(s) > 0) {
		// The loop may end and another begin meanwhile, but then we do not get the share.
		int64_t left = LEFT(s), grain = atomic_load(&team.grain), take = left * 3 / (4 * team.threads);
		if (take < grain)
			take = grain;
		if (take > left)
			take = left;
		if (!atomic_compare_exchange_weak(&team.state, &s, s - (uint64_t)take))
			continue;
		// The loop cannot end before this share has, so what describes it stays.
		int64_t n = team.n, from = n - left;
		team.f(team.of, from, from + take);
		if (atomic_fetch_add(&team.done, take) + take == n && atomic_load(&team.waits)) {
			pthread_mutex_lock(&team.sleep);
			pthread_cond_signal(&team.end);
			pthread_mutex_unlock(&team.sleep);
		}
		s = atomic_load(&team.state);
	}
}

#if defined(__x86_64__)
uint64_t flush_denormals(void) {
	unsigned mode = __builtin_ia32_stmxcsr();
	__builtin_ia32_ldmxcsr(mode | 0x8040); // results and operands
	return mode;
}

void restore_denormals(uint64_t mode) { __builtin_ia32_ldmxcsr((unsigned)mode); }
#elif defined(__aarch64__)
uint64_t flush_denormals(void) {
	uint64_t mode;
	__asm__ volatile("mrs %0, fpcr" : "=r"(mode));
	__asm__ volatile("msr fpcr, %0" : : "r"(mode | UINT64_C(1) << 24));
	return mode;
}

void restore_denormals(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
uint64_t flush_denormals(void) { return 0; }
void restore_denormals(uint64_t mode) { (void)mode; }
#endif

static void *helper(void *unused) {
	(void)unused;
	flush_denormals();
	for (;;) {
		for (int looks = 0; looks < LOOKS; looks++) {
			if (open_shares()) {
				help();
				looks = 0;
			}
			PAUSE();
		}
		pthread_mutex_lock(&team.sleep);
		atomic_fetch_add(&team.asleep, 1);
		while (!open_shares())
			pthread_cond_wait(&team.wake, &team.sleep);
		atomic_fetch_sub(&team.asleep, 1);
		pthread_mutex_unlock(&team.sleep);
	}
	return 0;
}

static void start(int threads) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); // signals are the Go runtime's
	team.threads = 1;
	for (int i = 1; i < threads; i++) {
		pthread_t t;
		if (pthread_create(&t, 0, helper, 0))
			break;
		pthread_detach(t);
		team.threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, 0);
}

void team_start(int threads) {
	pthread_mutex_lock(&team.taken);
	if (!team.threads)
		start(threads);
	pthread_mutex_unlock(&team.taken);
}

int team_size(void) { return team.threads > 1 ? team.threads : 1; }

int team_take(void) { return pthread_mutex_trylock(&team.taken) == 0; }

void team_leave(int taken) {
	if (taken)
		pthread_mutex_unlock(&team.taken);
}

void team_loop(int taken, work *f, void *of, int64_t n, int64_t grain) {
	if (!taken || team.threads <= 1 || n <= grain) {
		f(of, 0, n);
		return;
	}
	team.f = f, team.of = of, team.n = n;
	atomic_store(&team.grain, grain);
	atomic_store(&team.done, 0);
	uint64_t serial = (atomic_load(&team.state) >> BITS) + 1;
	atomic_store(&team.state, serial << BITS | (uint64_t)n);
	if (atomic_load(&team.asleep)) {
		pthread_mutex_lock(&team.sleep);
		pthread_cond_broadcast(&team.wake);
		pthread_mutex_unlock(&team.sleep);
	}
	help();
	for (int looks = 0; looks < PATIENCE && atomic_load(&team.done) < n; looks++)
		PAUSE();
	if (atomic_load(&team.done) == n)
		return;
	pthread_mutex_lock(&team.sleep);
	atomic_store(&team.waits, 1);
	while (atomic_load(&team.done) < n)
		pthread_cond_wait(&team.end, &team.sleep);
	atomic_store(&team.waits, 0);
	pthread_mutex_unlock(&team.sleep);
}
