package vlm

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx/gomlx/backends"
	_ "github.com/gomlx/gomlx/backends/xla"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

type manifest struct {
	Model  string `json:"model"`
	Critic bool   `json:"critic"`
	Cases  []struct {
		Name      string `json:"name"`
		PromptLen int    `json:"prompt_len"`
		Shape     []int  `json:"shape"`
		Prompts   []struct {
			Images []string `json:"images"`
		} `json:"prompts"`
	} `json:"cases"`
	ParamNames []string `json:"param_names"`
	AdamW      struct {
		LR    float64    `json:"lr"`
		Betas [2]float64 `json:"betas"`
		Eps   float64    `json:"eps"`
		Decay float64    `json:"weight_decay"`
		Clip  float64    `json:"grad_clip"`
	} `json:"adamw"`
}

var testBackend backends.Backend

func testDevice(t *testing.T) *device.Device {
	if testBackend == nil {
		b, err := backends.NewWithConfig("xla:cpu")
		require.NoError(t, err)
		testBackend = b
	}
	return device.New(testBackend, "xla:cpu")
}

func TestGoldenQuick(t *testing.T) {
	root := golden.Root(t)
	dirs, err := filepath.Glob(filepath.Join(root, "vlm", "*", "manifest.json"))
	require.NoError(t, err)
	d := testDevice(t)
	for _, path := range dirs {
		dir := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err != nil {
			continue
		}
		var m manifest
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &m))
		raw, err = os.ReadFile(filepath.Join(dir, "checkpoint", "config.json"))
		require.NoError(t, err)
		cfg, err := model.ParseConfig(raw)
		require.NoError(t, err)
		if m.Critic {
			cfg.Critic, cfg.Tied = true, false
		}
		t.Run(m.Model, func(t *testing.T) {
			tally := golden.NewTally(t, "vlm/"+m.Model)
			r, err := safetensors.OpenSharded(filepath.Join(dir, "checkpoint"))
			require.NoError(t, err)
			defer r.Close()
			found, unused, err := resolve(r, cfg)
			require.NoError(t, err)
			require.Empty(t, unused)
			for _, keep := range []keepMode{keepAll, keepMost, keepInputs} {
				k := newKernels(d, cfg, dtypes.Float32, keep)
				n := newNet(k, cfg)
				w, err := newTensors(d, n.groups.All(), stored(r, found, nil))
				require.NoError(t, err)
				l := newLearner(n, w, nil)
				g, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
				require.NoError(t, err)
				defer g.Close()
				for _, c := range m.Cases {
					tally.Case()
					ids, err := g.Int64(c.Name+".input_ids", nil)
					require.NoError(t, err)
					mask, err := g.Int64(c.Name+".attention_mask", nil)
					require.NoError(t, err)
					B, T := c.Shape[0], c.Shape[1]
					var rows policy.Rows
					rows.Offsets = []int{0}
					var src []int
					for b := range B {
						for i := range T {
							if mask[b*T+i] == 1 {
								rows.Tokens = append(rows.Tokens, int32(ids[b*T+i]))
								src = append(src, b*T+i)
							}
						}
						rows.Offsets = append(rows.Offsets, len(rows.Tokens))
						var ims []policy.Image
						for range c.Prompts[b].Images {
							ims = append(ims, policy.Image{})
						}
						rows.Images = append(rows.Images, ims)
					}
					next := 0
					if _, ok := g.Info(c.Name + ".image_grid_thw"); ok {
						if _, ok := g.Info(c.Name + ".pixel_values"); !ok {
							continue
						}
					}
					pk := &packer{cfg: cfg, budget: 4096, picture: func(policy.Image) (picture, error) {
						grids, err := g.Int64(c.Name+".image_grid_thw", nil)
						require.NoError(t, err)
						pv, err := g.Float32(c.Name+".pixel_values", nil)
						require.NoError(t, err)
						at := 0
						for i := range next {
							at += int(grids[3*i+1] * grids[3*i+2])
						}
						gr := grid{int(grids[3*next+1]), int(grids[3*next+2])}
						next++
						pic := picture{grid: gr}
						dim := 2 * cfg.Vision.PatchDim()
						area := cfg.Vision.Patch * cfg.Vision.Patch
						for p := range gr.h * gr.w {
							for c := range 3 {
								for k := range area {
									x := float64(pv[(at+p)*dim+c*2*area+k])*cfg.NormStd[c] + cfg.NormMean[c]
									pic.pixels = append(pic.pixels, byte(math.Round(x*255)))
								}
							}
						}
						return pic, nil
					}}
					want := make([]bool, len(rows.Tokens))
					for i := range want {
						want[i] = true
					}
					packs, err := pk.packs(&rows, want)
					require.NoError(t, err)
					if m.Critic {
						_, _, val, err := l.score(context.Background(), packs, n.head(false, true), len(want), 64, 1)
						require.NoError(t, err)
						gold, err := g.Float32(c.Name+".values", nil)
						require.NoError(t, err)
						for i, s := range src {
							if s%T > 0 && mask[s-1] == 1 {
								tally.Float(t, c.Name+" value", float64(val[i]), float64(gold[s-1]), golden.Tolerance{Abs: 1e-4})
							}
						}
					} else {
						lp, ent, _, err := l.score(context.Background(), packs, n.head(true, false), len(want), 64, 1)
						require.NoError(t, err)
						gold, err := g.Float32(c.Name+".logprobs", nil)
						require.NoError(t, err)
						goldEnt, err := g.Float32(c.Name+".entropy", nil)
						require.NoError(t, err)
						for i, s := range src {
							b, p := s/T, s%T
							if p > 0 && mask[s-1] == 1 {
								tally.Float(t, c.Name+" logprob", float64(lp[i]), float64(gold[b*(T-1)+p-1]), golden.Tolerance{Abs: 1e-4})
								tally.Float(t, c.Name+" entropy", float64(ent[i]), float64(goldEnt[s-1]), golden.Tolerance{Abs: 1e-4})
							}
						}
					}
					if c.Name != "train" {
						continue
					}
					lm, err := g.Int64(c.Name+".loss_mask", nil)
					require.NoError(t, err)
					sum := 0.0
					for _, s := range src {
						sum += float64(lm[s])
					}
					b := policy.Batch{Rows: rows, Weight: make([]float32, len(want))}
					for i, s := range src {
						b.Weight[i] = float32(float64(lm[s]) / sum)
						want[i] = lm[s] == 1
					}
					packs, err = pk.packs(&rows, want)
					require.NoError(t, err)
					losses, _ := g.Float32("train.losses", nil)
					norms, _ := g.Float32("train.grad_norms", nil)
					for step := range 3 {
						grads, stats, err := l.learn(context.Background(), packs, n.head(true, false), &model.Loss{Imitate: true}, gather(&b), hyperParams(policy.Objective{Temperature: 1}), 64)
						require.NoError(t, err)
						tally.Float(t, "loss", stats[model.StatPolicy], float64(losses[step]), golden.Tolerance{Abs: 1e-4, Rel: 1e-3})
						norm, _, err := l.apply(grads, policy.Optimizer{Beta1: m.AdamW.Betas[0], Beta2: m.AdamW.Betas[1], Epsilon: m.AdamW.Eps, WeightDecay: m.AdamW.Decay, GradClip: m.AdamW.Clip}, m.AdamW.LR)
						require.NoError(t, err)
						tally.Float(t, "norm", norm, float64(norms[step]), golden.Tolerance{Rel: 5e-4})
					}
				}
				l.free()
			}
		})
	}
}
