package vlmtest

import (
	"image"
	"image/color"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
)

// Drift bounds how much other rows of a batch may change a log-prob: they change the
// order in which products are summed, and a log-prob of the tiny models is a sum of some
// hundred float32 numbers of size 1 to 10.
const Drift = 3e-5

// Drawing is a picture of random blots; equal seeds give equal pictures.
func Drawing(seed uint64, w, h int) image.Image {
	r := rand.New(rand.NewPCG(seed, 77))
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, color.RGBA{uint8(r.IntN(256)), uint8(r.IntN(256)), uint8(r.IntN(256)), 255})
		}
	}
	return img
}

// Say is a message of the user with its images.
func Say(text string, images ...image.Image) []policy.Message {
	return []policy.Message{{Role: policy.User, Text: text, Images: images}}
}

// Story is a recorded conversation: the row that training gets.
type Story struct {
	Tokens   []int32
	Written  []bool // response tokens
	LogProbs []float32
	Images   []policy.Image
	Last     policy.Completion
}

// Add records a turn.
func (s *Story) Add(c policy.Completion) {
	s.Tokens = append(append(s.Tokens, c.Context...), c.Tokens...)
	s.Written = append(append(s.Written, make([]bool, len(c.Context))...), Trues(len(c.Tokens))...)
	s.LogProbs = append(append(s.LogProbs, make([]float32, len(c.Context))...), c.LogProbs...)
	s.Images = append(s.Images, c.Images...)
	s.Last = c
}

// RequireLike compares with the same conversation beside other rows, or alone.
func (s *Story) RequireLike(t testing.TB, want *Story, what ...any) {
	t.Helper()
	require.Equal(t, want.Tokens, s.Tokens, what...)
	RequireNear(t, want.LogProbs, s.LogProbs, Drift, "log-probs")
}

// NotFinite are the numbers that are none, by their text.
var NotFinite = map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1)),
	"-Inf": float32(math.Inf(-1))}

// Trues are n times true.
func Trues(n int) []bool { return slices.Repeat([]bool{true}, n) }

// Stories are the conversations of a model by their keys.
type Stories map[uint64]*Story

// Play generates and records. Completions with an error are not recorded.
func (s Stories) Play(t testing.TB, m policy.Policy, prompts []policy.Prompt, o policy.Sampling) []policy.Completion {
	t.Helper()
	out, err := m.Generate(t.Context(), prompts, o)
	require.NoError(t, err)
	require.Len(t, out, len(prompts))
	for i, c := range out {
		if c.Err != nil {
			continue
		}
		key := prompts[i].Conversation
		if s[key] == nil {
			s[key] = &Story{}
		}
		s[key].Add(c)
	}
	return out
}

// Keys are the keys in order.
func (s Stories) Keys() []uint64 { return slices.Sorted(maps.Keys(s)) }

// Rows concatenates the conversations in the order of keys.
func (s Stories) Rows(keys []uint64) (rows policy.Rows, written []bool, logProbs []float32) {
	rows.Offsets = []int{0}
	for _, key := range keys {
		x := s[key]
		rows.Tokens, written, logProbs = append(rows.Tokens, x.Tokens...), append(written, x.Written...),
			append(logProbs, x.LogProbs...)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		rows.Images = append(rows.Images, x.Images)
	}
	return rows, written, logProbs
}

// FourRows are rows of different lengths in random tokens, three of them with
// images of different sizes; every token after the first counts.
func (p *Model) FourRows(t testing.TB) (policy.Rows, []bool) {
	t.Helper()
	x := p.Text
	r := rand.New(rand.NewPCG(5, 5))
	rows := policy.Rows{Offsets: []int{0}}
	for i, n := range []int{9, 3, 21, 14} {
		var images []policy.Image
		if x.Cfg.Vision != nil {
			for k := range []int{1, 0, 2, 1}[i] {
				img := Drawing(uint64(10*i+k), 8*(2+i%2), 8*(1+k+i/2))
				images = append(images, policy.Image{Hash: policy.HashImage(img), Image: img})
			}
		}
		for k := range n {
			rows.Tokens = append(rows.Tokens, int32(r.IntN(256)))
			if k%4 == 2 && k/4 < len(images) {
				pic, err := x.Picture(images[k/4])
				require.NoError(t, err)
				for range pic.Grid.Tokens(x.Cfg.Vision.Merge) {
					rows.Tokens = append(rows.Tokens, x.Cfg.ImageToken)
				}
			}
		}
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		rows.Images = append(rows.Images, images)
	}
	want := Trues(len(rows.Tokens))
	for _, first := range rows.Offsets[:rows.Len()] {
		want[first] = false
	}
	return rows, want
}

// Evenly gives each of the marked tokens the same weight; they sum to 1.
func Evenly(want []bool) []float32 {
	n := 0
	for _, w := range want {
		if w {
			n++
		}
	}
	out := make([]float32, len(want))
	for i, w := range want {
		if w {
			out[i] = 1 / float32(n)
		}
	}
	return out
}

// RequireNear compares numbers that may differ by rounding in float32.
func RequireNear(t testing.TB, want, got []float32, limit float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		require.InDelta(t, want[i], got[i], limit, "%s at %d", what, i)
	}
}

// Read copies tensors off the device.
func Read(t testing.TB, x *weights.Tensors) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	require.NoError(t, x.Each(nil, func(part model.Stored, values []float32) error {
		out[part.Name] = slices.Clone(values)
		return nil
	}))
	return out
}
