package engine

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/golden"
	"vagen/policy"
)

// checkpoint is a small folder with tokenizer, chat template and image processor.
func checkpoint(t testing.TB) *Codec {
	t.Helper()
	c, err := LoadCodec(filepath.Join(golden.Root(t), "vlm/qwen2_5_vl-tied/checkpoint"), nil)
	require.NoError(t, err)
	return c
}

// fake is a model whose responses depend on everything that a request has: the weights, the
// tokens and the seed.
type fake struct {
	codec *Codec
	wrong bool // another tokenizer
}

func (f *fake) Expand(tokens []int32, images []image.Image) ([]int32, [][2]int, error) {
	var counts []int
	for _, im := range images {
		b := im.Bounds()
		g, err := f.codec.proc.Grid(b.Dx(), b.Dy())
		if err != nil {
			return nil, nil, err
		}
		counts = append(counts, f.codec.proc.Tokens(g))
	}
	var places [][2]int
	at := 0
	for _, id := range tokens {
		if id == f.codec.image && len(places) < len(counts) {
			places = append(places, [2]int{at, counts[len(places)]})
			at += counts[len(places)-1] - 1
		}
		at++
	}
	out, err := f.codec.text.Tok.ExpandImages(nil, tokens, counts)
	return out, places, err
}

func (f *fake) Load(path string) error {
	if strings.Contains(path, "missing") {
		return fmt.Errorf("no folder %s", path)
	}
	return nil
}

// plain are ids of words, which no stop token is.
const plain = 200

// Generate writes plain tokens and, unless the limit is reached before, the end of the turn.
func (f *fake) Generate(j enginestub.Job) (tokens []int32, logProbs []float32, err error) {
	h := uint64(j.Seed)
	for _, c := range j.Weights + "|" + j.Adapter {
		h = h*31 + uint64(c)
	}
	for _, id := range j.Tokens {
		h = h*1099511628211 ^ uint64(id)
	}
	const n = 6
	for i := range n {
		h = h*6364136223846793005 + 1442695040888963407
		tokens = append(tokens, int32(h>>33)%plain)
		if i == n-1 {
			_, end := f.codec.text.Chat.EndOfTurn()
			tokens[i] = end
		}
		logProbs = append(logProbs, -float32(h>>40)/(1<<24)*8)
		if len(tokens) == j.Max {
			break
		}
	}
	return tokens, logProbs, nil
}

func (f *fake) Tokenize(text string) []int32 {
	if f.wrong {
		text = strings.ToUpper(text)
	}
	ids, _, _ := f.codec.text.Prompt(nil, []policy.Message{{Role: policy.User, Text: text}}, nil)
	return ids
}

func (f *fake) Decode(tokens []int32) string {
	if f.wrong {
		return "something else"
	}
	return f.codec.text.Tok.Decode(tokens, false)
}

// testOptions are options with short delays.
func testOptions(kind Kind, addresses ...string) Options {
	o := DefaultOptions()
	o.Kind, o.Addresses = kind, addresses
	o.ProbeMin, o.ProbeMax, o.Outage = time.Millisecond, 10*time.Millisecond, 20*time.Second
	o.Startup = 0
	return o
}

// stubs starts servers.
func stubs(t testing.TB, kind Kind, n int) (*Codec, []*enginestub.Stub, []string) {
	t.Helper()
	c := checkpoint(t)
	var all []*enginestub.Stub
	var addresses []string
	for i := range n {
		s := &enginestub.Stub{Model: &fake{codec: c}, SGLang: kind == SGLang, Name: "policy", Vocab: c.text.Vocab, Length: 4096,
			Seed: uint64(i)}
		h := httptest.NewServer(s)
		t.Cleanup(h.Close)
		all, addresses = append(all, s), append(addresses, h.URL)
	}
	return c, all, addresses
}

// opened is a fleet of stubs.
func opened(t testing.TB, kind Kind, n int, change func(*Options)) (*Fleet, []*enginestub.Stub) {
	t.Helper()
	c, all, addresses := stubs(t, kind, n)
	o := testOptions(kind, addresses...)
	if change != nil {
		change(&o)
	}
	f, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, all
}

// drawn is an image of a size and shade.
func drawn(width, height int, shade uint8) image.Image {
	im := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			im.SetRGBA(x, y, color.RGBA{uint8(x * 255 / width), uint8(y * 255 / height), shade, 255})
		}
	}
	return im
}

func opening(key uint64, text string, images ...image.Image) policy.Prompt {
	return policy.Prompt{Conversation: key, Seed: key*7919 + 3, Messages: []policy.Message{
		{Role: policy.System, Text: "You are an agent."}, {Role: policy.User, Text: strings.Repeat("<image>", len(images)) +
			text, Images: images},
	}}
}

func following(key uint64, text string, images ...image.Image) policy.Prompt {
	p := opening(key, text, images...)
	p.Messages, p.Seed = p.Messages[1:], p.Seed+1
	return p
}

func ask(t testing.TB, p *Policy, prompts ...policy.Prompt) []policy.Completion {
	t.Helper()
	out, err := p.Generate(context.Background(), prompts, policy.Sampling{Temperature: 1, MaxTokens: 16})
	require.NoError(t, err)
	return out
}

var kinds = []Kind{VLLM, SGLang}

// repeat returns n prompts that open conversations.
func repeat(n int) (out []policy.Prompt) {
	for i := range n {
		out = append(out, opening(uint64(i+1), fmt.Sprintf("Go left or right? %d", i)))
	}
	return out
}

func (d doubled) Expand(tokens []int32, images []image.Image) ([]int32, [][2]int, error) {
	out, places, err := d.fake.Expand(tokens, images)
	if len(places) == 0 {
		return out, places, err
	}
	at := places[0][0]
	places[0][1]++
	return slices.Insert(out, at, d.codec.image), places, err
}

func contextAfter(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
