package svg

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/words"
	"vagen/internal/golden"
)

// recording is the file of recorded pictures, scores and turns
// (testdata/envs/svg.json).
type recording struct {
	Cases []struct {
		ID    string `json:"id"`
		SVG   string `json:"svg"`
		Valid bool   `json:"is_valid"`
		PNG   string `json:"png"`
	} `json:"cases"`
	Pairs []struct {
		Truth      string  `json:"gt"`
		Made       string  `json:"gen"`
		Structural float64 `json:"structural"`
		EdgePixels [2]int  `json:"edge_pixels"`
	} `json:"pairs"`
	Extract []struct {
		Text     string `json:"text"`
		Expected string `json:"expected"`
	} `json:"extract"`
	Stub struct {
		DINO     float64 `json:"dino"`
		DreamSim float64 `json:"dreamsim"`
	} `json:"stub_scores"`
	Dataset []string   `json:"dataset"`
	Env     []recorded `json:"env"`
}

// recorded is an episode of the original, with constants instead of the models' scores.
type recorded struct {
	Config map[string]any `json:"config"`
	Seed   int64          `json:"seed"`
	Picked string         `json:"picked"`
	Turns  []struct {
		Response string  `json:"response"`
		Reward   float64 `json:"reward"`
		Done     bool    `json:"done"`
		Metrics  struct {
			Turn map[string]bool `json:"turn_metrics"`
			Traj map[string]bool `json:"traj_metrics"`
		} `json:"metrics"`
		Actions       []string `json:"actions"`
		FormatCorrect bool     `json:"format_correct"`
		Scores        *struct {
			DINO       float64 `json:"dino_score"`
			Structural float64 `json:"structural_score"`
			DreamSim   float64 `json:"dreamsim_score"`
			Total      float64 `json:"total_score"`
		} `json:"scores"`
		Size [2]int `json:"obs_image_size"`
	} `json:"turns"`
}

const file = "envs/svg.json"

func readRecording(t *testing.T) recording {
	t.Helper()
	var r recording
	golden.Read(t, file, &r)
	return r
}

// picture reads the original renderer's picture of a case.
func picture(t *testing.T, name string) image.Image {
	t.Helper()
	f, err := os.Open(golden.Path(t, "envs", name))
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err, name)
	return img
}

func TestStructuralScoresEqualTheOriginals(t *testing.T) {
	rec := readRecording(t)
	pictures := make(map[string]image.Image)
	for _, c := range rec.Cases {
		pictures[c.ID] = picture(t, c.PNG)
	}
	all := golden.Of(t, file+" (pairs)")
	for _, p := range rec.Pairs {
		r := all.Next("%s and %s", p.Truth, p.Made)
		a, b := pictures[p.Truth], pictures[p.Made]
		require.NotNil(t, a, p.Truth)
		require.NotNil(t, b, p.Made)
		r.Equal("edge pixels", [2]int{count(edgesIn(a)), count(edgesIn(b))}, p.EdgePixels)
		r.Within("structural", structural(a, b), p.Structural, golden.Tolerance{Abs: 1e-12})
	}
}

func count(edges []bool) int {
	n := 0
	for _, e := range edges {
		if e {
			n++
		}
	}
	return n
}

func TestExtractEqualsTheOriginal(t *testing.T) {
	r := golden.Of(t, file+" (extract)")
	for _, c := range readRecording(t).Extract {
		r.Next("%q", c.Text).Equal("extracted", extract(c.Text), c.Expected)
	}
}

func TestCheckAcceptsWhatTheOriginalDoes(t *testing.T) {
	r := golden.Of(t, file+" (valid)")
	for _, c := range readRecording(t).Cases {
		err := checkCode(c.SVG)
		r.Next("%s (%v)", c.ID, err).Equal("valid", err == nil, c.Valid)
	}
}

// TestPicturesAreLikeTheOriginals: renderers differ in the shades of pixels along edges. The
// mean difference over a picture is well below half a level of 255, and few pixels differ by
// more than 48. The original draws text in the machine's fonts and this package in its own,
// so for text only the share of ink is compared.
func TestPicturesAreLikeTheOriginals(t *testing.T) { comparePictures(t, file) }

// TestStrokesAreLikeTheOriginals: strokes with every join and cap, inherited ones, tight
// bends, dashes and dots. The file describes how the pictures were made.
func TestStrokesAreLikeTheOriginals(t *testing.T) {
	t.Setenv("VAGEN_GOLDEN", "") // these pictures are only in testdata
	comparePictures(t, "envs/svg_strokes.json")
}

func comparePictures(t *testing.T, file string) {
	t.Helper()
	var rec recording
	golden.Read(t, file, &rec)
	all := golden.Of(t, file+" (pictures)")
	for _, c := range rec.Cases {
		r := all.Next("%s", c.ID)
		want := picture(t, c.PNG)
		got, err := render(t.Context(), c.SVG)
		if err != nil {
			// The original gives a white picture.
			got = blank().(*image.RGBA)
		}
		mean, far := differ(got, want)
		if strings.Contains(c.SVG, "<text") {
			r.Within("ink", darkness(got), darkness(want), golden.Tolerance{Rel: 0.5})
			continue
		}
		r.Within("mean difference in levels", mean, 0, golden.Tolerance{Abs: 0.5})
		r.Within("share of pixels far off", far, 0, golden.Tolerance{Abs: 0.002})
	}
}

// differ returns the mean over pixels of the largest difference of a colour, in
// levels of 255, and the share of pixels where it is above 48.
func differ(a, b image.Image) (mean, far float64) {
	n := 0.0
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r, g, bl, _ := a.At(x, y).RGBA()
			r2, g2, bl2, _ := b.At(x, y).RGBA()
			d := 0.0
			for _, p := range [][2]uint32{{r, r2}, {g, g2}, {bl, bl2}} {
				d = max(d, math.Abs(float64(p[0]>>8)-float64(p[1]>>8)))
			}
			mean += d
			n++
			if d > 48 {
				far++
			}
		}
	}
	return mean / n, far / n
}

func darkness(img image.Image) float64 {
	gray, _, _ := luma(img)
	sum := 0.0
	for _, v := range gray {
		sum += 255 - float64(v)
	}
	return sum / float64(len(gray))
}

// constant is a scorer that returns a constant.
type constant float64

func (c constant) Score(context.Context, image.Image, image.Image) (float64, error) {
	return float64(c), nil
}

func TestTurnsEqualTheOriginals(t *testing.T) {
	rec := readRecording(t)
	drawn := make(map[string]image.Image)
	samples := make(map[string]Sample)
	for _, c := range rec.Cases {
		drawn[c.SVG] = picture(t, c.PNG)
		samples[c.ID+".svg"] = Sample{Name: c.ID + ".svg", Code: c.SVG}
	}
	var list []Sample
	for _, name := range rec.Dataset {
		list = append(list, samples[name])
	}
	data, err := NewDataset(list)
	require.NoError(t, err)
	all := golden.Of(t, file+" (env)")
	for _, ep := range rec.Env {
		o := DefaultOptions()
		require.NoError(t, env.Decode(ep.Config, &o))
		o.DINO, o.DreamSim = constant(rec.Stub.DINO), constant(rec.Stub.DreamSim)
		if o.DINOWeight == nil && o.DreamSimWeight == nil && o.StructuralWeight == nil {
			o.PerceptualWeight = new(float64) // the original has no such score
		}
		e, err := NewFrom(o, data)
		require.NoError(t, err)
		// The scores are those of the original renderer's pictures.
		e.render = func(_ context.Context, code string) (image.Image, error) {
			if drawn[code] == nil {
				return nil, fmt.Errorf("no recorded picture of %q", code)
			}
			return drawn[code], nil
		}
		playRecorded(all.Next("seed %d", ep.Seed), e, ep)
	}
}

func playRecorded(r *golden.Run, e *Env, ep recorded) {
	envtest.Reset(r, e, ep.Seed)
	r.Equal("sample", e.Sample().Name, ep.Picked)
	for i, turn := range ep.Turns {
		r := r.In("turn %d %q", i, turn.Response)
		out := envtest.Play(r, e, turn.Response)
		r.Within("reward", out.Reward.Sum(), turn.Reward, golden.Tolerance{Abs: 1e-9})
		r.Equal("done", out.Done, turn.Done)
		r.Equal("format", out.Response.FormatCorrect, turn.FormatCorrect)
		r.Equal("actions", strings.Join(out.Response.Actions, "\x00"), strings.Join(turn.Actions, "\x00"))
		for name, want := range turn.Metrics.Turn {
			r.Equal(name, out.Turn[name], words.Number(want))
		}
		for name, want := range turn.Metrics.Traj {
			r.Equal(name, out.Trajectory[name], words.Number(want))
		}
		if s := turn.Scores; s != nil {
			r.Within("total", out.Turn["total_score"], s.Total, golden.Tolerance{Abs: 1e-9})
			r.Within("structural", out.Turn["structural_score"], s.Structural, golden.Tolerance{Abs: 1e-9})
			r.Within("dino", out.Turn["dino_score"], s.DINO, golden.Tolerance{})
			r.Within("dreamsim", out.Turn["dreamsim_score"], s.DreamSim, golden.Tolerance{})
		}
		require.Len(r, out.Observation.Images, 1)
		size := out.Observation.Images[0].Bounds()
		r.Equal("picture", [2]int{size.Dx(), size.Dy()}, turn.Size)
	}
}
