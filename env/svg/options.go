package svg

import (
	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/reward"
)

// Rules names how a turn is judged.
type Rules string

// The rule sets: the original's single environment, and the original's batch service, which
// was used for training.
const (
	Episode Rules = "episode"
	Service Rules = "service"
)

// pictureSize is the side of pictures in pixels.
const pictureSize = 256

// Options are an environment's settings; DefaultOptions returns the published ones. The
// tags are their names in configurations.
type Options struct {
	// Rules selects the behaviour in the table below.
	//
	//	                     episode                      service
	//	reads a response     as PromptFormat says         as free_think, found anywhere
	//	valid turn           holds valid SVG              the same
	//	pays FormatReward    valid and format correct     valid
	//	invalid turn         pays FormatPenalty, is done  pays FormatPenalty
	//	action_is_effective  total score above 0          above the turn before
	//	structural score     if it has a weight           always
	//	more turn metrics                                 svg_is_valid, dino_score,
	//	                                                  dreamsim_score
	Rules Rules `option:"rules" kind:"text" oneof:"episode service"`

	// The format is one of the legacy environments. Of a response's actions the first
	// counts, as in the original, and observations are always pictures.
	options.Response

	// DataDir is a folder of SVG files, a file of JSON lines, or a folder that
	// holds one of these as <dataset name with / as ->/<split>, the file with
	// .jsonl behind; see load. "" means the icons of this package, which have no
	// splits.
	DataDir     string `option:"data_dir" kind:"path"`
	DatasetName string `option:"dataset_name" kind:"text"`
	Split       string `option:"split" kind:"text"`

	FormatPenalty float64 `option:"format_penalty"` // added, so it is negative or 0

	// Weights of the scores in the reward; nil means 0. Without any of them the
	// perceptual score has the weight defaultPerceptual.
	DINOWeight       *float64 `option:"dino_weight" least:"0"`
	DreamSimWeight   *float64 `option:"dreamsim_weight" least:"0"`
	StructuralWeight *float64 `option:"structural_weight" least:"0"`
	PerceptualWeight *float64 `option:"perceptual_weight" least:"0"`

	// DINOURL and DreamSimURL are the services that give these scores, see
	// HTTPScorer; a scorer set on DINO or DreamSim comes first. A score with a
	// scorer is always asked for, so that its metric is there whatever its weight.
	DINOURL      string  `option:"dino_url" kind:"address"`
	DreamSimURL  string  `option:"dreamsim_url" kind:"address"`
	ScoreTimeout float64 `option:"score_timeout" range:"0,3600"` // seconds of one try; 0 means 30
	DINO         Scorer
	DreamSim     Scorer
	ModelSize    string `option:"model_size" kind:"text" oneof:"small base large"` // the DINO model to use

	// These are read by no rule; old configurations have them. There is no state to
	// reward, and no text mode.
	Seed           int64          `option:"seed" noted:"the seed of an episode chooses its drawing"`
	Device         map[string]any `option:"device" kind:"text" noted:"the services of dino_url and dreamsim_url have devices of their own"`
	UseStateReward bool           `option:"use_state_reward"`
}

// defaultPerceptual is the weight of the perceptual score when no score has one.
const defaultPerceptual = 5

// DefaultOptions returns the published settings.
func DefaultOptions() Options {
	return Options{
		Response: options.Response{
			RenderMode: env.Vision, PromptFormat: "grounding_worldmodeling", ActionSep: "~~", MaxActions: 1,
			ImagePlaceholder: env.ImageMark, SpecialTokens: options.LegacyTokens(), FormatReward: 0.5,
		},
		Rules: Episode, DatasetName: "starvector/svg-icons-simple", Split: "train", ModelSize: "small", Seed: 42,
	}
}

// FromConfig creates an environment from named options on top of DefaultOptions. It is
// an env.Factory.
func FromConfig(config map[string]any) (env.Env, error) {
	return options.Make("svg", config, func(env.Rules) Options { return DefaultOptions() }, New)
}

// weights returns the weights of the scores.
func (o *Options) weights() scores {
	of := func(w *float64) float64 {
		if w == nil {
			return 0
		}
		return *w
	}
	w := scores{DINO: of(o.DINOWeight), DreamSim: of(o.DreamSimWeight), Structural: of(o.StructuralWeight),
		Perceptual: of(o.PerceptualWeight)}
	if o.DINOWeight == nil && o.DreamSimWeight == nil && o.StructuralWeight == nil && o.PerceptualWeight == nil {
		w.Perceptual = defaultPerceptual
	}
	return w
}

// Validate returns an error that lists all invalid options.
func (o *Options) Validate() error {
	c := options.Check("svg", o)
	options.CheckResponse(c, &o.Response, options.Formats(env.Legacy, reward.Legacy, "_symbolic", "_structured"))
	prompts.Load(c, &o.Response, placeholders)
	options.CheckLayout(c, &o.Texts, env.Legacy)
	if o.RenderMode == env.Text {
		c.Bad("render_mode", "%q, but drawings are pictures: must be %q", env.Text, env.Vision)
	}
	if o.UseStateReward {
		c.Bad("use_state_reward", "true, but a drawing has no state that could be claimed")
	}
	if o.DataDir == "" {
		own := DefaultOptions()
		for _, by := range []struct{ name, value, own string }{{"dataset_name", o.DatasetName, own.DatasetName},
			{"split", o.Split, own.Split}} {
			if by.value != by.own {
				c.Bad(by.name, "%q, but the built-in icons are one set without splits; set data_dir to a folder with the data",
					by.value)
			}
		}
	}
	w := o.weights()
	if w.DINO > 0 && o.DINO == nil && o.DINOURL == "" {
		c.Bad("dino_weight", "%v, but nothing gives the score: set dino_url", w.DINO)
	}
	if w.DreamSim > 0 && o.DreamSim == nil && o.DreamSimURL == "" {
		c.Bad("dreamsim_weight", "%v, but nothing gives the score: set dreamsim_url", w.DreamSim)
	}
	return c.Err()
}
