package svg

import (
	"context"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/options"
	"vagen/internal/numpyrand"
	"vagen/internal/testkit"
	"vagen/reward"
)

func start(t *testing.T, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions()
	o.PromptFormat = "free_think"
	change(&o)
	return envtest.Started(t, New, o, 0)
}

var play = envtest.Play

func answer(code string) string { return "<think>so</think><answer>" + code + "</answer>" }

const square = `<svg viewBox="0 0 64 64"><rect x="16" y="16" width="32" height="32" fill="#c33"/></svg>`

func TestTheTargetItselfGetsTheMaximumReward(t *testing.T) {
	e := start(t, func(*Options) {})
	out := play(t, e, answer(e.Sample().Code))
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.5}, {Name: partScore, Value: defaultPerceptual}}, out.Reward)
	require.False(t, out.Done)
	require.False(t, out.Success, "drawing never ends in success")
	require.Equal(t, env.Metrics{"action_is_valid": 1, "action_is_effective": 1, "total_score": defaultPerceptual,
		"perceptual_score": 1}, out.Turn)
	require.Equal(t, e.Target(), out.Observation.Images[0])
	require.Equal(t, e.Attempt(), out.Observation.Images[0])
	require.Contains(t, out.Observation.Text, e.Sample().Code)
	require.Contains(t, out.Observation.Text, "5.5000")
	less := play(t, e, answer(square))
	require.Less(t, less.Reward.Sum(), out.Reward.Sum())
	require.Greater(t, less.Reward.Sum(), 0.5)
}

func TestATurnWithoutCodeEndsTheEpisodeExceptUnderServiceRules(t *testing.T) {
	for _, response := range []string{"", "no", answer("no"), answer(`<svg><rect width="50%"/></svg>`),
		answer("<svg><g></svg>"), "<svg>"} {
		e := start(t, func(o *Options) { o.FormatPenalty = -0.25 })
		out := play(t, e, response)
		require.True(t, out.Done, response)
		require.Equal(t, reward.Parts{{Name: partInvalid, Value: -0.25}}, out.Reward, response)
		require.Equal(t, env.Metrics{"action_is_valid": 0, "action_is_effective": 0, "total_score": 0, "perceptual_score": 0},
			out.Turn, response)
		require.Empty(t, out.Response.Actions, response)
		require.Nil(t, e.Attempt(), response)
		require.Equal(t, blank(), out.Observation.Images[0], response)
		out = play(t, start(t, func(o *Options) { o.Rules, o.FormatPenalty = Service, -0.25 }), response)
		require.False(t, out.Done, response)
		require.Equal(t, -0.25, out.Reward.Sum(), response)
		require.Zero(t, out.Turn["svg_is_valid"], response)
	}
}

func TestCodeIsFoundWithoutTags(t *testing.T) {
	e := start(t, func(*Options) {})
	out := play(t, e, "here: "+square+" done")
	require.Equal(t, []string{square}, out.Response.Actions)
	require.Zero(t, out.Reward.Of(partFormat))
	require.Positive(t, out.Reward.Of(partScore))
	out = play(t, e, answer("first "+square+"~~<svg></svg>"))
	require.Equal(t, []string{square}, out.Response.Actions)
}

func TestServiceRulesRewardTheFormatOfValidCodeAndCompareTurns(t *testing.T) {
	e := start(t, func(o *Options) { o.Rules = Service })
	effective := func(response string) float64 { return play(t, e, response).Turn["action_is_effective"] }
	out := play(t, e, square)
	require.Equal(t, 0.5, out.Reward.Of(partFormat), "for any text around the code")
	require.Equal(t, 1.0, out.Turn["svg_is_valid"])
	for _, name := range []string{"dino_score", "dreamsim_score", "structural_score"} {
		require.Contains(t, out.Turn, name)
	}
	require.Zero(t, effective(square), "not better than before")
	require.Equal(t, 1.0, effective(e.Sample().Code))
	require.Zero(t, effective(square))
	require.Zero(t, effective("no"))
	require.Equal(t, 1.0, effective(square), "better than nothing")
	envtest.Reset(t, e, 1)
	require.Equal(t, 1.0, effective(square), "the first turn of an episode")
}

func TestWeightsSelectTheComputedScores(t *testing.T) {
	w := func(v float64) *float64 { return &v }
	e := start(t, func(o *Options) { o.StructuralWeight, o.DreamSimWeight, o.DreamSim = w(2), w(0.5), constant(0.5) })
	out := play(t, e, answer(e.Sample().Code))
	require.InDelta(t, 0.5+2*1+0.5*0.5, out.Reward.Sum(), 1e-12)
	require.NotContains(t, out.Turn, "perceptual_score")
	require.NotContains(t, out.Turn, "dino_score")
	require.Equal(t, 0.5, out.Turn["dreamsim_score"])
}

// broken is a scorer that always fails.
type broken struct{}

func (broken) Score(context.Context, image.Image, image.Image) (float64, error) {
	return 0, fmt.Errorf("scorer: %w", ErrScore)
}

func TestAFailingScorerIsAnErrorAndNotZero(t *testing.T) {
	e := start(t, func(o *Options) { o.DINO = broken{} })
	_, err := e.Step(t.Context(), answer(square))
	require.ErrorIs(t, err, ErrScore)
	out := play(t, e, "no")
	require.True(t, out.Done, "without code there is nothing to score")
}

func TestCodeBeyondTheLimitsGivesAWhitePicture(t *testing.T) {
	e := start(t, func(*Options) {})
	uses := `<g id="a0"><rect width="1" height="1"/></g>`
	for i := range 20 {
		uses += fmt.Sprintf(`<g id="a%d"><use href="#a%d"/><use href="#a%d"/></g>`, i+1, i, i)
	}
	out := play(t, e, answer("<svg>"+uses+"</svg>"))
	require.Equal(t, 1.0, out.Turn["action_is_valid"])
	require.Equal(t, blank(), out.Observation.Images[0])
}

func TestImageMarksInCodeAreEscaped(t *testing.T) {
	for _, rules := range []Rules{Episode, Service} {
		e := start(t, func(o *Options) { o.Rules = rules })
		out := play(t, e, "<svg><image></image></svg>")
		require.Equal(t, 1, strings.Count(out.Observation.Text, env.ImageMark))
	}
}

func TestPromptsShowAnExampleThatIsAccepted(t *testing.T) {
	for _, rules := range []Rules{Episode, Service} {
		for _, format := range options.Formats(env.Legacy, reward.Legacy, "_symbolic", "_structured") {
			e := start(t, func(o *Options) { o.Rules, o.PromptFormat, o.MaxActions = rules, format, 2 })
			system := envtest.System(t, e)
			_, example, found := strings.Cut(system.Text, "For example:\n")
			require.True(t, found)
			require.Contains(t, system.Text, `"~~"`)
			out := play(t, e, example)
			require.Equal(t, 1.0, out.Turn["action_is_valid"], "%s %s", rules, format)
			require.Equal(t, 0.5, out.Reward.Of(partFormat), "%s %s", rules, format)
		}
	}
}

func TestSeedsSelectTheSamplesThatPythonSelects(t *testing.T) {
	var samples []Sample
	for i := range 1000 {
		samples = append(samples, Sample{Name: fmt.Sprint(i), Code: square})
	}
	d, err := NewDataset(samples)
	require.NoError(t, err)
	// random.Random(s).randint(0, 999) for s = 0, 1, 42 in CPython 3.
	for seed, want := range map[int64]string{0: "864", 1: "137", 42: "654"} {
		require.Equal(t, want, d.Pick(seed).Name)
	}
	var stream numpyrand.MT19937
	stream.SeedPython(7)
	require.Equal(t, fmt.Sprint(stream.Below(1000)), d.Pick(7).Name)
	require.Equal(t, d.Pick(7), d.Pick(-7), "as in Python")
}

func TestDataComesFromFoldersAndLines(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Write(t, path, text)
	}
	write("a/b.svg", square)
	write("a/a.SVG", "<svg/>")
	write("a/notes.txt", "no")
	write("some-set/train/x.svg", square)
	write("some-set/val.jsonl", `{"Svg":"<svg/>","Filename":"one.svg"}`+"\n\n"+`{"svg":"<svg> </svg>"}`+"\n")
	write("bad.jsonl", `{"Svg":"<svg/>"}`+"\n{")
	write("large/a.svg", "")
	require.NoError(t, os.Truncate(filepath.Join(dir, "large/a.svg"), maxLine+1))
	write("empty.jsonl", `{"Filename":"one"}`)
	write("latin.jsonl", "\xef\xbb\xbf"+`{"Svg":"<svg/>"}`+"\n"+`{"Svg":"<svg>caf`+"\xe9\"}")

	d, err := load(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, []Sample{{"a.SVG", "<svg/>"}, {"b.svg", square}}, d.samples)
	d, err = load(filepath.Join(dir, "some-set", "val.jsonl"))
	require.NoError(t, err)
	require.Equal(t, []Sample{{"one.svg", "<svg/>"}, {"image_1", "<svg> </svg>"}}, d.samples)

	of := func(split string) (*Env, error) {
		made, err := FromConfig(map[string]any{"data_dir": dir, "dataset_name": "some/set", "split": split})
		if err != nil {
			return nil, err
		}
		return made.(*Env), nil
	}
	train, err := of("train")
	require.NoError(t, err)
	require.Equal(t, "x.svg", train.data.At(0).Name)
	again, err := of("train")
	require.NoError(t, err)
	require.Same(t, train.data, again.data, "data are read once")
	val, err := of("val")
	require.NoError(t, err)
	require.Equal(t, 2, val.data.Len())

	for path, want := range map[string]string{
		"none": "no such file", "bad.jsonl": "line 2", "latin.jsonl": "line 2: byte 17: 0xe9 is not UTF-8",
		"empty.jsonl": "line 1: the field Svg", "some-set": "",
		"large": "a.svg has 16777217 bytes, at most 16777216 are allowed",
	} {
		_, err := load(filepath.Join(dir, path))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		testkit.Error(t, err, ErrDataset, want)
	}
	_, err = FromConfig(map[string]any{"data_dir": filepath.Join(dir, "gone")})
	require.ErrorIs(t, err, ErrDataset)
	_, err = NewDataset(nil)
	require.ErrorIs(t, err, ErrDataset)
	_, err = NewFrom(DefaultOptions(), nil)
	require.ErrorIs(t, err, ErrDataset)
}

func TestIconsAreValidAndDiffer(t *testing.T) {
	d := Icons()
	require.GreaterOrEqual(t, d.Len(), 30)
	seen := make(map[string]string)
	for i := range d.Len() {
		s := d.At(i)
		require.NoError(t, checkCode(s.Code), s.Name)
		img, err := render(t.Context(), s.Code)
		require.NoError(t, err, s.Name)
		require.Greater(t, darkness(img), 10.0, s.Name)
		require.Empty(t, seen[string(img.(*image.RGBA).Pix)], s.Name)
		seen[string(img.(*image.RGBA).Pix)] = s.Name
	}
}

func TestErrorsNameTheSampleThatCannotBeDrawn(t *testing.T) {
	d, err := NewDataset([]Sample{{"broken.svg", "nothing"}})
	require.NoError(t, err)
	e, err := NewFrom(DefaultOptions(), d)
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), 3)
	require.ErrorContains(t, err, "broken.svg")
	_, err = e.Step(t.Context(), "")
	require.ErrorIs(t, err, env.ErrNotReset)
}

func TestInvalidOptionsAreReported(t *testing.T) {
	envtest.Refused(t, FromConfig)
	e, err := FromConfig(envtest.Options(`dino_weight: 1, dino_url: 'http://localhost:1', dreamsim_weight: 2,
		dreamsim_url: 'http://localhost:2', device: {dino: 0}, seed: 42, score_timeout: 1.5`))
	require.NoError(t, err)
	require.IsType(t, &HTTPScorer{}, e.(*Env).Options().DINO)
}

func FuzzStep(f *testing.F) {
	f.Add(answer(square), false)
	f.Add("<svg><image></svg>", true)
	f.Add("<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer><svg><path d='M0 0A1 1 1 1 1 1 1'/></svg></answer>", false)
	f.Fuzz(func(t *testing.T, response string, service bool) {
		o := DefaultOptions()
		if service {
			o.Rules = Service
		}
		e, err := New(o)
		require.NoError(t, err)
		if _, err := e.Reset(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		out := envtest.Play(t, e, response)
		if n := strings.Count(out.Observation.Text, env.ImageMark); n != 1 {
			t.Errorf("%d marks", n)
		}
		if s := out.Reward.Sum(); s < 0 || s > 5.5 {
			t.Errorf("reward %v", s)
		}
	})
}

func FuzzExtract(f *testing.F) {
	f.Add("x <svg a></svg> y")
	f.Add("<svg<svg></svg")
	f.Fuzz(func(t *testing.T, text string) {
		code := extract(text)
		if code != "" && (!strings.HasPrefix(code, "<svg") || !strings.HasSuffix(code, "</svg>") ||
			!strings.Contains(text, code)) {
			t.Errorf("%q", code)
		}
	})
}

// TestSplitsWithoutDataAreRefused: otherwise training and evaluation would use the same
// drawings.
func TestSplitsWithoutDataAreRefused(t *testing.T) {
	for option, value := range map[string]string{"split": "test", "dataset_name": "somebody/icons"} {
		_, err := FromConfig(map[string]any{option: value})
		testkit.Error(t, err, env.ErrOption, option, "set data_dir")

		dir := t.TempDir()
		testkit.Write(t, filepath.Join(dir, "a.svg"), "<svg viewBox='0 0 9 9'/>")
		_, err = FromConfig(map[string]any{"data_dir": dir})
		require.NoError(t, err, "a plain folder is the data set by default")
		_, err = FromConfig(map[string]any{"data_dir": dir, option: value})
		testkit.Error(t, err, ErrDataset, value[len(value)-4:])
	}
}
