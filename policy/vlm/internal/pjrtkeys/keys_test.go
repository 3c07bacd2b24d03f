//go:build cgo

package pjrtkeys_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/gomlx/go-xla/pjrt"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/keyvalue"
	"vagen/policy/vlm/internal/pjrtkeys"
	"vagen/policy/vlm/internal/pjrtkeys/fakeplugin"
	"vagen/policy/vlm/internal/plugin"
)

// asNode makes the test binary one of two processes that create a client.
const asNode = "VAGEN_TEST_KEYS_NODE"

// fake is the process's plugin; only one can have callbacks.
var fake = fakeplugin.New()

func TestMain(m *testing.M) {
	if node := os.Getenv(asNode); node != "" {
		other := map[string]string{"0": "1", "1": "0"}[node]
		store := &keyvalue.Client{URL: os.Getenv("VAGEN_TEST_KEYS_URL"), Token: "secret"}
		err := pjrtkeys.Create(fake, store, func() error {
			got, err := fakeplugin.Client(fake, "topology/"+node, "of node "+node, "topology/"+other, time.Minute)
			fmt.Print(got)
			return err
		})
		if err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTwoProcessesExchangeKeysThroughTheCallbacks(t *testing.T) {
	served := httptest.NewServer(keyvalue.Handler(keyvalue.NewMemory(), "secret"))
	defer served.Close()
	t.Setenv("VAGEN_TEST_KEYS_URL", served.URL)
	said := make(chan string)
	for _, node := range []string{"0", "1"} {
		go func() {
			c := exec.CommandContext(t.Context(), os.Args[0])
			c.Env = append(os.Environ(), asNode+"="+node)
			out, err := c.CombinedOutput()
			said <- fmt.Sprintf("node %s got %q, %v", node, out, err)
		}()
	}
	require.ElementsMatch(t, []string{`node 0 got "of node 1", <nil>`, `node 1 got "of node 0", <nil>`}, []string{<-said, <-said})
}

func TestErrorsOfTheStoreReachThePlugin(t *testing.T) {
	store := keyvalue.NewMemory()
	client := func(put, value, get string, wait time.Duration) (got string, err error) {
		err = pjrtkeys.Create(fake, store, func() error {
			got, err = fakeplugin.Client(fake, put, value, get, wait)
			return err
		})
		return got, err
	}
	got, err := client("a", "1", "a", 0)
	require.NoError(t, err)
	require.Equal(t, "1", got)
	_, err = client("a", "1", "never", 0)
	require.ErrorContains(t, err, "code 5: keyvalue: key not found", "NOT_FOUND")
	_, err = client("a", "1", "never", 10*time.Millisecond)
	require.ErrorContains(t, err, "code 4: ", "DEADLINE_EXCEEDED")
	_, err = client("a", "2", "a", 0)
	require.ErrorContains(t, err, "code 6: ", "ALREADY_EXISTS")
	_, err = client("", "2", "a", 0)
	require.ErrorContains(t, err, "code 13: ", "INTERNAL")

	_, err = fakeplugin.Client(fake, "a", "1", "a", 0)
	require.ErrorContains(t, err, "no callbacks", "outside of Create")
	err = pjrtkeys.Create(fake, store, func() error { return fakeplugin.OldClient(fake) })
	require.ErrorContains(t, err, "no callbacks")
	err = pjrtkeys.Create(fake, store, func() error { return nil })
	require.ErrorContains(t, err, "no client was created")
	err = pjrtkeys.Create(fakeplugin.New(), store, func() error { return nil })
	require.ErrorContains(t, err, "another plugin of this process has callbacks already")
}

// TestTheCPUPluginAcceptsTheCallbacks runs in a process of its own, because a process has one plugin
// with callbacks. The plugin has no mode for several processes, so it does not call them.
func TestTheCPUPluginAcceptsTheCallbacks(t *testing.T) {
	const alone = "VAGEN_TEST_KEYS_CPU"
	if os.Getenv(alone) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), alone+"=1", plugin.NoInstall+"=1")
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		t.Log(string(out))
		return
	}
	found, err := plugin.Find(t.Context(), plugin.CPU)
	if err != nil {
		t.Skip("no plugin: ", err)
	}
	p, err := pjrt.GetPlugin(found.Path)
	require.NoError(t, err)
	var c *pjrt.Client
	require.NoError(t, pjrtkeys.Create(p, keyvalue.NewMemory(), func() (err error) {
		c, err = p.NewClient(pjrt.NamedValuesMap{"cpu_device_count": int64(2)})
		return err
	}))
	require.Len(t, c.AddressableDevices(), 2)
	require.NoError(t, c.Destroy())
}
