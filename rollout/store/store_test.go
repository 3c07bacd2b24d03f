package store

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/internal/imagefile"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/rollout"
)

// babbler writes random bytes, a token each, and reads images by their hash.
type babbler struct{}

func (babbler) Forget(...uint64) {}

func (babbler) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		c := &out[i]
		for _, m := range p.Messages {
			for _, b := range []byte(m.Text) {
				c.Context = append(c.Context, int32(b))
			}
			for k, im := range m.Images {
				c.Images = append(c.Images, policy.Image{Hash: [32]byte{byte(k), 1}, Image: im})
			}
		}
		r := rand.New(rand.NewPCG(p.Seed, 1))
		moves := []string{"Left", "Down", "Right", "Up"}
		c.Text = fmt.Sprintf("<think>é %d</think><answer>%s,%s</answer>", r.IntN(99), moves[r.IntN(4)], moves[r.IntN(4)])
		for _, b := range []byte(c.Text) {
			c.Tokens, c.LogProbs = append(c.Tokens, int32(b)), append(c.LogProbs, -r.Float32())
		}
		c.Stop, c.Forced = policy.StopEnd, []int{2, 3, 5}
	}
	return out, nil
}

// trajectories are episodes in pictures, some of them unusable, with conversations that
// were summarised.
func trajectories(t testing.TB) []*rollout.Trajectory {
	t.Helper()
	var envs env.Registry
	require.NoError(t, envs.Register("lake", frozenlake.FromConfig))
	p := rollout.Player{
		Policy: babbler{}, Envs: &envs, Sampling: policy.Sampling{MaxTokens: 50}, MaxTurns: 5,
		Harness: rollout.Compact{Total: 1100, Summary: 5},
	}
	var eps []rollout.Episode
	for i := range 6 {
		eps = append(eps, rollout.Episode{
			Env: "lake", Seed: int64(i) + 2, Group: i / 2, Index: i % 2,
			Config: map[string]any{"size": uint64(4 + i%2), "is_slippery": false, "p": 1.0, "render_mode": "vision"},
		})
	}
	eps[5].Env = "sea"
	ts, _, err := p.Play(t.Context(), eps, 3)
	require.NoError(t, err)
	require.NoError(t, ts[0].Err)
	require.NoError(t, ts[0].Rows[0].AddSpan("answer", spanStart(ts[0]), spanStart(ts[0])+3))
	ts[1].Attempt, ts[1].Turns[0].Cut = 2, true
	return ts
}

func spanStart(t *rollout.Trajectory) int {
	start, _, _ := t.Rows[0].TurnAt(0)
	return start
}

// same compares trajectories, with images by their pixels and errors by their texts.
func same(t testing.TB, want, got *rollout.Trajectory) {
	t.Helper()
	flat := func(in *rollout.Trajectory) *rollout.Trajectory {
		out := *in
		if in.Err != nil {
			out.Err = errors.New(in.Err.Error())
		}
		out.Turns, out.Rows = nil, nil
		for _, turn := range in.Turns {
			var images []image.Image
			for _, im := range turn.Observation.Images {
				images = append(images, imagefile.NRGBA(im))
			}
			turn.Observation.Images = images
			if len(turn.Parsed.Actions) == 0 {
				turn.Parsed.Actions = nil
			}
			if len(turn.Parsed.Sections) == 0 {
				turn.Parsed.Sections = nil
			}
			out.Turns = append(out.Turns, turn)
		}
		for i := range in.Rows {
			row := in.Rows[i]
			row.Sequence = *row.Clone()
			var images []policy.Image
			for _, im := range row.Images {
				if im.Image != nil {
					im.Image = imagefile.NRGBA(im.Image)
				}
				images = append(images, im)
			}
			row.Images = images
			out.Rows = append(out.Rows, row)
		}
		return &out
	}
	a, b := flat(want), flat(got)
	for i := range a.Rows {
		require.True(t, a.Rows[i].Equal(&b.Rows[i].Sequence), "row %d", i)
	}
	require.Equal(t, a, b)
}

func TestTrajectoriesSurviveARoundTrip(t *testing.T) {
	ts := trajectories(t)
	path := filepath.Join(t.TempDir(), "episodes.parquet")
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Write(7, ts[:2]...))
	require.NoError(t, w.Write(8, ts[2:]...))
	require.NoFileExists(t, path, "it does not exist before it is complete")
	require.NoError(t, w.Close())
	require.NoError(t, w.Close(), "a second Close has no effect")
	got, err := Load(path)
	require.NoError(t, err)
	require.Len(t, got, len(ts))
	summaries, rows, failed := 0, 0, 0
	for i, s := range got {
		require.Equal(t, 7+min(i/2, 1), s.Step)
		same(t, ts[i], s.Trajectory)
		for k := range s.Rows {
			rows++
			if s.Rows[k].EndsWithSummary() {
				summaries++
			}
		}
		if s.Err != nil {
			failed++
		}
	}
	require.Greater(t, rows, len(ts), "some episodes have several rows")
	require.Positive(t, summaries)
	require.Positive(t, failed)
	count := rollout.Count(plainTrajectories(got))
	require.Equal(t, rollout.Count(ts), count)
	require.Positive(t, count.Forced)
}

func plainTrajectories(in []Stored) (out []*rollout.Trajectory) {
	for _, s := range in {
		out = append(out, s.Trajectory)
	}
	return out
}

// TestEqualTrajectoriesMakeEqualFiles: a file does not depend on the time, its folder or
// the order of maps.
func TestEqualTrajectoriesMakeEqualFiles(t *testing.T) {
	var want []byte
	for range 5 {
		path := filepath.Join(t.TempDir(), "a.parquet")
		require.NoError(t, Save(path, 1, trajectories(t)))
		raw := testkit.Read(t, path)
		if want == nil {
			want = raw
		}
		require.Equal(t, want, raw)
	}
}

// TestImagesAreStoredOnce counts files: pictures that several turns, rows or files
// show are one.
func TestImagesAreStoredOnce(t *testing.T) {
	dir := t.TempDir()
	ts := trajectories(t)
	shown := map[string]bool{}
	for _, tr := range ts {
		for _, turn := range tr.Turns {
			for _, im := range turn.Observation.Images {
				shown[nameOf(imagefile.NRGBA(im))] = true
			}
		}
		for i := range tr.Rows {
			for _, im := range tr.Rows[i].Images {
				shown[nameOf(imagefile.NRGBA(im.Image))] = true
			}
		}
	}
	for _, name := range []string{"a.parquet", "b.parquet"} {
		require.NoError(t, Save(filepath.Join(dir, name), 1, ts))
		files, err := os.ReadDir(filepath.Join(dir, imageFolder))
		require.NoError(t, err)
		require.Len(t, files, len(shown))
	}
	got, err := Load(filepath.Join(dir, "a.parquet"))
	require.NoError(t, err)
	require.Same(t, got[0].Turns[0].Observation.Images[0], got[0].Rows[0].Images[0].Image, "and are one in memory")
}

// TestColoursSurviveARoundTrip stores pictures of several kinds and places.
func TestColoursSurviveARoundTrip(t *testing.T) {
	gray := image.NewGray16(image.Rect(3, 4, 9, 6))
	gray.SetGray16(5, 5, color.Gray16{0x1234})
	clear := image.NewNRGBA(image.Rect(0, 0, 5, 3))
	for i := range clear.Pix {
		clear.Pix[i] = byte(37 * i)
	}
	part := clear.SubImage(image.Rect(1, 1, 4, 3))
	tr := &rollout.Trajectory{Turns: []rollout.Turn{{Observation: env.Observation{Images: []image.Image{gray, clear,
		part}}}}}
	path := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, Save(path, 0, []*rollout.Trajectory{tr}))
	got, err := Load(path)
	require.NoError(t, err)
	same(t, tr, got[0].Trajectory)
	require.Equal(t, image.Rect(0, 0, 6, 2), got[0].Turns[0].Observation.Images[0].Bounds())
	require.Equal(t, clear.NRGBAAt(2, 2), got[0].Turns[0].Observation.Images[2].At(1, 1), "translucent pixels are exact")
}

// TestOptionsKeepTheirTypes as far as YAML distinguishes types.
func TestOptionsKeepTheirTypes(t *testing.T) {
	config := map[string]any{
		"whole": uint64(math.MaxUint64), "negative": int64(-3), "float": 2.0, "small": 1e-30, "text": "a", "flag": true,
		"none": nil,
		"list": []any{uint64(1), 0.5, []any{}}, "inner": map[string]any{"x": math.Copysign(0, -1)},
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, Save(path, 0, []*rollout.Trajectory{{Episode: rollout.Episode{Config: config}}}))
	got, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, config, got[0].Config)
	err = Save(path, 0, []*rollout.Trajectory{{},
		{Episode: rollout.Episode{Group: 4, Config: map[string]any{"x": math.NaN()}}}})
	require.ErrorContains(t, err, "trajectory 1 of step 0 (group 4, index 0): config")
	again, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, got, again, "the existing file is unchanged")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file remains")
}

func TestInvalidTrajectoriesAreRefused(t *testing.T) {
	short := rollout.Row{}
	require.NoError(t, short.AppendResponse(1, 2))
	for says, tr := range map[string]*rollout.Trajectory{
		"row 0: 0 log-probs for 2 tokens": {Rows: []rollout.Row{short}},
		"turn 0: image 0: the image is nil": {Turns: []rollout.Turn{{Observation: env.Observation{Images: []image.Image{
			nil}}}}},
	} {
		w, err := Create(filepath.Join(t.TempDir(), "a.parquet"))
		require.NoError(t, err)
		require.ErrorContains(t, w.Write(3, tr), says)
		require.ErrorContains(t, w.Write(3, &rollout.Trajectory{}), says, "the file cannot be completed after an error")
		require.ErrorContains(t, w.Close(), says)
		require.NoFileExists(t, w.path)
	}
	_, err := Create(filepath.Join(t.TempDir(), "no", "a.parquet"))
	require.ErrorIs(t, err, os.ErrNotExist)

	path := filepath.Join(t.TempDir(), "a.parquet")
	require.ErrorContains(t, Save(path, 3, []*rollout.Trajectory{nil}), "trajectory 0 of step 3 is nil")
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorContains(t, w.Write(3, &rollout.Trajectory{}), "store: Writer: file already closed", "it would be lost")
	stored, err := Load(path)
	require.NoError(t, err)
	require.Empty(t, stored)
}

func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(filepath.Join(dir, "absent.parquet"))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(dir, "x.parquet")
	testkit.Write(t, path, "no table")
	_, err = Load(path)
	require.ErrorIs(t, err, ErrFormat)
	require.NoError(t, parquet.WriteFile(path, []value{{"a", 1}}))
	_, err = Load(path)
	testkit.Error(t, err, ErrFormat, `metadata key vagen.trajectories is ""`)
	require.NoError(t, parquet.WriteFile(path, []record{{}}, parquet.KeyValueMetadata(versionKey, "2")))
	_, err = Load(path)
	require.ErrorContains(t, err, `"2", must be "1"`)
}

// TestDamagedImagesAreErrors: missing, truncated, and another image under the name.
func TestDamagedImagesAreErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.parquet")
	require.NoError(t, Save(path, 1, trajectories(t)))
	files, err := filepath.Glob(filepath.Join(dir, imageFolder, "*.png"))
	require.NoError(t, err)
	require.Greater(t, len(files), 1)
	all := func(data []byte) {
		for _, file := range files {
			if data == nil {
				require.NoError(t, os.Remove(file))
			} else {
				testkit.Write(t, file, data)
			}
		}
	}
	raw := testkit.Read(t, files[0])
	all(raw)
	_, err = Load(path)
	testkit.Error(t, err, ErrFormat, "the hash of its pixels is")
	all(raw[:len(raw)/2])
	_, err = Load(path)
	require.ErrorIs(t, err, ErrFormat)
	all(nil)
	_, err = Load(path)
	testkit.Error(t, err, os.ErrNotExist, "trajectory 0: row 0: image 0: ")
}

// TestInvalidRecordsAreErrors makes one value of a record invalid at a time.
func TestInvalidRecordsAreErrors(t *testing.T) {
	good := func() row {
		return row{Tokens: []int32{1, 2, 3}, LogProbs: make([]float32, 3), Pieces: []piece{{"prompt", 1}, {"response", 2}},
			Spans: []span{{"a", 1, 2}}, Images: []picture{{Hash: strings.Repeat("ab", 32)}}}
	}
	none := func(string) (image.Image, error) { return nil, errors.New("no images here") }
	_, err := decode(&record{Rows: []row{good()}}, none)
	require.NoError(t, err)
	for says, spoil := range map[string]func(*record){
		"row 0: not a file of trajectories: 2 log-probs": func(r *record) {
			r.Rows[0].LogProbs = r.Rows[0].LogProbs[1:]
		},
		"piece 1 has 3 tokens, must be in [1, 2]": func(r *record) { r.Rows[0].Pieces[1].Length = 3 },
		"piece 0 has -1 tokens":                   func(r *record) { r.Rows[0].Pieces[0].Length = -1 },
		"the pieces have 1 tokens in total": func(r *record) {
			r.Rows[0].Pieces = r.Rows[0].Pieces[:1]
		},
		`the kind "answer" is not one of`: func(r *record) { r.Rows[0].Pieces[0].Kind = "answer" },
		"piece 1: mask: context: prompt after 1 turns": func(r *record) {
			r.Rows[0].Pieces = []piece{{"response", 1}, {"prompt", 2}}
		},
		"piece 1: mask: response: the conversation was closed": func(r *record) {
			r.Rows[0].Pieces = []piece{{"summary", 1}, {"response", 2}}
		},
		"span 0: mask: span": func(r *record) { r.Rows[0].Spans[0].Start = 0 },
		"span 0 starts at 1 with 4611686018427387904 tokens":      func(r *record) { r.Rows[0].Spans[0].Length = 1 << 62 },
		"image 0: not a file of trajectories: the hash":           func(r *record) { r.Rows[0].Images[0].Hash = "abc" },
		"image 0: no images here":                                 func(r *record) { r.Rows[0].Images[0].Name = "x" },
		"turn 0: not a file of trajectories: its row index is 1":  func(r *record) { r.Turns = []turn{{Row: 1}} },
		"turn 0: not a file of trajectories: its row index is -1": func(r *record) { r.Turns = []turn{{Row: -1}} },
		"config: not a file of trajectories: there is text after": func(r *record) { r.Config = "{} {}" },
		"config: not a file of trajectories: json: cannot":        func(r *record) { r.Config = "3" },
		"config: not a file of trajectories: strconv": func(r *record) {
			r.Config = `{"x":99999999999999999999}`
		},
	} {
		r := record{Rows: []row{good()}}
		spoil(&r)
		_, err := decode(&r, none)
		require.ErrorContains(t, err, says)
	}
	f := newFolder(filepath.Join(t.TempDir(), "a.parquet"))
	for _, name := range []string{"", "../x", strings.Repeat("AB", 32), strings.Repeat("ab", 31)} {
		_, err := f.fetch(name)
		require.ErrorIs(t, err, ErrFormat, "%q", name)
	}
}

// TestIterationCanStopEarly: a second iteration starts from the first trajectory.
func TestIterationCanStopEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	ts := trajectories(t)
	require.NoError(t, Save(path, 1, ts))
	r, err := Open(path)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, len(ts), r.Len())
	for range 2 {
		n := 0
		for s, err := range r.All() {
			require.NoError(t, err)
			same(t, ts[n], s.Trajectory)
			if n++; n == 2 {
				break
			}
		}
		require.Equal(t, 2, n)
	}
	require.NoError(t, Save(path, 1, nil))
	got, err := Load(path)
	require.NoError(t, err)
	require.Empty(t, got)
}
