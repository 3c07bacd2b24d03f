package builtin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/golden"
	"vagen/reward"
)

// soakKind is an environment of the soak test with valid responses.
type soakKind struct {
	Name    string
	Config  map[string]any
	Actions []string
}

// soakHostile are malformed and hostile responses.
var soakHostile = []string{
	"", "\x00\xff\xfe", strings.Repeat("<think>", 500), strings.Repeat("<answer>", 300) + strings.Repeat("</answer>", 300),
	"<answer>" + strings.Repeat("Up,", 3000) + "</answer>", "<think><image></think><answer><image></answer>",
	`<think>a</think><answer><svg width="1e9" height="1e9"><rect width="100%" height="100%"/></svg></answer>`,
	`<answer><!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><svg>&b;&b;</svg></answer>`,
	`<answer><svg><g id="a"><use href="#a"/></g></svg></answer>`,
	"<answer>pick(1e308,nan,inf)|place(,,)|push()</answer>", "<|im_end|><answer>Hit</answer>",
	"<perception>[[[{</perception><reasoning></reasoning><prediction>]]</prediction><answer>Left</answer>",
}

// Episodes of valid, malformed and hostile responses leak nothing: no goroutine, no
// file descriptor, no memory. VAGEN_SOAK is the number of episodes,
// 260 without it.
func TestSoak(t *testing.T) {
	kinds := golden.Table[[]soakKind](t, "soak.yaml")
	episodes := 20 * len(kinds)
	if text := os.Getenv("VAGEN_SOAK"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "VAGEN_SOAK is a number of episodes")
		episodes = max(n, 4*len(kinds))
	}
	registry := Registry()
	// Scenes, fonts and tables that are created once and cached are not a leak.
	for i := range episodes / 4 {
		soak(t, registry, kinds, i)
	}
	before := footprint()
	start := time.Now()
	for i := episodes / 4; i < episodes; i++ {
		soak(t, registry, kinds, i)
	}
	after := footprint()
	t.Logf("%d episodes, %v, before %+v, after %+v", episodes, time.Since(start).Round(time.Second), before, after)
	require.LessOrEqual(t, after.goroutines, before.goroutines)
	require.LessOrEqual(t, after.descriptors, before.descriptors)
	// Caches of drawn tiles and the garbage collector's data vary by some MiB. A leak
	// of one small picture for each episode would be beyond this in the long run.
	require.Less(t, after.heap, before.heap+8<<20)
}

// soak plays one episode; its number decides everything.
func soak(t *testing.T, registry *env.Registry, kinds []soakKind, number int) {
	kind := kinds[number%len(kinds)]
	r := rand.New(rand.NewPCG(uint64(number), 7))
	e, err := registry.New(kind.Name, kind.Config)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	ctx := context.Background()
	_, err = e.System(ctx)
	require.NoError(t, err)
	_, err = e.Reset(ctx, int64(number))
	require.NoError(t, err)
	p := env.ParserOf(e)
	for range 1 + r.IntN(4) {
		text := soakHostile[r.IntN(len(soakHostile))]
		if p != nil && r.IntN(3) > 0 {
			text = p.Compose(func(section string) string {
				if section == reward.SectionAnswer {
					return kind.Actions[r.IntN(len(kind.Actions))]
				}
				return "The box is above, the target is below and left. " + fmt.Sprint(number)
			})
			if r.IntN(3) == 0 { // a truncated response, or one without its middle
				at := r.IntN(len(text))
				text = text[:at] + text[min(len(text), at+r.IntN(2*len(text))):]
			}
		}
		out, err := e.Step(ctx, text)
		require.NoError(t, err, "%s on %q", kind.Name, text)
		if out.Done {
			return
		}
	}
}

type use struct {
	goroutines, descriptors int
	heap                    int64
}

// footprint is the process's use of resources after garbage collection.
// Descriptors are 0 where the system doesn't list them.
func footprint() use {
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // finalisers run in a goroutine of their own
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, _ := os.ReadDir("/proc/self/fd")
	return use{runtime.NumGoroutine(), len(open), int64(m.HeapAlloc)}
}
