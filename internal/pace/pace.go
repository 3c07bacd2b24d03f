// Package pace says how long the trainers and workers of a queue wait until they look at other things, or try
// again.
package pace

import "time"

var (
	Tick    = 500 * time.Millisecond // a trainer, for results
	Fetch   = 2 * time.Second        // a worker, for tasks
	Answer  = 5 * time.Second        // for an answer of the server
	Stored  = 15 * time.Second       // until the server has stored a result
	Connect = time.Second            // between a worker's attempts to connect for the first time
	Retry   = 5 * time.Second        // at most, between attempts to send results
)

// Hurry shortens the times for tests. It is called before anything else in a process.
func Hurry() {
	Tick, Fetch, Connect, Retry = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond
	Answer, Stored = 2*time.Second, 3*time.Second
}
