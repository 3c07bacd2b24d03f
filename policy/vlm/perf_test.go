package vlm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

func tinyConfig() *model.Config {
	return &model.Config{Family: model.Qwen25VL, Tied: true, Value: true, ImageToken: 300, InitRange: 0.05,
		NormMean: [3]float64{.5, .5, .5}, NormStd: [3]float64{.25, .25, .25},
		Text:   model.Text{Vocab: 384, Hidden: 96, FF: 288, Layers: 3, Heads: 3, KVHeads: 1, HeadDim: 32, Eps: 1e-6, Theta: 10000, Sections: []int{6, 5, 5}, QKVBias: true},
		Vision: &model.Vision{Depth: 1, Hidden: 64, FF: 128, Heads: 2, Patch: 14, Merge: 2, Temporal: 2, Channels: 3, Window: 112, FullBlocks: []int{0}, Out: 96}}
}

func tinyRows(n int) (*policy.Rows, []bool) {
	r := rand.New(rand.NewPCG(1, 2))
	rows := &policy.Rows{Offsets: []int{0}}
	var want []bool
	for range n {
		turns := 1 + r.IntN(4)
		add := func(w bool, ids ...int32) {
			for _, id := range ids {
				rows.Tokens = append(rows.Tokens, id)
				want = append(want, w)
			}
		}
		for range 8 {
			add(false, int32(r.IntN(256)))
		}
		var ims []policy.Image
		for range turns {
			for range 3 {
				add(false, int32(r.IntN(256)))
			}
			for range 16 {
				add(false, 300)
			}
			ims = append(ims, policy.Image{})
			for range 6 {
				add(false, int32(r.IntN(256)))
			}
			for range 18 {
				add(true, int32(r.IntN(256)))
			}
		}
		rows.Images = append(rows.Images, ims)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	return rows, want
}

func subRows(rows *policy.Rows, want []bool, idx []int) (*policy.Rows, []bool) {
	o := &policy.Rows{Offsets: []int{0}}
	var w []bool
	for _, i := range idx {
		o.Tokens = append(o.Tokens, rows.Tokens[rows.Offsets[i]:rows.Offsets[i+1]]...)
		w = append(w, want[rows.Offsets[i]:rows.Offsets[i+1]]...)
		o.Offsets = append(o.Offsets, len(o.Tokens))
		o.Images = append(o.Images, rows.Images[i])
	}
	return o, w
}

func TestPerf(t *testing.T) {
	d := testDevice(t)
	cfg := tinyConfig()
	for _, keep := range []keepMode{keepAll} {
		for _, budget := range []int{768, 1024, 1536, 3072} {
			k := newKernels(d, cfg, dtypes.Float32, keep)
			n := newNet(k, cfg)
			w, err := newTensors(d, n.groups.All(), random(cfg, 1))
			require.NoError(t, err)
			l := newLearner(n, w, nil)
			rows, want := tinyRows(128)
			pic := picture{grid: grid{8, 8}, pixels: make([]byte, 64*588)}
			pk := &packer{cfg: cfg, budget: budget, picture: func(policy.Image) (picture, error) { return pic, nil }}
			ctx := context.Background()
			for range 3 {
				c0 := d.CompileTime()
				t0 := time.Now()
				packs, err := pk.packs(rows, want)
				require.NoError(t, err)
				tp := time.Since(t0)
				_, _, _, err = l.score(ctx, packs, n.head(true, true), len(want), 512, 1)
				require.NoError(t, err)
				ts := time.Since(t0)
				t0 = time.Now()
				for range 2 {
					perm := rand.New(rand.NewPCG(3, 4)).Perm(128)
					for m := range 4 {
						r2, w2 := subRows(rows, want, perm[m*32:m*32+32])
						ps, err := pk.packs(r2, w2)
						require.NoError(t, err)
						one := make([]float32, len(w2))
						for i := range one {
							one[i] = 1e-3
						}
						b := &policy.Batch{Rows: *r2, Weight: one, ValueWeight: one, OldLogProbs: one, Advantages: one, Returns: one, OldValues: one}
						g, _, err := l.learn(ctx, ps, n.head(true, true), &model.Loss{Policy: true, Value: true}, gather(b), hyperParams(policy.Objective{Temperature: 1, ClipLow: .2, ClipHigh: .2, ValueCoef: .5}), 512)
						require.NoError(t, err)
						_, _, err = l.apply(g, policy.DefaultOptimizer(), 1e-5)
						require.NoError(t, err)
					}
				}
				fmt.Printf("keep %d budget %d: tokens %d packs %d bins %d x %d | pack %v score %v update %v compile %v\n", keep, budget, len(want), len(packs), packs[0].bins, packs[0].length, tp, ts, time.Since(t0), d.CompileTime()-c0)
			}
		}
	}
}
