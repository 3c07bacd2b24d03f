package queue

import "time"

// Tests, and the processes that they start, wait in shorter steps.
func init() {
	tick, fetchWait, connectWait = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	answerWait, storedWait, retryWait = 2*time.Second, 3*time.Second, 200*time.Millisecond
}
