package svg

import (
	"context"
	"fmt"
	"image"
	"image/draw"
	"time"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/env/internal/words"
	svgdraw "vagen/env/svg/internal/draw"
	"vagen/reward"
)

// Names of the reward parts.
const (
	PartFormat  = "format"
	PartScore   = "score"
	PartInvalid = "invalid"
)

// Errors of the order of calls.
var (
	ErrNotReset = env.ErrNotReset
	ErrClosed   = env.ErrClosed
)

// Render draws SVG code into a square picture on white, size pixels a side. Code
// that is not well-formed is drawn as far as it can be understood. The errors are
// those of text that has no document, of code that costs too much, and of the
// context.
func Render(ctx context.Context, code string, size int) (*image.RGBA, error) {
	if size < 1 || size > maxSize {
		return nil, fmt.Errorf("svg: a picture of %d pixels a side; allowed are 1..%d", size, maxSize)
	}
	img, err := svgdraw.Render(ctx, code, size, svgdraw.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("svg: %w", err)
	}
	return img, nil
}

// maxSize bounds the side of pictures that Render draws.
const maxSize = 4096

// Env is one live environment. It implements env.Env.
type Env struct {
	calls   calls.Guard
	o       Options
	weights Scores
	data    *Dataset
	parser  *reward.Parser // reads responses
	format  *reward.Parser // writes prompts; the same but under Service rules
	render  func(ctx context.Context, code string) (image.Image, error)

	sample  Sample
	target  image.Image // nil before the first Reset
	edges   []bool      // of the target; nil until they are needed
	inks    []ink       // likewise
	attempt image.Image // what the last turn drew
	last    float64     // total score of the turn before
	scored  bool        // there was one
}

var _ env.Env = (*Env)(nil)

// New makes an environment. Errors list everything that is wrong with the
// options.
func New(o Options) (*Env, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	data, err := o.dataset()
	if err != nil {
		return nil, err
	}
	return NewFrom(o, data)
}

// NewFrom is New with targets from a data set that the caller has.
func NewFrom(o Options, data *Dataset) (*Env, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if data == nil || data.Len() == 0 {
		return nil, fmt.Errorf("svg: %w: it has no samples", ErrDataset)
	}
	timeout := time.Duration(o.ScoreTimeout * float64(time.Second))
	if o.DINO == nil && o.DINOURL != "" {
		o.DINO = &HTTPScorer{URL: o.DINOURL, Metric: "dino", Model: o.ModelSize, Timeout: timeout}
	}
	if o.DreamSim == nil && o.DreamSimURL != "" {
		o.DreamSim = &HTTPScorer{URL: o.DreamSimURL, Metric: "dreamsim", Timeout: timeout}
	}
	po := reward.ParserOptions{Dialect: reward.Legacy, ActionSep: o.ActionSep, MaxActions: o.MaxActions, SpecialTokens: o.SpecialTokens}
	format, err := reward.NewParser(o.PromptFormat, po)
	if err != nil {
		return nil, fmt.Errorf("svg: %w", err)
	}
	e := &Env{calls: calls.Guard{Env: "svg"}, o: o, weights: o.weights(), data: data, parser: format, format: format}
	if o.Rules == Service {
		if e.parser, err = reward.NewParser("raw_response", po); err != nil {
			return nil, fmt.Errorf("svg: %w", err)
		}
	}
	e.render = func(ctx context.Context, code string) (image.Image, error) { return Render(ctx, code, Size) }
	return e, nil
}

// System returns the system prompt.
func (e *Env) System(ctx context.Context) (env.Observation, error) {
	if err := e.calls.Open(ctx); err != nil {
		return env.Observation{}, err
	}
	return env.Observation{Text: e.systemPrompt()}, nil
}

// Reset shows the picture of the seed's sample. A sample that can't be drawn is
// an error that names it.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.calls.Open(ctx); err != nil {
		return env.Observation{}, err
	}
	sample := e.data.Pick(seed)
	target, err := e.render(ctx, sample.Code)
	if err != nil {
		return env.Observation{}, fmt.Errorf("svg: reset: seed %d: sample %q: %w", seed, sample.Name, err)
	}
	e.sample, e.target, e.edges, e.inks, e.attempt, e.last, e.scored = sample, target, nil, nil, nil, 0, false
	return env.Observation{Text: e.targetText(), Images: []image.Image{target}}, nil
}

// Step draws the code of one response and scores it. It never fails because of
// the text: code that is valid but takes too much work to draw is an empty sheet.
// It fails, with ErrScore, when a scorer gives no score. Turns played after a
// turn that was done are judged like any other.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.calls.Step(ctx, e.target != nil); err != nil {
		return env.Outcome{}, err
	}
	out := env.Outcome{Response: e.parser.Parse(response), Trajectory: env.Metrics{"success": 0}}
	code := accepted(response, &out.Response)
	if code == "" {
		e.reject(&out)
		return out, nil
	}
	drawing, err := e.draw(ctx, code)
	if err != nil {
		return env.Outcome{}, err
	}
	scores, err := e.score(ctx, drawing)
	if err != nil {
		return env.Outcome{}, err
	}
	e.attempt = drawing
	e.accept(&out, scores)
	out.Observation = env.Observation{Text: e.attemptText(code, out.Reward.Sum()), Images: []image.Image{drawing}}
	return out, nil
}

// accepted returns the valid SVG of a response, "" when there is none, and makes
// it the only action. Without an action it is looked for in the whole text.
func accepted(text string, r *reward.Response) string {
	from := text
	if len(r.Actions) > 0 {
		from = r.Actions[0]
	}
	r.Actions = nil
	code := Extract(from)
	if code == "" || Check(code) != nil {
		return ""
	}
	r.Actions = []string{code}
	return code
}

// draw renders an attempt; what can't be drawn is an empty sheet, as in the
// original.
func (e *Env) draw(ctx context.Context, code string) (image.Image, error) {
	img, err := e.render(ctx, code)
	switch {
	case err == nil:
		return img, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("svg: step: %w", context.Cause(ctx))
	}
	return blank(), nil
}

func blank() image.Image {
	img := image.NewRGBA(image.Rect(0, 0, Size, Size))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	return img
}

// score compares a drawing with the target by every measure in use.
func (e *Env) score(ctx context.Context, drawing image.Image) (s Scores, err error) {
	for _, by := range []struct {
		scorer Scorer
		score  *float64
	}{{e.o.DINO, &s.DINO}, {e.o.DreamSim, &s.DreamSim}} {
		if by.scorer == nil {
			continue
		}
		if *by.score, err = by.scorer.Score(ctx, e.target, drawing); err != nil {
			return s, fmt.Errorf("svg: step: %w", err)
		}
	}
	if e.weights.Structural > 0 || e.o.Rules == Service {
		if e.edges == nil {
			e.edges = Edges(e.target)
		}
		s.Structural = overlap(e.edges, Edges(drawing))
	}
	if e.weights.Perceptual > 0 {
		if e.inks == nil {
			e.inks = pyramidOf(e.target)
		}
		s.Perceptual = likeness(e.inks, pyramidOf(drawing))
	}
	return s, nil
}

// accept pays for a turn with valid code.
func (e *Env) accept(out *env.Outcome, s Scores) {
	total := s.Total(e.weights)
	if out.Response.FormatCorrect || e.o.Rules == Service {
		out.Reward = append(out.Reward, reward.Part{Name: PartFormat, Value: e.o.FormatReward})
	}
	out.Reward = append(out.Reward, reward.Part{Name: PartScore, Value: total})
	effective := total > 0
	if e.o.Rules == Service && e.scored {
		effective = total > e.last
	}
	e.last, e.scored = total, true
	out.Turn = env.Metrics{"action_is_valid": 1, "action_is_effective": words.Number(effective), "total_score": total}
	e.measure(out, s)
	if e.o.Rules == Service {
		out.Turn["svg_is_valid"] = 1
	}
}

// reject pays for a turn without valid code.
func (e *Env) reject(out *env.Outcome) {
	out.Reward = reward.Parts{{Name: PartInvalid, Value: e.o.FormatPenalty}}
	out.Done = e.o.Rules == Episode
	out.Turn = env.Metrics{"action_is_valid": 0, "action_is_effective": 0, "total_score": 0}
	e.measure(out, Scores{})
	if e.o.Rules == Service {
		out.Turn["svg_is_valid"] = 0
	}
	e.last, e.scored, e.attempt = 0, true, nil
	out.Observation = env.Observation{Text: e.attemptText("", e.o.FormatPenalty), Images: []image.Image{blank()}}
}

// measure adds a metric for every score in use.
func (e *Env) measure(out *env.Outcome, s Scores) {
	service := e.o.Rules == Service
	for _, m := range []struct {
		name  string
		used  bool
		score float64
	}{
		{"dino_score", service || e.o.DINO != nil, s.DINO},
		{"dreamsim_score", service || e.o.DreamSim != nil, s.DreamSim},
		{"structural_score", service || e.weights.Structural > 0, s.Structural},
		{"perceptual_score", e.weights.Perceptual > 0, s.Perceptual},
	} {
		if m.used {
			out.Turn[m.name] = m.score
		}
	}
}

// Close ends the use of the environment.
func (e *Env) Close() error { return e.calls.Close() }

// Sample returns the drawing to reproduce in the current episode.
func (e *Env) Sample() Sample { return e.sample }

// Target returns its picture, nil before the first Reset. It must not be changed.
func (e *Env) Target() image.Image { return e.target }

// Attempt returns the picture of the last turn, nil when there was none or its
// code was not valid. It must not be changed.
func (e *Env) Attempt() image.Image { return e.attempt }

// Parser returns what reads the responses.
func (e *Env) Parser() *reward.Parser { return e.parser }

// Options returns the settings.
func (e *Env) Options() Options { return e.o }
