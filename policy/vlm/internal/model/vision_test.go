package model

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

func TestGradientsOfMergers(t *testing.T) {
	const cell, hidden, out = 4, 3, 5
	r := newSource(40)
	x := r.normal(0.2, 1, 2*cell, hidden)
	mat := func(rows, cols int) operand { return r.normal(0, 1/math.Sqrt(float64(cols)), rows, cols) }
	pairs := map[string]pair{}
	for name, m := range map[string]Merger{
		"RMS norm of patches":   {Cell: cell},
		"layer norm of patches": {Cell: cell, LayerNorm: true},
		"layer norm of cells":   {Cell: cell, LayerNorm: true, NormCell: true},
	} {
		width := hidden
		if m.NormCell {
			width = cell * hidden
		}
		w := []operand{r.normal(1, 0.3, width)}
		if m.LayerNorm {
			w = append(w, r.normal(0, 0.3, width))
		}
		w = append(w, mat(cell*hidden, cell*hidden), r.normal(0, 0.3, cell*hidden), mat(out, cell*hidden),
			r.normal(0, 0.3, out))
		n := len(w)
		wrt := []int{n}
		for i := range n {
			wrt = append(wrt, i)
		}
		pairs[name] = pair{
			in: append(append([]operand{}, w...), x), wrt: wrt,
			forward: func(in []*Node) []*Node { return []*Node{m.Forward(in[:n], in[n])} },
			back: func(in, dy []*Node) []*Node {
				dx, grads := m.Backward(in[:n], in[n], dy[0])
				return append([]*Node{dx}, grads...)
			},
			plain: func(in []operand) []operand {
				w, y := slices64(in[:n]), in[n].f
				if m.LayerNorm {
					y, w = plainLayerNorm(y, w[0], w[1], visionEps), w[2:]
				} else {
					y, w = plainRMSNorm(y, w[0], visionEps), w[1:]
				}
				y = each(plainLinear(y, w[0], w[1], cell*hidden), plainGELU)
				return []operand{{f: plainLinear(y, w[2], w[3], cell*hidden), dims: []int{2, out}}}
			},
		}
	}
	onEach(t, pairs)
}

// patchConfig is a tower of two-pixel patches.
func patchConfig(family Family) *Config {
	return &Config{
		Family: family, Rescale: 1.0 / 127.5, NormMean: [3]float64{0.2, 0.5, 0.7}, NormStd: [3]float64{0.3, 0.2, 0.1},
		Vision: &Vision{Hidden: 8, Heads: 2, Patch: 2, Merge: 2, Temporal: 3, Channels: 3, Positions: 4},
	}
}

// Every frame of the convolution sees the same picture.
func TestGradientsOfPatchEmbedding(t *testing.T) {
	const patches, hidden, area, frames = 5, 8, 4, 3
	r := newSource(41)
	pixels := operand{b: make([]byte, patches*3*area), dims: []int{patches, 3 * area}}
	for i := range pixels.b {
		pixels.b[i] = byte(r.IntN(256))
	}
	place := ints(make([]int32, 2*patches), patches, 2)
	conv := r.normal(0, 0.1, hidden, 3, frames, 2, 2)
	bias, table := r.normal(0, 0.3, hidden), r.normal(0, 1, 4, hidden)
	index := ints([]int32{0, 1, 2, 3, 3, 3, 3, 3, 0, 0, 1, 1, 2, 1, 0, 3, 1, 0, 3, 2}, patches, 4)
	weight := r.normal(0.25, 0.2, patches, 4)
	embed := func(c *Config, conv, bias []float64) []float64 {
		y := make([]float64, patches*hidden)
		for p := range patches {
			for h := range hidden {
				for ch := range 3 {
					for f := range frames {
						for k := range area {
							x := (float64(pixels.b[(p*3+ch)*area+k])*c.Rescale - c.NormMean[ch]) / c.NormStd[ch]
							y[p*hidden+h] += x * conv[((h*3+ch)*frames+f)*area+k]
						}
					}
				}
				if bias != nil {
					y[p*hidden+h] += bias[h]
				}
			}
		}
		return y
	}
	plain, learned := patchConfig(Qwen25VL), patchConfig(Qwen3VL)
	onEach(t, map[string]pair{
		"no positions": {
			in: []operand{conv, pixels, place}, wrt: []int{0},
			forward: func(in []*Node) []*Node {
				return []*Node{plain.PatchForward(in[:1], PatchInput{Pixels: in[1], Place: in[2]}, dtypes.Float32)}
			},
			back: func(in, dy []*Node) []*Node {
				return plain.PatchBackward(in[:1], PatchInput{Pixels: in[1], Place: in[2]}, dy[0])
			},
			plain: func(in []operand) []operand {
				return []operand{{f: embed(plain, in[0].f, nil), dims: []int{patches, hidden}}}
			},
		},
		"learned positions": {
			in: []operand{conv, bias, table, pixels, place, index, weight}, wrt: []int{0, 1, 2},
			forward: func(in []*Node) []*Node {
				return []*Node{learned.PatchForward(in[:3], PatchInput{in[3], in[4], in[5], in[6]}, dtypes.Float32)}
			},
			back: func(in, dy []*Node) []*Node {
				return learned.PatchBackward(in[:3], PatchInput{in[3], in[4], in[5], in[6]}, dy[0])
			},
			plain: func(in []operand) []operand {
				y := embed(learned, in[0].f, in[1].f)
				for p := range patches {
					for k := range 4 {
						for h := range hidden {
							y[p*hidden+h] += in[6].f[4*p+k] * in[2].f[int(index.i[4*p+k])*hidden+h]
						}
					}
				}
				return []operand{{f: y, dims: []int{patches, hidden}}}
			},
		},
	})
}

// Half of a head's frequencies turn with the row, half with the column.
func TestVisionAngles(t *testing.T) {
	c := &Config{Vision: &Vision{Hidden: 32, Heads: 2}} // heads of 16: four frequencies each
	place := []int32{0, 0, 1, 2, 30, 17}
	var cos, sin []float64
	for p := 0; p < len(place); p += 2 {
		for _, at := range place[p : p+2] {
			for i := range 4 {
				angle := float64(at) * math.Pow(10000, -2*float64(i)/8)
				cos, sin = append(cos, math.Cos(angle)), append(sin, math.Sin(angle))
			}
		}
	}
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		got := run(t, d, []operand{ints(place, 3, 2)}, func(in []*Node) []*Node {
			cos, sin := c.VisionAngles(in[0])
			return []*Node{cos, sin}
		})
		requireClose(t, "cos", got[0], cos, 5e-6, 0) // an angle of 30 in float32
		requireClose(t, "sin", got[1], sin, 5e-6, 0)
	})
}
