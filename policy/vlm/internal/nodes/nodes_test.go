package nodes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func freeAddress() string {
	s := httptest.NewServer(nil)
	defer s.Close()
	return s.Listener.Addr().String()
}

// joined connects nodes in this process.
func joined(t *testing.T, count int, change func(c *Config)) ([]*Group, []error) {
	t.Helper()
	groups, errs := make([]*Group, count), make([]error, count)
	address := freeAddress()
	var wg sync.WaitGroup
	for id := range count {
		c := Config{Nodes: count, ID: id, Coordinator: address, Token: "secret", Timeout: 20 * time.Second, Facts: []Fact{{"devices", "2"}}}
		if change != nil {
			change(&c)
		}
		wg.Go(func() { groups[id], errs[id] = Join(t.Context(), c) })
	}
	wg.Wait()
	for _, g := range groups {
		if g != nil {
			t.Cleanup(func() { g.Close() })
		}
	}
	return groups, errs
}

// all calls f for every node at the same time.
func all(groups []*Group, f func(g *Group) error) []error {
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	return errs
}

// requireExchange sends data in all directions.
func requireExchange(t *testing.T, groups []*Group) {
	t.Helper()
	errs := all(groups, func(g *Group) error {
		got, err := g.Gather(t.Context(), []byte{byte(g.ID())}, 1)
		for node, x := range got {
			if len(x) != 1 || int(x[0]) != node {
				return fmt.Errorf("node %d sent %v", node, x)
			}
		}
		if err != nil {
			return err
		}
		partner := g.ID() ^ 1
		if partner >= len(groups) {
			return nil
		}
		// More than the buffers of a connection hold, in both directions at once.
		large := make([]float32, 3<<20)
		large[len(large)-1] = float32(g.ID())
		theirs := make([]float32, len(large))
		err = g.Swap(t.Context(), partner,
			func(ctx context.Context, l *Link) error { return l.SendFloats(ctx, large) },
			func(ctx context.Context, l *Link) error { return l.ReceiveFloats(ctx, theirs) })
		if err == nil && theirs[len(theirs)-1] != float32(partner) {
			err = errors.New("other numbers")
		}
		return err
	})
	require.NoError(t, errors.Join(errs...))
}

func TestNodesExchangeInAllDirections(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, count := range []int{2, 4, 8} {
		groups, errs := joined(t, count, nil)
		require.NoError(t, errors.Join(errs...))
		requireExchange(t, groups)
		require.Equal(t, int64(count-1+4*3<<20), groups[0].Sent())
		errs = all(groups, func(g *Group) error {
			if g.ID() == 0 {
				return errors.Join(g.Command(t.Context(), []byte("order")), g.Close())
			}
			got, err := g.Next(t.Context())
			if string(got) != "order" {
				return fmt.Errorf("got %q, %w", got, err)
			}
			if _, err = g.Next(t.Context()); !errors.Is(err, ErrEnded) {
				return fmt.Errorf("no end: %w", err)
			}
			return nil
		})
		require.NoError(t, errors.Join(errs...))
	}
	// Eventually has a goroutine of its own.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond, "goroutines are left")
}

func TestANodesFailureReachesAll(t *testing.T) {
	groups, errs := joined(t, 4, nil)
	require.NoError(t, errors.Join(errs...))
	cause := errors.New("out of memory")
	errs = all(groups, func(g *Group) error {
		if g.ID() == 2 {
			return g.Fail(cause)
		}
		_, err := g.Gather(t.Context(), nil, 0)
		return err
	})
	require.ErrorIs(t, errs[2], cause)
	for _, node := range []int{0, 1, 3} {
		require.ErrorIs(t, errs[node], ErrFailed)
		require.ErrorContains(t, errs[node], "node 2")
		require.ErrorContains(t, errs[node], "out of memory")
		_, err := groups[node].Gather(t.Context(), nil, 0)
		require.Equal(t, groups[node].Err(), err, "the group has ended")
	}
}

func TestWaitingForANodeIsBounded(t *testing.T) {
	groups, errs := joined(t, 2, func(c *Config) { c.Timeout = 300 * time.Millisecond })
	require.NoError(t, errors.Join(errs...))
	_, err := groups[0].Gather(t.Context(), nil, 0)
	require.ErrorIs(t, err, ErrLost)
	require.ErrorContains(t, err, "receiving from node 1: it did nothing for 300ms")

	groups, errs = joined(t, 2, nil)
	require.NoError(t, errors.Join(errs...))
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	_, err = groups[1].Next(ctx)
	require.ErrorIs(t, err, context.Canceled)

	_, err = Join(t.Context(), Config{Nodes: 2, Coordinator: freeAddress(), Timeout: 100 * time.Millisecond})
	require.ErrorContains(t, err, "not all of the 2 nodes were there within 100ms")
	ctx, cancel = context.WithCancel(t.Context())
	go cancel()
	_, err = Join(ctx, Config{Nodes: 2, ID: 1, Coordinator: freeAddress(), Timeout: time.Minute})
	require.ErrorIs(t, err, context.Canceled)
}

func TestNodesThatDoNotFitAreRefused(t *testing.T) {
	_, errs := joined(t, 4, func(c *Config) {
		if c.ID == 2 {
			c.Facts = []Fact{{"devices", "4"}}
		}
		c.Timeout = 3 * time.Second
	})
	require.ErrorIs(t, errs[0], ErrConfig)
	for id, err := range errs {
		if id != 2 && errors.Is(err, ErrLost) { // it has not joined before the group ended
			continue
		}
		require.ErrorContains(t, err, "devices is 2 on node 0 and 4 on node 2, must be the same")
	}

	for says, c := range map[string]Config{
		"Nodes is 1, must be at least 2":              {Nodes: 1, Coordinator: "a:1", Timeout: 1},
		"ID is 2, must be in [0, 1]":                  {Nodes: 2, ID: 2, Coordinator: "a:1", Timeout: 1},
		`Coordinator is "a", must be host:port`:       {Nodes: 2, Coordinator: "a", Timeout: 1},
		"Timeout is 0s, must be positive":             {Nodes: 2, Coordinator: "a:1"},
		"other machines can reach 192.0.2.1:1, so a ": {Nodes: 2, Coordinator: "192.0.2.1:1", Timeout: time.Second},
		"other machines can reach :1, so a token":     {Nodes: 2, Coordinator: "127.0.0.1:1", Address: "0.0.0.0:1", Timeout: time.Second},
	} {
		_, err := Join(t.Context(), c)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, strings.ReplaceAll(says, "reach :1", "reach 0.0.0.0:1"))
	}
}

// TestStrangersOnThePort sends garbage, requests without the token, slow and huge ones, while nodes
// connect. None of them has an effect.
func TestStrangersOnThePort(t *testing.T) {
	address := freeAddress()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error)
	var leader *Group
	go func() {
		var err error
		leader, err = Join(ctx, Config{Nodes: 2, Coordinator: address, Token: "secret", Timeout: time.Minute})
		first <- err
	}()
	var held []net.Conn
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			held = append(held, c) // sends nothing
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	answer := func(request string) string {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		go io.WriteString(c, request) // the server may close before it has read all
		got, _ := io.ReadAll(io.LimitReader(c, 64))
		return string(got)
	}
	require.Contains(t, answer("\x00\x01\x02garbage\r\n\r\n"), "400 Bad Request")
	require.Contains(t, answer("GET /link?node=1 HTTP/1.1\r\nHost: x\r\nUpgrade: vagen-nodes\r\nConnection: close\r\n\r\n"), "401 Unauthorized")
	require.Contains(t, answer("GET /link?node=1 HTTP/1.1\r\nHost: x\r\nUpgrade: vagen-nodes\r\nAuthorization: Bearer guess\r\nConnection: close\r\n\r\n"), "401 Unauthorized")
	require.Contains(t, answer("GET /"+strings.Repeat("x", 1<<20)+" HTTP/1.1\r\n"), "431 Request Header Fields Too Large")
	require.Contains(t, answer("PUT /link?node=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n"), "401 Unauthorized")
	for _, node := range []string{"0", "2", "-1", "x"} {
		require.Contains(t, answer("GET /link?node="+node+" HTTP/1.1\r\nHost: x\r\nUpgrade: vagen-nodes\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n"), "400 Bad Request")
	}
	_, err := Join(t.Context(), Config{Nodes: 2, ID: 1, Coordinator: address, Token: "guess", Timeout: time.Minute})
	require.ErrorContains(t, err, "it does not accept the token")

	other, err := Join(t.Context(), Config{Nodes: 2, ID: 1, Coordinator: address, Token: "secret", Timeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, <-first)
	defer leader.Close()
	defer other.Close()
	_, err = http.Get("http://" + address + "/link")
	require.Error(t, err, "the port is closed when all nodes are connected")
}

// TestFramesAreChecked: frames of another kind or length than expected end the group without
// allocating what they announce.
func TestFramesAreChecked(t *testing.T) {
	frame := func(k kind, length uint64, payload string) string {
		return string(binary.LittleEndian.AppendUint64([]byte{byte(k)}, length)) + payload
	}
	for sent, says := range map[string]string{
		frame(data, 1<<62, ""):             "sent 4611686018427387904 bytes, at most 4 are allowed",
		frame(command, 4, "abcd"):          "sent a frame of kind 2 and 4 bytes, expected kind 1",
		frame(failure, 1<<40, ""):          "sent a frame of kind 3 and 1099511627776 bytes",
		frame(99, 0, ""):                   "sent a frame of kind 99",
		frame(data, 4, "ab"):               "the node is lost",
		"\x01":                             "the node is lost",
		frame(failure, 8, "no space"):      "it failed: no space",
		frame(data, 8, "abcdefgh") + "xyz": "sent 8 bytes, at most 4 are allowed",
	} {
		groups, errs := joined(t, 2, nil)
		require.NoError(t, errors.Join(errs...))
		go func() {
			io.WriteString(groups[1].links[0].conn, sent)
			groups[1].links[0].conn.Close()
		}()
		_, err := groups[0].Gather(t.Context(), []byte("abcd"), 4)
		require.ErrorContains(t, err, says)
	}
	groups, errs := joined(t, 2, nil)
	require.NoError(t, errors.Join(errs...))
	go io.WriteString(groups[1].links[0].conn, frame(data, 12, "abcdefghijkl"))
	err := groups[0].Swap(t.Context(), 1, func(context.Context, *Link) error { return nil },
		func(ctx context.Context, l *Link) error { return l.ReceiveFloats(ctx, make([]float32, 2)) })
	require.ErrorIs(t, err, ErrProtocol)
	require.ErrorContains(t, err, "node 1 sent 12 bytes, expected 8")
}

// TestWaitingForTheSlowestNodeIsCounted: node 1 sends what node 0 gathers 30 ms after node 0's data has
// arrived, so node 0 has waited longer than that.
func TestWaitingForTheSlowestNodeIsCounted(t *testing.T) {
	const late = 30 * time.Millisecond
	groups, errs := joined(t, 2, nil)
	require.NoError(t, errors.Join(errs...))
	require.Zero(t, groups[0].Waited())
	errs = all(groups, func(g *Group) error {
		if g.ID() == 0 {
			_, err := g.Gather(t.Context(), []byte("a"), 1)
			return err
		}
		l := g.links[0]
		if _, err := l.Receive(t.Context(), 1); err != nil {
			return err
		}
		time.Sleep(late)
		return l.Send(t.Context(), []byte("b"))
	})
	require.NoError(t, errors.Join(errs...))
	require.GreaterOrEqual(t, groups[0].Waited(), late)
	require.Zero(t, groups[1].Waited())
}
