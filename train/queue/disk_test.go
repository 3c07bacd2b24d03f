//go:build linux

package queue

import (
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestADiskThatIsFullEndsTheRun: an embedded server that fails to write a result never writes
// its stream again, also after there is room. A limit on the size of files stands for the disk.
func TestADiskThatIsFullEndsTheRun(t *testing.T) {
	f := newFixture(t, nil)
	f.deal(t)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64, Max: was.Max}))
	room := func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)) }
	defer room()
	o := f.workerOptions()
	o.Drain = 0 // its results cannot be sent
	f.work(t, o)
	require.Eventually(t, f.log.has("ritical write error"), patience, 10*time.Millisecond)
	room()
	<-f.done
	testkit.Error(t, f.err, ErrServer, "resumed when its disk has room")
}
