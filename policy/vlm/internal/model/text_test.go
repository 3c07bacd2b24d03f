package model

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// Tokens repeat, so that gradients of a row of the table add up; images take the
// place of tokens, in another order than their rows, and one row has no token.
func TestGradientsOfEmbedding(t *testing.T) {
	const vocab, hidden = 6, 3
	r := newSource(50)
	tokens := []int32{4, 1, 4, 5, 5, 0}
	imageRow := []int32{-1, -1, -1, 2, 0, -1}
	slot := []int32{4, 6, 3}
	table, images := r.normal(0, 1, vocab, hidden), r.normal(0, 1, 3, hidden)
	lookUp := func(table, images []float64) []operand {
		var y []float64
		for i, token := range tokens {
			if row := imageRow[i]; images != nil && row >= 0 {
				y = append(y, images[row*hidden:(row+1)*hidden]...)
				continue
			}
			y = append(y, table[token*hidden:(token+1)*hidden]...)
		}
		return []operand{{f: y, dims: []int{len(tokens), hidden}}}
	}
	onEach(t, map[string]pair{
		"text": {
			in: []operand{table, ints(tokens)}, wrt: []int{0},
			forward: func(in []*Node) []*Node { return []*Node{EmbedForward(in[0], in[1], nil, nil, dtypes.Float32)} },
			back: func(in, dy []*Node) []*Node {
				d, none := EmbedBackward(in[0], in[1], nil, nil, dy[0], nil)
				require.Nil(t, none)
				return []*Node{d}
			},
			plain: func(in []operand) []operand { return lookUp(in[0].f, nil) },
		},
		"images": {
			in: []operand{table, images, ints(tokens), ints(imageRow), ints(slot)}, wrt: []int{0, 1},
			forward: func(in []*Node) []*Node {
				return []*Node{EmbedForward(in[0], in[2], in[1], in[3], dtypes.Float32)}
			},
			back: func(in, dy []*Node) []*Node {
				d, di := EmbedBackward(in[0], in[2], in[3], in[4], dy[0], nil)
				return []*Node{d, di}
			},
			plain: func(in []operand) []operand { return lookUp(in[0].f, in[1].f) },
		},
		"deepstack": {
			in: []operand{r.normal(0, 1, 6, hidden), images, ints(imageRow), ints(slot)}, wrt: []int{0, 1},
			forward: func(in []*Node) []*Node { return []*Node{AddRows(in[0], in[1], in[2])} },
			back:    func(in, dy []*Node) []*Node { return []*Node{dy[0], TakeRows(dy[0], in[3])} },
			plain: func(in []operand) []operand {
				y := append([]float64{}, in[0].f...)
				for i, row := range imageRow {
					for k := range hidden {
						if row >= 0 {
							y[i*hidden+k] += in[1].f[int(row)*hidden+k]
						}
					}
				}
				return []operand{{f: y, dims: in[0].dims}}
			},
		},
	})
}

// plainAngles is the definition: frequency i turns with the position that its
// section names.
func plainAngles(c *Text, pos []int32) (cos, sin []float64) {
	half := c.Rotary / 2
	for p := 0; p < len(pos); p += 3 {
		for i := range half {
			row := 0
			switch {
			case c.Sections == nil:
			case c.Interleaved:
				if i%3 > 0 && i < 3*c.Sections[i%3] {
					row = i % 3
				}
			default:
				for row < 2 && i >= c.Sections[0]+row*c.Sections[1] {
					row++
				}
			}
			angle := float64(pos[p+row]) * math.Pow(c.Theta, -2*float64(i)/float64(c.Rotary))
			cos, sin = append(cos, math.Cos(angle)), append(sin, math.Sin(angle))
		}
	}
	return cos, sin
}

func TestAnglesFollowTheSections(t *testing.T) {
	pos := []int32{0, 0, 0, 3, 5, 9, 40, 41, 47}
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		for name, c := range map[string]*Text{
			"plain":       {Rotary: 16, Theta: 1e6},
			"runs":        {Rotary: 16, Theta: 1e4, Sections: []int{2, 3, 3}},
			"interleaved": {Rotary: 24, Theta: 1e4, Sections: []int{6, 3, 3}, Interleaved: true},
			"no heights":  {Rotary: 16, Theta: 1e4, Sections: []int{8, 0, 0}, Interleaved: true},
		} {
			cos, sin := plainAngles(c, pos)
			got := run(t, d, []operand{ints(pos, 3, 3)}, func(in []*Node) []*Node {
				cos, sin := c.Angles(in[0])
				return []*Node{cos, sin}
			})
			requireClose(t, name+" cos", got[0], cos, 1e-5, 0) // an angle of 47 in float32
			requireClose(t, name+" sin", got[1], sin, 1e-5, 0)
		}
	})
}

// The released Llama 3.1 numbers: long wavelengths are stretched by the factor,
// short ones stay, and those between are blended.
func TestLlama3FrequenciesAreStretched(t *testing.T) {
	c := &Text{Rotary: 128, Theta: 500000,
		Scaling: &RopeScaling{Factor: 8, LowFreq: 1, HighFreq: 4, OriginalContext: 8192}}
	plain := &Text{Rotary: 128, Theta: 500000}
	got, base := c.InvFreq(), plain.InvFreq()
	blended := 0
	for i, f := range base {
		wave := 2 * math.Pi / f
		switch {
		case wave < 8192./4:
			require.Equal(t, f, got[i])
		case wave > 8192:
			require.InDelta(t, f/8, got[i], f*1e-12)
		default:
			blended++
			require.Greater(t, got[i], f/8)
			require.Less(t, got[i], f)
		}
	}
	require.Positive(t, blended)
	for i := range got[1:] {
		require.Less(t, got[i+1], got[i], "frequencies must fall")
	}
}
