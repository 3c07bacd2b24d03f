package procgroup

import (
	"errors"
	"os/exec"
	"time"
)

// Run runs a command until its context ends, and then ends the child processes that it has left running. These may have
// its output open, for which it waits as long as grace; that is no failure.
func Run(cmd *exec.Cmd, grace time.Duration) error {
	KillOnCancel(cmd)
	cmd.WaitDelay = grace
	err := cmd.Run()
	Kill(cmd)
	if errors.Is(err, exec.ErrWaitDelay) { // its status is 0
		return nil
	}
	return err
}

// Tail keeps the last bytes that are written to it, at most Most.
type Tail struct {
	Most  int
	Bytes []byte
}

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.Bytes = append(t.Bytes, b...)
	if n := len(t.Bytes) - t.Most; n > 0 {
		t.Bytes = append(t.Bytes[:0], t.Bytes[n:]...)
	}
	return len(b), nil
}
