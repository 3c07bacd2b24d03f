package vlm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// A conversation of several turns, with images and responses of different
// lengths, gives the log-probs of one full pass over its tokens.
func TestCacheEqualsFullPass(t *testing.T) {
	d := testDevice(t)
	cfg := tinyConfig()
	k := newKernels(d, cfg, dtypes.Float32, keepAll)
	n := newNet(k, cfg)
	w, err := newTensors(d, n.groups.All(), random(cfg, 1))
	require.NoError(t, err)
	l := newLearner(n, w, nil)
	r := rand.New(rand.NewPCG(1, 5))
	ctx := context.Background()
	const B = 5
	s := &session{net: n}
	for range B {
		s.rows = append(s.rows, &lane{pending: -1})
	}
	rows := make([][]int32, B)
	ims := make([][]picture, B)
	want := make([][]bool, B)
	lps := make([][]float32, B)
	for turn := range 4 {
		var reqs []*request
		for b := range B {
			if turn == 2 && b == 1 {
				continue // sits out
			}
			q := &request{row: b, seed: r.Uint64(), max: 3 + b*4}
			for range 4 + r.IntN(5) {
				q.tokens = append(q.tokens, int32(r.IntN(256)))
			}
			pic := picture{grid: grid{4 + 2*(b%2), 4}, pixels: make([]byte, (4+2*(b%2))*4*588)}
			for i := range pic.pixels {
				pic.pixels[i] = byte(r.IntN(256))
			}
			if turn != 1 {
				for range pic.grid.tokens(2) {
					q.tokens = append(q.tokens, cfg.ImageToken)
				}
				q.tokens = append(q.tokens, 7)
				q.images = []picture{pic}
				ims[b] = append(ims[b], pic)
			}
			reqs = append(reqs, q)
		}
		out, err := s.generate(ctx, l.parts, reqs, policy.Sampling{Temperature: 0.9, TopP: .95}, []int32{5, 6, 9, 100, 101, 102, 103, 104, 105, 106}, 8)
		require.NoError(t, err)
		for i, q := range reqs {
			b := q.row
			rows[b] = append(rows[b], q.tokens...)
			want[b] = append(want[b], make([]bool, len(q.tokens))...)
			lps[b] = append(lps[b], make([]float32, len(q.tokens))...)
			rows[b] = append(rows[b], out[i].tokens...)
			lps[b] = append(lps[b], out[i].logProbs...)
			for range out[i].tokens {
				want[b] = append(want[b], true)
			}
		}
	}
	var all policy.Rows
	all.Offsets = []int{0}
	var allWant []bool
	var allLP []float32
	var pics []picture
	for b := range B {
		all.Tokens = append(all.Tokens, rows[b]...)
		allWant = append(allWant, want[b]...)
		allLP = append(allLP, lps[b]...)
		all.Offsets = append(all.Offsets, len(all.Tokens))
		var refs []policy.Image
		for _, p := range ims[b] {
			refs = append(refs, policy.Image{Hash: [32]byte{byte(len(pics))}})
			pics = append(pics, p)
		}
		all.Images = append(all.Images, refs)
	}
	pk := &packer{cfg: cfg, budget: 4096, picture: func(im policy.Image) (picture, error) { return pics[im.Hash[0]], nil }}
	packs, err := pk.packs(&all, allWant)
	require.NoError(t, err)
	lp, _, _, err := l.score(ctx, packs, n.head(true, false), len(allWant), 64, 0.9)
	require.NoError(t, err)
	worst := 0.0
	count := 0
	for i, on := range allWant {
		if on {
			worst = max(worst, math.Abs(float64(lp[i]-allLP[i])))
			count++
		}
	}
	fmt.Println("worst", worst, "of", count, "slots", s.slots, s.used)
	require.Less(t, worst, 1e-4)
}

func TestDecodePerf(t *testing.T) {
	d := testDevice(t)
	cfg := tinyConfig()
	k := newKernels(d, cfg, dtypes.Float32, keepAll)
	n := newNet(k, cfg)
	w, err := newTensors(d, n.groups.All(), random(cfg, 1))
	require.NoError(t, err)
	l := newLearner(n, w, nil)
	ctx := context.Background()
	for it := range 6 {
		B := []int{128, 128, 128, 64, 64, 32}[it]
		s := &session{net: n}
		for range B {
			s.rows = append(s.rows, &lane{pending: -1})
		}
		pic := picture{grid: grid{8, 8}, pixels: make([]byte, 64*588)}
		c0 := d.CompileTime()
		for turn := range 4 {
			var reqs []*request
			for b := range B {
				q := &request{row: b, seed: uint64(b), max: 18}
				for range 9 {
					q.tokens = append(q.tokens, int32(b))
				}
				for range 16 {
					q.tokens = append(q.tokens, cfg.ImageToken)
				}
				q.images = []picture{pic}
				reqs = append(reqs, q)
			}
			t0 := time.Now()
			_, err := s.generate(ctx, l.parts, reqs, policy.Sampling{Temperature: 1}, nil, 24)
			require.NoError(t, err)
			fmt.Println("B", B, "turn", turn, time.Since(t0), "slots", s.slots, "compile", d.CompileTime()-c0)
		}
		s.free()
	}
}
