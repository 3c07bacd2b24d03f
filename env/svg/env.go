package svg

import (
	"context"
	"fmt"
	"image"
	"image/draw"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/turns"
	"vagen/env/internal/words"
	svgdraw "vagen/env/svg/internal/draw"
	"vagen/internal/clock"
	"vagen/reward"
)

// Names of the reward parts.
const (
	partFormat  = "format"
	partScore   = "score"
	partInvalid = "invalid"
)

// render draws SVG code into a square picture on white with sides of pictureSize. Of
// code that is not well-formed it draws the part that it can read. It returns an error
// for text without a document, for code that exceeds the drawing limits, and when the
// context ends.
func render(ctx context.Context, code string) (image.Image, error) {
	img, err := svgdraw.Render(ctx, code, pictureSize, svgdraw.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("svg: %w", err)
	}
	return img, nil
}

// Env is one live environment. It implements env.Env.
type Env struct {
	turns.Base // its parser writes prompts
	o          Options
	weights    scores
	data       *Dataset
	parser     *reward.Parser // reads responses; another one under Service rules
	render     func(ctx context.Context, code string) (image.Image, error)

	sample  Sample
	target  image.Image // nil before the first Reset
	edges   []bool      // of the target; nil until they are needed
	inks    []ink       // likewise
	attempt image.Image // picture of the last turn
	code    string      // of attempt
	last    float64     // total score of the turn before
	scored  bool        // whether there was a turn before
}

var (
	_ env.Env     = (*Env)(nil)
	_ env.Factory = FromConfig
)

// New creates an environment. The error lists all invalid options.
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

// NewFrom is New with targets from the caller's data set.
func NewFrom(o Options, data *Dataset) (*Env, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if data == nil || data.Len() == 0 {
		return nil, fmt.Errorf("svg: %w: no samples; at least one is needed", ErrDataset)
	}
	timeout := clock.Seconds(o.ScoreTimeout)
	if o.DINO == nil && o.DINOURL != "" {
		o.DINO = &HTTPScorer{URL: o.DINOURL, Metric: "dino", Model: o.ModelSize, Timeout: timeout}
	}
	if o.DreamSim == nil && o.DreamSimURL != "" {
		o.DreamSim = &HTTPScorer{URL: o.DreamSimURL, Metric: "dreamsim", Timeout: timeout}
	}
	ruled := options.Ruled{Rules: env.Legacy, Response: o.Response}
	base, err := turns.New("svg", nil, ruled, placeholders, reward.ParserOptions{})
	if err != nil {
		return nil, err
	}
	e := &Env{Base: base, o: o, weights: o.weights(), data: data, parser: base.Parser(), render: render}
	e.Prompt = turns.Prompt{Own: ownSystem, Format: e.ownFormat, Example: e.example, Shown: true}
	if o.Rules == Service {
		po := reward.ParserOptions{Dialect: reward.Legacy, ActionSep: o.ActionSep, MaxActions: o.MaxActions,
			SpecialTokens: o.SpecialTokens}
		if e.parser, err = reward.NewParser("raw_response", po); err != nil {
			return nil, fmt.Errorf("svg: %w", err)
		}
	}
	return e, nil
}

// Reset starts the episode of the seed with the picture of its sample. If the sample
// cannot be drawn, the error names it.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.Calls.Open(ctx); err != nil {
		return env.Observation{}, err
	}
	sample := e.data.Pick(seed)
	target, err := e.render(ctx, sample.Code)
	if err != nil {
		return env.Observation{}, fmt.Errorf("svg: reset: seed %d: sample %q: %w", seed, sample.Name, err)
	}
	e.sample, e.target, e.edges, e.inks = sample, target, nil, nil
	e.attempt, e.code, e.last, e.scored = nil, "", 0, false
	return env.Observation{Text: e.targetText(), Images: []image.Image{target}}, nil
}

// Step draws the code of one response and scores it. No response text makes it fail:
// valid code that exceeds the drawing limits counts as a white picture. It fails with
// ErrScore when a scorer returns no score. Turns after the end are scored, too.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.Calls.Step(ctx, e.target != nil); err != nil {
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
	e.attempt, e.code = drawing, code
	e.accept(&out, scores)
	out.Observation = env.Observation{Text: e.attemptText(code, out.Reward.Sum()), Images: []image.Image{drawing}}
	return out, nil
}

// accepted returns the valid SVG of a response, "" if there is none, and makes it the
// only action. It searches the first action, or the whole text if there is no action.
func accepted(text string, r *reward.Response) string {
	from := text
	if len(r.Actions) > 0 {
		from = r.Actions[0]
	}
	r.Actions = nil
	code := extract(from)
	if code == "" || checkCode(code) != nil {
		return ""
	}
	r.Actions = []string{code}
	return code
}

// draw renders an attempt. As in the original, code that cannot be drawn gives a white
// picture.
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
	img := image.NewRGBA(image.Rect(0, 0, pictureSize, pictureSize))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	return img
}

// score compares a drawing with the target by every measure in use.
func (e *Env) score(ctx context.Context, drawing image.Image) (s scores, err error) {
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
			e.edges = edgesIn(e.target)
		}
		s.Structural = overlap(e.edges, edgesIn(drawing))
	}
	if e.weights.Perceptual > 0 {
		if e.inks == nil {
			e.inks = pyramidOf(e.target)
		}
		s.Perceptual = similarity(e.inks, pyramidOf(drawing))
	}
	return s, nil
}

// accept sets the rewards and metrics of a turn with valid code.
func (e *Env) accept(out *env.Outcome, s scores) {
	total := s.total(e.weights)
	if out.Response.FormatCorrect || e.o.Rules == Service {
		out.Reward = append(out.Reward, reward.Part{Name: partFormat, Value: e.o.FormatReward})
	}
	out.Reward = append(out.Reward, reward.Part{Name: partScore, Value: total})
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

// reject sets the rewards and metrics of a turn without valid code.
func (e *Env) reject(out *env.Outcome) {
	out.Reward = reward.Parts{{Name: partInvalid, Value: e.o.FormatPenalty}}
	out.Done = e.o.Rules == Episode
	out.Turn = env.Metrics{"action_is_valid": 0, "action_is_effective": 0, "total_score": 0}
	e.measure(out, scores{})
	if e.o.Rules == Service {
		out.Turn["svg_is_valid"] = 0
	}
	e.last, e.scored, e.attempt, e.code = 0, true, nil, ""
	out.Observation = env.Observation{Text: e.attemptText("", e.o.FormatPenalty), Images: []image.Image{blank()}}
}

// measure adds a metric for every score in use.
func (e *Env) measure(out *env.Outcome, s scores) {
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

// Sample returns the drawing to reproduce in the current episode.
func (e *Env) Sample() Sample { return e.sample }

// Target returns the sample's picture, nil before the first Reset. It must not be
// changed.
func (e *Env) Target() image.Image { return e.target }

// Attempt returns the picture of the last turn, nil when there was none or its
// code was not valid. It must not be changed.
func (e *Env) Attempt() image.Image { return e.attempt }

// Parser returns the parser of responses.
func (e *Env) Parser() *reward.Parser { return e.parser }

// Options returns the settings.
func (e *Env) Options() Options { return e.o }
