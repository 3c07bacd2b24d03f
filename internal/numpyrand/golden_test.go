package numpyrand

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

type op struct {
	Op  string    `json:"op"`
	N   uint32    `json:"n"`
	Out []float64 `json:"out"`
}

type stream struct {
	Seed int64 `json:"seed"`
	Ops  []op  `json:"ops"`
}

// read decodes envs/rng.json. Other folders of recorded numbers may lack it: the streams do
// not depend on levels.
func read(t *testing.T, dst any) {
	t.Helper()
	path := golden.Path(t, "envs", "rng.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join("..", "..", "testdata", "envs", "rng.json")
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, dst), path)
}

// TestStreamsEqualTheOriginals compares with draws of numpy and of Python's random module
// (testdata/envs/rng.json), bit for bit.
func TestStreamsEqualTheOriginals(t *testing.T) {
	var file struct {
		PCG    []stream `json:"pcg64"`
		Python []stream `json:"mt_python"`
		Numpy  []stream `json:"mt_numpy_legacy"`
	}
	read(t, &file)
	tally := golden.Of(t, "envs/rng.json (streams)")
	replay := func(kind string, streams []stream, seed func(int64) func(op) float64) {
		if len(streams) == 0 {
			t.Errorf("%s: no streams", kind)
		}
		for _, s := range streams {
			r, draw := tally.Next("%s seed %d", kind, s.Seed), seed(s.Seed)
			for i, o := range s.Ops {
				for k, want := range o.Out {
					r.In("op %d (%s %d)", i, o.Op, o.N).Equal(fmt.Sprint("draw ", k), draw(o), want)
				}
			}
		}
	}
	replay("pcg64", file.PCG, func(seed int64) func(op) float64 {
		g := NewPCG64(uint64(seed))
		return func(o op) float64 {
			if o.Op == "random" {
				return g.Float64()
			}
			return float64(g.IntN(o.N))
		}
	})
	var m MT19937
	replay("python", file.Python, func(seed int64) func(op) float64 {
		m.SeedPython(seed)
		return func(o op) float64 {
			if o.Op == "random" {
				return m.Float64()
			}
			return float64(m.Below(uint64(o.N)))
		}
	})
	replay("numpy legacy", file.Numpy, func(seed int64) func(op) float64 {
		m.SeedNumpy(uint32(seed))
		return func(o op) float64 { return float64(m.RandInt(o.N)) }
	})
}

func TestNegativePythonSeedsCountByMagnitude(t *testing.T) {
	var a, b MT19937
	a.SeedPython(-17)
	b.SeedPython(17)
	for range 5 {
		if x, y := a.Uint32(), b.Uint32(); x != y {
			t.Fatalf("draws of seeds -17 and 17 differ: %d, %d", x, y)
		}
	}
}

func TestBoundedDrawsStayInRange(t *testing.T) {
	g := NewPCG64(9)
	var m MT19937
	m.SeedNumpy(9)
	for _, n := range []uint32{1, 2, 3, 7, 1 << 31, 1<<31 + 1, 1<<32 - 1} {
		for range 200 {
			if x := g.IntN(n); x >= n {
				t.Fatalf("IntN(%d) = %d", n, x)
			}
			if x := m.Below(uint64(n)); x >= uint64(n) {
				t.Fatalf("Below(%d) = %d", n, x)
			}
			if x := m.RandInt(n); x >= n {
				t.Fatalf("RandInt(%d) = %d", n, x)
			}
		}
	}
}
