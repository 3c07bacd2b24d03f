package options

import (
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/field"
	"vagen/reward"
)

// Response holds the options of prompts and responses, which every environment has.
type Response struct {
	RenderMode     string   `option:"render_mode" kind:"text" oneof:"text vision"` // env.Text or env.Vision
	PromptFormat   string   `option:"prompt_format" kind:"text"`                   // a format of the rule set, see package reward
	FormatSections []string `option:"format_sections" kind:"text"`                 // tags of a format of your own, see reward.NewTagged
	MaxActions     int      `option:"max_actions_per_step" count:"positive"`
	ActionSep      string   `option:"action_sep" kind:"text"`
	// must be env.ImageMark; accepted for old configurations
	ImagePlaceholder string   `option:"image_placeholder" kind:"text"`
	SpecialTokens    []string `option:"special_token_list" kind:"text" rules:"legacy"` // removed from sections
	FormatReward     float64  `option:"format_reward"`
	Texts
}

// LegacyTokens are the special tokens of the legacy environments.
func LegacyTokens() []string { return []string{"<think>", "</think>", "<answer>", "</answer>"} }

// StateReward holds the options of judged state reward. UseStateReward attaches claims
// for a judge to the outcomes of turns whose format is rewarded; the weights are those of
// a perfect claim. Under the lite rules there is none.
type StateReward struct {
	UseStateReward      bool    `option:"use_state_reward"`
	GroundingWeight     float64 `option:"grounding_reward_weight" with:"use_state_reward"`
	WorldModelingWeight float64 `option:"worldmodeling_reward_weight" with:"use_state_reward"`
}

// Ruled holds the options of the environments with the rule sets Lite, Legacy and Next.
type Ruled struct {
	Rules env.Rules `option:"rules" kind:"text" oneof:"lite legacy next"` // selects the other defaults, too
	Response
	SuccessReward float64 `option:"success_reward" rules:"lite next"`
	StateReward
}

// DefaultRuled returns what all environments publish for a rule set, Lite for an unknown
// one.
func DefaultRuled(r env.Rules) Ruled {
	o := Ruled{Rules: env.Lite, Response: Response{RenderMode: env.Vision, ImagePlaceholder: env.ImageMark},
		SuccessReward: 1}
	switch r {
	case env.Next:
		o.Rules, o.GroundingWeight, o.WorldModelingWeight = r, 0.006, 0.006
	case env.Legacy:
		o.Rules, o.PromptFormat, o.FormatReward, o.SpecialTokens = r, "grounding_worldmodeling", 0.5, LegacyTokens()
		o.GroundingWeight, o.WorldModelingWeight = 0.5, 0.5
	}
	return o
}

// Described holds the options of environments whose agents describe the state in the words of
// Env.Describe, and whose prompts can be brief.
type Described struct {
	Prompt   string  `option:"prompt" kind:"text" oneof:"full brief"` // full, or brief for models with a small vocabulary
	TurnCost float64 `option:"turn_cost"`                             // subtracted on every turn

	// ObservationReward and PredictionReward pay for sections that say the state in the
	// words of Env.Describe: the share of right words times this weight, on turns whose
	// format is rewarded. The format must have the section.
	ObservationReward float64 `option:"observation_reward"`
	PredictionReward  float64 `option:"prediction_reward"`
}

// Describing reports whether sections of a format are to be written in the words of
// Env.Describe.
func (d *Described) Describing(format string) bool {
	return d.ObservationReward != 0 || d.PredictionReward != 0 || format == reward.ObservePredict
}

// CheckDescribed checks the options of prompts and descriptions. The dialect is that of the lite rules.
func CheckDescribed(c *field.Checks, d *Described, o *Ruled, lite reward.Dialect) {
	p, err := NewParser(&o.Response, reward.ParserOptions{Dialect: Dialect(o.Rules, lite)})
	if err != nil {
		return // CheckResponse reports it
	}
	paid := func(name string, weight float64, section string) {
		if weight != 0 && !slices.Contains(p.Sections(), section) {
			c.Bad(name, "%v, but the format %q has no section %s; its sections are %s", weight, o.PromptFormat, section,
				strings.Join(p.Sections(), ", "))
		}
	}
	paid("observation_reward", d.ObservationReward, reward.SectionObservation)
	paid("prediction_reward", d.PredictionReward, reward.SectionPrediction)
}

// Level holds the options of the environments on a grid of cells.
type Level struct {
	Ruled
	Described
	Desc     []string `option:"desc" kind:"text"`         // rows of a fixed level instead of a drawn one, as Parse reads them
	TileSize int      `option:"tile_size" range:"14,128"` // pixels of a cell's side
	Shading  bool     `option:"shading"`                  // colours depend on row and column, so that a cell shows its position

	UseExample   bool   `option:"use_example_in_sys_prompt"`
	StrictFormat bool   `option:"strict_format"`        // a malformed turn does nothing; next only
	EnvName      string `option:"env_name" kind:"text"` // the environment's own name or "", for old configurations
}

// Brief is the value of the option prompt for the shortest prompts.
const Brief = "brief"

// DefaultDescribed has full prompts and pays for no description.
func DefaultDescribed() Described { return Described{Prompt: "full"} }

// DefaultLevel is DefaultRuled for grids, with cells of 28 pixels.
func DefaultLevel(r env.Rules) Level {
	o := Level{Ruled: DefaultRuled(r), Described: DefaultDescribed(), TileSize: 28, Shading: true, UseExample: true,
		StrictFormat: r == env.Next}
	o.ActionSep = ","
	if o.Rules != env.Legacy {
		o.RenderMode = env.Text
	}
	return o
}

// Describing reports whether sections are to be written in the words of Env.Describe.
func Describing(o *Level) bool { return o.Described.Describing(o.PromptFormat) }

// Positional reports whether sections are to be written in the words that judges read by
// rule: when they are rewarded and the format requires no other notation.
func Positional(o *Level) bool {
	return o.UseStateReward && !Describing(o) && !strings.HasSuffix(o.PromptFormat, "_symbolic") &&
		!strings.HasSuffix(o.PromptFormat, "_structured")
}

// CheckResponse checks the options of prompts and responses.
func CheckResponse(c *field.Checks, o *Response, formats []string) {
	if len(o.FormatSections) > 0 {
		if _, err := NewParser(o, reward.ParserOptions{Dialect: reward.Legacy}); err != nil {
			c.Bad("format_sections", "%v", err)
		}
	} else if formats != nil {
		c.OneOf("prompt_format", o.PromptFormat, formats...)
	}
	if o.ActionSep == "" {
		c.Bad("action_sep", "empty, must be a non-empty text")
	}
	if o.ImagePlaceholder != env.ImageMark {
		c.Bad("image_placeholder", "%q, must be %q", o.ImagePlaceholder, env.ImageMark)
	}
}

// CheckRuled checks a rule set and its options; formats are those with a prompt.
func CheckRuled(c *field.Checks, o *Ruled, formats []string) {
	CheckResponse(c, &o.Response, formats)
	CheckLayout(c, &o.Texts, env.Legacy, env.Lite, env.Next)
	CheckStateReward(c, &o.StateReward, o.Rules, &o.Response)
}

// CheckLevel checks the options of grids.
func CheckLevel(c *field.Checks, o *Level) {
	CheckRuled(c, &o.Ruled, Formats(o.Rules, reward.Lite))
	CheckDescribed(c, &o.Described, &o.Ruled, reward.Lite)
	if o.Rules != env.Next && o.StrictFormat {
		c.Bad("strict_format", "true, but the %s rules have no such option; next have", o.Rules)
	}
}

// Dialect returns the dialect of a rule set, which has the given one under the lite rules.
func Dialect(rules env.Rules, lite reward.Dialect) reward.Dialect {
	switch rules {
	case env.Legacy:
		return reward.Legacy
	case env.Next:
		return reward.Next
	}
	return lite
}

// NewParser returns the parser of the options' format: that of a dialect, or one of its own, which has
// the rules of Legacy in that dialect and those of Lite in the others.
func NewParser(o *Response, po reward.ParserOptions) (*reward.Parser, error) {
	if len(o.FormatSections) == 0 {
		return reward.NewParser(o.PromptFormat, po)
	}
	if po.Dialect != reward.Legacy {
		po.Dialect, po.KeepCase, po.AnswerBox = reward.Lite, false, false
	}
	return reward.NewTagged(o.PromptFormat, o.FormatSections, po)
}

// CheckStateReward refuses judged state reward with a rule set without it, or with a
// format that makes no statements about the state.
func CheckStateReward(c *field.Checks, o *StateReward, rules env.Rules, response *Response) {
	format := response.PromptFormat
	if use := response.FormatSections; slices.Contains(use, reward.SectionObservation) ||
		slices.Contains(use, reward.SectionPrediction) {
		format = reward.ObservePredict // makes the same statements
	}
	use := map[env.Rules][]string{env.Legacy: {"grounding", "worldmodeling", "grounding_worldmodeling"},
		env.Next: {"wm"}}[rules]
	switch {
	case !o.UseStateReward || format == reward.ObservePredict && rules != env.Lite:
	case rules == env.Lite:
		c.Bad("use_state_reward", "true, but the lite rules have no judged state reward")
	case use != nil && !slices.ContainsFunc(use, func(part string) bool { return strings.Contains(format, part) }):
		c.Bad("use_state_reward", "true, but the format %q contains no statements about the state; use %s", format,
			strings.Join(use, ", "))
	}
}

// CheckEnvName checks the name of the environment, which old configurations repeat among
// the options.
func CheckEnvName(c *field.Checks, name, own string) {
	if name != "" {
		c.OneOf("env_name", name, own)
	}
}
