package options

import (
	"vagen/env"
	"vagen/internal/field"
)

// Texts holds the options that replace the texts of an environment, see package prompts.
type Texts struct {
	Prompts   map[string]any `option:"prompts" kind:"text"`    // templates by part: system, first, later, format
	PromptDir string         `option:"prompt_dir" kind:"path"` // folder with these templates in files: system.txt, …
	// Layout is the version of VAGEN whose arrangement of observations is used: legacy repeats
	// the format instruction, and Navigation's task, in every observation; lite and next say
	// them at the beginning. "" means that of the rules.
	Layout string `option:"layout" kind:"text"`
}

// LayoutOf returns the arrangement of observations of the options, under the given rules.
func (t *Texts) LayoutOf(r env.Rules) env.Rules {
	if t.Layout == "" {
		return r
	}
	return env.Rules(t.Layout)
}

// CheckLayout checks the arrangement of observations; allowed are those that the
// environment has.
func CheckLayout(c *field.Checks, t *Texts, allowed ...env.Rules) {
	if t.Layout == "" {
		return
	}
	names := make([]string, len(allowed))
	for i, r := range allowed {
		names[i] = string(r)
	}
	c.OneOf("layout", t.Layout, names...)
}
