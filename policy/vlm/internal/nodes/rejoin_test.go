package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waiting starts a node, and returns how it ends.
func waiting(ctx context.Context, c Config) <-chan joining {
	out := make(chan joining, 1)
	go func() {
		g, err := Join(ctx, c)
		out <- joining{g, err}
	}()
	return out
}

// joining is the result of Join.
type joining struct {
	*Group
	err error
}

// halfDead is a process that joins as a node and then does nothing, without closing its connection.
// It listens and never answers.
func halfDead(t *testing.T, c Config) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.NoError(t, c.Check())
	s := &server{Config: &c, self: member{Instance: "half-dead", Address: l.Addr().String(), Host: "127.0.0.1"}}
	s.self.Facts = s.allFacts()
	var first *Link
	require.Eventually(t, func() bool { // node 0 may not listen yet
		first, err = s.dial(t.Context(), 0, member{Address: c.Coordinator})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, first.message(t.Context(), data, s.self))
	t.Cleanup(first.hangUp)
	return first
}

func configs(count int) []Config {
	address := freeAddress()
	out := make([]Config, count)
	for id := range out {
		out[id] = Config{Nodes: count, ID: id, Coordinator: address, Token: "secret", Timeout: time.Minute, Facts: []Fact{{"devices", "2"}}}
	}
	return out
}

// requireGroup waits for all nodes and lets them exchange.
func requireGroup(t *testing.T, nodes ...<-chan joining) {
	t.Helper()
	groups := make([]*Group, len(nodes))
	for id, n := range nodes {
		g := <-n
		require.NoError(t, g.err, "node %d", id)
		require.Equal(t, id, g.ID())
		groups[id] = g.Group
		t.Cleanup(func() { g.Close() })
	}
	requireExchange(t, groups)
}

// TestAHalfDeadNodeIsReplaced: its connections are open, and others are connecting to it.
func TestAHalfDeadNodeIsReplaced(t *testing.T) {
	for _, lost := range []int{1, 2} {
		c := configs(3)
		leader := waiting(t.Context(), c[0])
		old := halfDead(t, c[lost])
		other := waiting(t.Context(), c[3-lost])
		raw, err := old.receive(t.Context(), command, maxMessage, time.Minute)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"Number":1`, "the process got the request and does not answer it")
		again := waiting(t.Context(), c[lost])
		_, err = old.receive(t.Context(), command, maxMessage, time.Minute)
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorContains(t, err, fmt.Sprintf("another process has joined as node %d and replaces this one", lost))
		nodes := []<-chan joining{leader, other, other}
		nodes[lost] = again
		requireGroup(t, nodes...)
	}
}

// TestTheFirstOfTwoNodesWithOneNumberEnds, saying why, and the second one takes part.
func TestTheFirstOfTwoNodesWithOneNumberEnds(t *testing.T) {
	c := configs(3)
	var text lines
	c[0].Log = slog.New(slog.NewTextHandler(&text, nil))
	leader, first := waiting(t.Context(), c[0]), waiting(t.Context(), c[1])
	require.Eventually(t, func() bool { return text.has("another node is there") }, 10*time.Second, 10*time.Millisecond)
	second := waiting(t.Context(), c[1])
	g := <-first
	require.ErrorIs(t, g.err, ErrFailed)
	require.ErrorContains(t, g.err, "another process has joined as node 1 and replaces this one")
	require.True(t, text.has("another process replaces a node"))
	requireGroup(t, leader, second, waiting(t.Context(), c[2]))
}

// lines is a log.
type lines struct {
	sync.Mutex
	text string
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	l.text += string(p)
	return len(p), nil
}

func (l *lines) has(part string) bool {
	l.Lock()
	defer l.Unlock()
	return strings.Contains(l.text, part)
}

// TestAReplacementMustFit: that of another configuration ends the group, and one without the token has
// no effect.
func TestAReplacementMustFit(t *testing.T) {
	c := configs(3)
	leader := waiting(t.Context(), c[0])
	halfDead(t, c[1])
	stranger := c[1]
	stranger.Token = "guess"
	_, err := Join(t.Context(), stranger)
	require.ErrorContains(t, err, "it does not accept the token")
	other := c[1]
	other.Facts = []Fact{{"devices", "4"}}
	_, err = Join(t.Context(), other)
	require.ErrorContains(t, err, "devices is 2 on node 0 and 4 on node 1, must be the same")
	require.ErrorIs(t, (<-leader).err, ErrConfig)
}

// TestNodesThatStartManyTimesMeet: two nodes are ended and started again, at another port, at random
// times, while rounds begin that a half-dead third node never ends. When that one is replaced, all
// work together.
func TestNodesThatStartManyTimesMeet(t *testing.T) {
	for seed := range 9 {
		c := configs(4)
		leader := waiting(t.Context(), c[0])
		dead := 1 + seed%3
		halfDead(t, c[dead])
		nodes := []<-chan joining{leader, nil, nil, nil}
		var wg sync.WaitGroup
		for id := range nodes {
			if id == 0 || id == dead {
				continue
			}
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(id)))
				for range 6 {
					ctx, cancel := context.WithCancel(t.Context())
					n := waiting(ctx, c[id])
					time.Sleep(time.Duration(r.IntN(12)) * time.Millisecond)
					cancel()
					if g := <-n; g.err == nil {
						t.Errorf("node %d: a group without node %d has begun", id, dead)
					}
				}
				nodes[id] = waiting(t.Context(), c[id])
			})
		}
		wg.Wait()
		nodes[dead] = waiting(t.Context(), c[dead])
		requireGroup(t, nodes...)
	}
}
