package traintest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process starts the test binary again, with further environment variables. It is killed when
// the test ends.
func Process(t testing.TB, role string, variables ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(exe)
	c.Env = append(append(os.Environ(), role), variables...)
	c.Stderr = os.Stderr
	require.NoError(t, c.Start())
	return c
}

// Supervise runs n processes until number 0 succeeds, and starts those that were killed again.
// It returns how many were. Processes must not end in another way. kill is called often with
// the processes and may kill some.
func Supervise(t testing.TB, n int, start func(i int) *exec.Cmd, kill func([]*exec.Cmd)) (deaths int) {
	t.Helper()
	type end struct {
		index int
		err   error
	}
	ended, over := make(chan end), make(chan struct{})
	var waits sync.WaitGroup
	all := make([]*exec.Cmd, n)
	begin := func(i int) {
		c := start(i)
		all[i] = c
		waits.Go(func() {
			err := c.Wait()
			select {
			case ended <- end{i, err}:
			case <-over:
			}
		})
	}
	defer func() {
		close(over)
		for _, c := range all {
			if c != nil {
				c.Process.Kill()
			}
		}
		waits.Wait()
	}()
	for i := range all {
		begin(i)
	}
	clock := time.NewTicker(50 * time.Millisecond)
	defer clock.Stop()
	for {
		select {
		case e := <-ended:
			if e.index == 0 && e.err == nil {
				return deaths
			}
			var exit *exec.ExitError
			require.ErrorAs(t, e.err, &exit)
			require.True(t, exit.Sys().(syscall.WaitStatus).Signaled(), "process %d ended with %v", e.index, e.err)
			deaths++
			begin(e.index)
		case <-clock.C:
			kill(all)
		}
	}
}

// Die ends the process like a crash.
func Die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		self.Kill()
	}
	select {}
}

// dying is held by the goroutine that ends the process.
var dying sync.Mutex

// DieOnce ends the process at the first process that comes to a number of the variable DEATHS,
// such as worker:17,trainer:40. A file in the folder MARKS says that it has happened. A process
// writes one such file only: what other goroutines come to before it has ended is left to later ones.
func DieOnce(role string, number int) {
	name := fmt.Sprint(role, ":", number)
	if !slices.Contains(strings.Split(os.Getenv("DEATHS"), ","), name) {
		return
	}
	dying.Lock() // for ever if the process ends
	defer dying.Unlock()
	f, err := os.OpenFile(filepath.Join(os.Getenv("MARKS"), name), os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		f.Close()
		Die()
	}
}

// FreeAddress returns an address that is free now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Main runs the tests, or in a child process the role that an environment variable names. A role's
// error ends the process with status 1.
func Main(m *testing.M, variable string, roles map[string]func() error) {
	name := os.Getenv(variable)
	if name == "" {
		os.Exit(m.Run())
	}
	err := fmt.Errorf("%s is %q, which is no role", variable, name)
	if role, ok := roles[name]; ok {
		err = role()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
